//! AccessRegisterGMP (attribute 0x0051): registers of a device.
//!
//! A reply has one block of 220 octets of the register. A longer register needs several requests,
//! which differ only in the number of the block; each of them repeats the fields that select.
//!
//! ```
//! use ibnet::mad::vendor::register::{Image, Index, Query};
//! use ibnet_record::registers::Page;
//! use ibnet_record::types::PortNum;
//!
//! let index = Index::of_port(PortNum(7));
//! let query = Query { page: Page::Ber, index, block: 0 };
//! let mut reply = [0; 256];
//! ibnet::mad::vendor::Query::Register(query).emit(ibnet_record::types::Tid(1), &mut reply);
//!
//! // The agent returns the block, here with one counter.
//! let field = Page::Ber.register().field("phy_received_bits").expect("declared");
//! let mut image = Image::default();
//! image.set(field, 0, 1 << 40);
//! query.answer(&image, &mut reply);
//!
//! let mut read = Image::default();
//! read.take(0, &reply);
//! assert_eq!(read.raw(field, 0), Some(1 << 40));
//! ```

use ibnet_record::attributes::Field;
use ibnet_record::registers::{Page, Select};
use ibnet_record::types::PortNum;

use super::DATA_OFFSET;
use crate::mad::Mad;
use crate::mad::header::Header;
use crate::mad::pma::Bits;

/// AttributeID.
pub const ACCESS_REGISTER_GMP: u16 = 0x0051;
/// Octets of a register in one MAD.
pub const BLOCK_LEN: usize = 220;

/// Octets of the number of the block.
const BLOCK_NUMBER: std::ops::Range<usize> = DATA_OFFSET..DATA_OFFSET + 2;
/// Octet at which the block begins.
const BLOCK_OFFSET: usize = DATA_OFFSET + 4;

const _: () = assert!(BLOCK_OFFSET + BLOCK_LEN == crate::mad::MAD_LEN);

/// What a request selects of a register. A page ignores what it does not have, such as the port of
/// a sensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Index {
    /// Number of the port.
    pub port: PortNum,
    /// Plane of a port with several planes. 0 is the port as a whole.
    pub plane: u8,
    /// Slot of a modular switch. 0 is the main board.
    pub slot: u8,
    /// Number of the sensor, module or fan; of several, the first one.
    pub item: u16,
    /// Number of sensors.
    pub count: u8,
}

impl Index {
    /// Returns the index of a whole port.
    pub const fn of_port(port: PortNum) -> Self {
        Self {
            port,
            ..Self::NOTHING
        }
    }

    /// Returns the index of a sensor, a module or a fan of the main board.
    pub const fn of_item(item: u16) -> Self {
        Self {
            item,
            ..Self::NOTHING
        }
    }

    const NOTHING: Self = Self {
        port: PortNum(0),
        plane: 0,
        slot: 0,
        item: 0,
        count: 0,
    };

    fn get(&self, select: Select) -> u64 {
        match select {
            Select::Port => self.port.0.into(),
            Select::Plane => self.plane.into(),
            Select::Slot => self.slot.into(),
            Select::Item => self.item.into(),
            Select::Count => self.count.into(),
            Select::Constant(value) => value.into(),
        }
    }
}

/// A request for one block of a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Query {
    /// The page.
    pub page: Page,
    /// What the request selects. A number that does not fit into its field is sent as the largest
    /// that does.
    pub index: Index,
    /// Number of the block, below [`blocks`].
    pub block: u8,
}

/// Returns the number of blocks that have all fields of a page.
pub fn blocks(page: Page) -> u8 {
    page.register().octets().div_ceil(BLOCK_LEN) as u8
}

/// Octets of the largest register of a sensor or a fan.
pub const HEAD: usize = 32;

/// Returns the first octets of a register.
pub fn head(mad: &Mad) -> [u8; HEAD] {
    std::array::from_fn(|index| mad[BLOCK_OFFSET + index])
}

fn block_number(mad: &Mad) -> u16 {
    u16::from_be_bytes([mad[BLOCK_NUMBER.start], mad[BLOCK_NUMBER.start + 1]])
}

impl Query {
    /// Writes the number of the block, and the fields that select, into a MAD without data.
    pub(super) fn emit(&self, mad: &mut Mad) {
        mad[BLOCK_NUMBER].copy_from_slice(&u16::from(self.block).to_be_bytes());
        for (field, select) in self.page.register().request {
            field.set_raw(&mut mad[BLOCK_OFFSET..], 0, self.index.get(*select));
        }
    }

    /// Reads a request, for a simulated agent. Returns `None` if ibnet has no such page.
    pub fn parse(mad: &Mad) -> Option<Self> {
        let (id, octets) = (Header::parse(mad).modifier, &mad[BLOCK_OFFSET..]);
        let is_of = |page: &Page| {
            let register = page.register();
            u32::from(register.id) == id
                && register.request.iter().all(|(field, select)| match select {
                    Select::Constant(value) => field.raw(octets, 0) == u64::from(*value),
                    _ => true,
                })
        };
        let page = Page::ALL.into_iter().find(is_of)?;
        let number = |select| {
            let field = page.register().selector(select);
            field.map_or(0, |field| field.raw(octets, 0))
        };
        let index = Index {
            port: PortNum(number(Select::Port) as u8),
            plane: number(Select::Plane) as u8,
            slot: number(Select::Slot) as u8,
            item: number(Select::Item) as u16,
            count: number(Select::Count) as u8,
        };
        let block = u8::try_from(block_number(mad)).ok()?;
        Some(Self { page, index, block })
    }

