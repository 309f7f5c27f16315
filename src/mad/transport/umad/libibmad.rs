//! The calls of libibmad that decode one field. [`mad::libibmad`](crate::mad::libibmad) is the
//! interface to them.

use std::ffi::{c_int, c_void};

use super::sys::{self, MAD_FIELDS};
use crate::mad::{MAD_LEN, Mad};

/// Number of bytes that libibmad may read beyond the end of a MAD: for a field that does not
/// consist of whole octets, it reads whole 32-bit words.
const PADDING: usize = 64;

/// A MAD with padding behind it, so that every read of libibmad stays within the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaddedMad([u8; MAD_LEN + PADDING]);

impl PaddedMad {
    pub(crate) fn new(mad: &Mad) -> Self {
        let mut octets = [0; MAD_LEN + PADDING];
        octets[..MAD_LEN].copy_from_slice(mad);
        Self(octets)
    }
}

/// Position at which an attribute begins in a MAD, which depends on the class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// Performance management and subnet management: octet 64.
    Management = 64,
    /// Subnet administration: octet 56.
    Administration = 56,
}

/// The number of a field in libibmad's `enum MAD_FIELDS`.
///
/// A value of this type is always a number of the generated table, whose fields lie within an
/// attribute of a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FieldNumber(MAD_FIELDS::Type);

impl FieldNumber {
    /// Returns the number of the field with this name, such as `IB_PC_XMT_BYTES_F`.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        let index = sys::FIELDS
            .binary_search_by(|(candidate, _)| (*candidate).cmp(name))
            .ok()?;
        Some(Self(sys::FIELDS[index].1))
    }

    /// Reads a field of `width` bits. Returns the lower 64 bits of a wider field.
    #[expect(unsafe_code, reason = "libibmad")]
    pub(crate) fn read(self, mad: &PaddedMad, base: Base, width: u8) -> u64 {
        let octets: *mut c_void = mad.0.as_ptr().cast_mut().cast();
        let base = base as c_int;
        match width {
            0..=32 => {
                // SAFETY: libibmad only reads the buffer. Every field of `FIELDS` lies within 192
                // octets from `base`, and a read ends at most 8 octets behind its field. The buffer
                // is longer.
                u64::from(unsafe { sys::mad_get_field(octets, base, self.0) })
            }
            33..=64 => {
                // SAFETY: libibmad only reads the buffer, within the same bounds as `mad_get_field`
                // above.
                unsafe { sys::mad_get_field64(octets, base, self.0) }
            }
            _ => {
                let mut array = [0u8; MAD_LEN];
                // SAFETY: libibmad only reads the buffer, within the bounds given above. It writes
                // as many octets as the field has. No field is longer than a MAD, and neither is
                // `array`.
                unsafe { sys::mad_get_array(octets, base, self.0, array.as_mut_ptr().cast()) };
                array
                    .first_chunk()
                    .map_or(0, |octets| u128::from_be_bytes(*octets)) as u64
            }
        }
    }
}
