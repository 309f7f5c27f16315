//! libibmad's decoding: other people's code over the same octets, for tests and benches only.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::LazyLock;

use super::sys::{self, MAD_FIELDS};
use crate::mad::pma::{Attribute, DATA_LEN, Data, Field};

/// The octets of an attribute with room behind them: for a field that ends inside an octet libibmad reads whole words.
#[derive(Clone, Copy, Debug)]
pub struct Octets([u8; DATA_LEN + 64]);

impl Octets {
    /// Those of this attribute.
    pub fn new(data: &Data) -> Self {
        let mut octets = [0; DATA_LEN + 64];
        octets[..DATA_LEN].copy_from_slice(data);
        Self(octets)
    }
}

/// A value of a field that libibmad reads too.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    /// Our field.
    pub field: &'static Field,
    /// Which value of it.
    pub index: u8,
    /// libibmad's number for it: always of a field of one of the attributes of [`PERFORMANCE`] and [`SHORT`].
    number: MAD_FIELDS::Type,
}

impl Twin {
    /// What libibmad reads in it; of a GID its lower half.
    #[expect(unsafe_code, reason = "libibmad")]
    pub fn read(&self, octets: &Octets) -> u64 {
        let (octets, base): (*mut c_void, c_int) = (octets.0.as_ptr().cast_mut().cast(), 0);
        let mut gid = [0u8; 16];
        // SAFETY: the buffer is only read. Every field of those attributes lies within the data area, which is shorter than the buffer by more
        // than the widest of them; its only arrays are GIDs of 16 octets.
        unsafe {
            match self.field.width {
                0..=32 => u64::from(sys::mad_get_field(octets, base, self.number)),
                33..=64 => sys::mad_get_field64(octets, base, self.number),
                _ => {
                    sys::mad_get_array(octets, base, self.number, gid.as_mut_ptr().cast());
                    u128::from_be_bytes(gid) as u64
                }
            }
        }
    }
}

impl Twin {
    /// A field of an attribute that is not of performance management, by libibmad's name for it.
    ///
    /// # Panics
    /// If libibmad's header does not have it.
    pub fn named(field: &'static Field, name: &str) -> Self {
        let number = *NUMBERS.get(name).unwrap_or_else(|| panic!("{name} is not in libibmad's header"));
        Self { field, index: 0, number }
    }
}

/// What libibmad has a number for, of an attribute: by a table of its names (`tests/data/pma-fields.tsv`). It has none for OpCode in the header.
///
/// # Panics
/// If the table names a field that is not in libibmad's header.
pub fn twins(table: &str, attribute: &Attribute) -> Vec<Twin> {
    let rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let of_attribute = rows.filter(|row| row[1] == attribute.name && row[2] != "-");
    let names: BTreeMap<String, &str> = of_attribute.map(|row| (row[3].to_owned(), row[2])).collect();
    let values = attribute.fields.iter().flat_map(|field| (0..field.len).map(move |index| (field, index)));
    let twin = |(field, index): (&'static Field, u8)| {
        let name = if field.len > 1 { format!("{}{index}", field.name) } else { field.name.to_owned() };
        let theirs = names.get(&name)?;
        let number = *NUMBERS.get(theirs).unwrap_or_else(|| panic!("{theirs} is no field of performance management in libibmad's header"));
        Some(Twin { field, index, number })
    };
    values.filter_map(twin).collect()
}

/// What libibmad's names for fields of performance management begin with.
const PERFORMANCE: [&str; 4] = ["IB_PC_", "IB_PESC_", "IB_PSC_", "IB_CPI_"];

/// And for those of attributes of 64 octets: NodeInfo, PortInfo and PortInfoExtended, PathRecord.
const SHORT: [&str; 3] = ["IB_NODE_", "IB_PORT_", "IB_SA_PR_"];

/// libibmad's numbers of fields by its names for them, as bindgen found them in the header.
static NUMBERS: LazyLock<BTreeMap<&str, MAD_FIELDS::Type>> = LazyLock::new(|| {
    let bindings = include_str!(concat!(env!("OUT_DIR"), "/rdma_core.rs"));
    let constants = bindings.split("pub const ").skip(1).filter_map(|constant| {
        let (name, rest) = constant.split_once(':')?;
        let value = rest.split(';').next()?.split_once('=')?.1;
        Some((name.trim(), value.trim().parse().ok()?))
    });
    constants.filter(|(name, _)| PERFORMANCE.iter().chain(&SHORT).any(|prefix| name.starts_with(prefix))).collect()
});