    /// Writes the block of a register into the reply to this request, for a simulated agent.
    pub fn answer(&self, register: &Image, mad: &mut Mad) {
        let octets = &mut mad[BLOCK_OFFSET..];
        octets.fill(0);
        if let Some(block) = register
            .octets
            .chunks_exact(BLOCK_LEN)
            .nth(self.block.into())
        {
            octets.copy_from_slice(block);
        }
        // The register begins with the fields of the request.
        if self.block == 0 {
            self.emit(mad);
        }
    }

    /// Returns whether a reply has another block, another port or another plane than this request.
    /// Some agents may not repeat the number of the block or of the plane, so 0 is accepted too.
    pub(super) fn is_other(&self, mad: &Mad) -> bool {
        let register = self.page.register();
        let repeated = |select| {
            let field = register.selector(select)?;
            Some(field.raw(&mad[BLOCK_OFFSET..], 0))
        };
        let is_other_port =
            repeated(Select::Port).is_some_and(|port| port != u64::from(self.index.port.0));
        let is_other_plane = repeated(Select::Plane)
            .is_some_and(|plane| ![0, u64::from(self.index.plane)].contains(&plane));
        ![0, u16::from(self.block)].contains(&block_number(mad))
            || self.block == 0 && (is_other_port || is_other_plane)
    }
}

/// The octets of a register: the blocks that were received, or those that an agent returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Image {
    octets: [u8; BLOCKS * BLOCK_LEN],
    /// Bit n: block n is there.
    blocks: u8,
}

/// Max number of blocks of a page.
const BLOCKS: usize = 2;

impl Default for Image {
    fn default() -> Self {
        Self {
            octets: [0; BLOCKS * BLOCK_LEN],
            blocks: 0,
        }
    }
}

impl Image {
    /// Takes a block from a reply. Blocks behind the second are ignored: no page has fields there.
    pub fn take(&mut self, block: u8, mad: &Mad) {
        let place = self.octets.chunks_exact_mut(BLOCK_LEN).nth(block.into());
        if let Some(octets) = place {
            octets.copy_from_slice(&mad[BLOCK_OFFSET..]);
            self.blocks |= 1 << block;
        }
    }

    /// Creates the image of a register of which only the first octets were kept.
    pub fn of_head(octets: &[u8; HEAD]) -> Self {
        let mut image = Self::default();
        image.octets[..HEAD].copy_from_slice(octets);
        image.blocks = 1;
        image
    }

    /// Returns the bits of the value at `index` of a field. Returns `None` if a block of it is not
    /// there, or if the field has no such value.
    pub fn raw(&self, field: &Field, index: u8) -> Option<u64> {
        let first = usize::from(field.first_bit) + usize::from(index) * usize::from(field.stride);
        let last = first + usize::from(field.width) - 1;
        let has = |bit: usize| {
            let block = bit / (8 * BLOCK_LEN);
            block < BLOCKS && self.blocks >> block & 1 == 1
        };
        (index < field.len && has(first) && has(last)).then(|| field.raw(&self.octets, index))
    }

    /// Returns the text of a field without the zeros and spaces at its ends. It ends at the first
    /// block that is not there. Bytes that are not ASCII become `?`.
    pub fn text(&self, field: &Field) -> String {
        let octets = (0..field.len).map_while(|index| self.raw(field, index));
        let octets: Vec<u8> = octets.map(|octet| octet as u8).collect();
        let begin = octets.iter().position(|octet| *octet != 0);
        let text = &octets[begin.unwrap_or(octets.len())..];
        let end = text.iter().position(|octet| *octet == 0);
        let printable = |octet: &u8| match octet {
            b' '..=b'~' => char::from(*octet),
            _ => '?',
        };
        let text: String = text[..end.unwrap_or(text.len())]
            .iter()
            .map(printable)
            .collect();
        text.trim().to_owned()
    }

    /// Sets the value at `index` of a field, for a simulated agent, which has all blocks.
    ///
    /// # Panics
    /// Panics if the field has no such value, or is behind the second block.
    pub fn set(&mut self, field: &Field, index: u8, value: u64) {
        field.set_raw(&mut self.octets, index, value);
        self.blocks = (1 << BLOCKS) - 1;
    }

    /// Sets a text, for a simulated agent. The rest of the field becomes spaces.
    pub fn set_text(&mut self, field: &Field, text: &str) {
        let octets = text.bytes().chain(std::iter::repeat(b' '));
        for (index, octet) in (0..field.len).zip(octets) {
            self.set(field, index, octet.into());
        }
    }
}
