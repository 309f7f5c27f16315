//! The bits of a field in the octets of an attribute or a register.

use ibnet_record::attributes::Field;

/// Reads and writes the bits of a field.
pub trait Bits {
    /// Returns the bits of the value at `index`. The index is 0 unless the field is an array.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Field::len`], or if `data` ends before the value.
    fn raw(&self, data: &[u8], index: u8) -> u64;

    /// Writes the bits of the value at `index`. Does not change other bits. If a value is too
    /// large, writes all ones, as in a saturated counter.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Field::len`], or if `data` ends before the value.
    fn set_raw(&self, data: &mut [u8], index: u8, value: u64);
}

impl Bits for Field {
    fn raw(&self, data: &[u8], index: u8) -> u64 {
        let (octet, shift) = place(self, index);
        match (self.width, shift) {
            (8, 0) => u64::from(data[octet]),
            (16, 0) => data[octet..]
                .first_chunk()
                .map_or(0, |octets| u16::from_be_bytes(*octets).into()),
            (32, 0) => data[octet..]
                .first_chunk()
                .map_or(0, |octets| u32::from_be_bytes(*octets).into()),
            (64, 0) => data[octet..]
                .first_chunk()
                .map_or(0, |octets| u64::from_be_bytes(*octets)),
            _ => {
                let bits = shift + usize::from(self.width);
                let window = data[octet..octet + bits.div_ceil(8)]
                    .iter()
                    .fold(0u128, |value, octet| value << 8 | u128::from(*octet));
                (window >> (bits.next_multiple_of(8) - bits)) as u64 & self.all_ones()
            }
        }
    }

    fn set_raw(&self, data: &mut [u8], index: u8, value: u64) {
        let (octet, shift) = place(self, index);
        let bits = shift + usize::from(self.width);
        let octets = &mut data[octet..octet + bits.div_ceil(8)];
        let below = bits.next_multiple_of(8) - bits;
        let window = octets
            .iter()
            .fold(0u128, |value, octet| value << 8 | u128::from(*octet));
        let mask = u128::from(self.all_ones()) << below;
        let window = window & !mask | u128::from(value.min(self.all_ones())) << below;
        for (octet, place) in octets.iter_mut().rev().zip(0..) {
            *octet = (window >> (8 * place)) as u8;
        }
    }
}

/// Returns where the value at `index` begins: the octet, and the bit in this octet.
fn place(field: &Field, index: u8) -> (usize, usize) {
    assert!(index < field.len, "{} has {} values", field.name, field.len);
    let bit = usize::from(field.first_bit) + usize::from(index) * usize::from(field.stride);
    (bit / 8, bit % 8)
}

#[cfg(test)]
mod tests;
