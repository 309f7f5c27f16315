//! Reads integer columns other than lists.
//!
//! Each page has the positions of the rows with a value, and the values: either differences
//! ("DELTA_BINARY_PACKED" of the Parquet format) or ids of a dictionary. The rows of most columns
//! are decoded straight into their final position, without a copy.

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::Result;

use crate::dictionary::{hybrid, too_short, varint};

/// The values of a column.
#[derive(Default)]
pub(crate) struct Numbers {
    /// The value of each row that has one, as two's complement.
    pub(crate) values: Vec<u64>,
    /// Runs of rows with or without a value, with their lengths. Empty if every row has a value.
    pub(crate) present: Vec<(bool, usize)>,
}

/// Reads a column, or returns `None` if a page has another encoding. The upper half of a 32-bit
/// value is zero.
pub(crate) fn read(
    pages: &mut dyn PageReader,
    rows: usize,
    is_required: bool,
    physical: Type,
) -> Result<Option<Numbers>> {
    let mut all = Numbers {
        values: Vec::with_capacity(rows),
        present: Vec::new(),
    };
    let (mut dictionary, mut count) = (Vec::new(), 0);
    while let Some(page) = pages.get_next_page()? {
        match page {
            Page::DictionaryPage {
                buf, num_values, ..
            } => dictionary = plain(&buf, num_values as usize, physical)?,
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let (levels, octets) = buf
                    .split_at_checked((def_levels_byte_len + rep_levels_byte_len) as usize)
                    .ok_or_else(too_short)?;
                let mut expected = num_values as usize;
                if !is_required {
                    expected = 0;
                    hybrid(levels, 1, num_values as usize, &mut |level, length| {
                        expected += if level == 1 { length } else { 0 };
                        match all.present.last_mut() {
                            Some((is_present, rows)) if *is_present == (level == 1) => {
                                *rows += length;
                            }
                            _ => all.present.push((level == 1, length)),
                        }
                        Ok(())
                    })?;
                }
                count += num_values as usize;
                let before = all.values.len();
                match encoding {
                    Encoding::DELTA_BINARY_PACKED if expected > 0 => {
                        delta(octets, expected, &mut all.values)?;
                    }
                    Encoding::RLE_DICTIONARY if expected > 0 => {
                        let (width, numbers) = octets.split_first().ok_or_else(too_short)?;
                        hybrid(numbers, *width, expected, &mut |number, length| {
                            let value = *dictionary.get(number as usize).ok_or_else(too_short)?;
                            all.values.resize(all.values.len() + length, value);
                            Ok(())
                        })?;
                    }
                    _ if expected == 0 => {}
                    _ => return Ok(None),
                }
                if all.values.len() != before + expected {
                    return Err(too_short());
                }
            }
            Page::DataPage { .. } => return Ok(None),
        }
    }
    if count != rows {
        return Err(too_short());
    }
    if physical == Type::INT32 {
        all.values
            .iter_mut()
            .for_each(|value| *value &= u64::from(u32::MAX));
    }
    if all.present.iter().all(|(is_present, _)| *is_present) {
        all.present.clear();
    }
    Ok(Some(all))
}

fn plain(octets: &[u8], count: usize, physical: Type) -> Result<Vec<u64>> {
    let width = if physical == Type::INT32 { 4 } else { 8 };
    let octets = count
        .checked_mul(width)
        .and_then(|length| octets.get(..length))
        .ok_or_else(too_short)?;
    Ok(octets
        .chunks_exact(width)
        .map(|octets| {
            octets
                .iter()
                .rev()
                .fold(0, |value, octet| value << 8 | u64::from(*octet))
        })
        .collect())
}

/// Decodes `count` values, each stored as the difference from its predecessor.
fn delta(octets: &[u8], count: usize, values: &mut Vec<u64>) -> Result<()> {
    let mut rest = octets;
    let mut next = || -> Result<u64> {
        let (value, after) = varint(rest).ok_or_else(too_short)?;
        rest = after;
        Ok(value)
    };
    let (block, minis, total, first) = (next()?, next()?, next()?, next()?);
    let size = usize::try_from(block.checked_div(minis).unwrap_or(0)).unwrap_or(0);
    let minis = usize::try_from(minis).unwrap_or(usize::MAX);
    // These sizes are fixed by the format.
    if total != count as u64
        || size == 0
        || !size.is_multiple_of(32)
        || size > 1 << 16
        || minis > 1 << 10
    {
        return Err(too_short());
    }
    let mut value = zigzag(first);
    values.push(value);
    let mut left = count - 1;
    while left > 0 {
        let (least, after) = varint(rest).ok_or_else(too_short)?;
        let (widths, after) = after.split_at_checked(minis).ok_or_else(too_short)?;
        rest = after;
        for width in widths {
            // The last miniblock is padded to its full length, except by some writers.
            let octets = (size * usize::from(*width)).div_ceil(8);
            let (packed, after) = rest.split_at_checked(octets).ok_or_else(too_short)?;
            let some = left.min(size);
            value = sums(packed, *width, some, value, zigzag(least), values)?;
            (rest, left) = (after, left - some);
            if left == 0 {
                break;
            }
        }
    }
    Ok(())
}

const fn zigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Adds `least` and each of `count` packed numbers to `value` in turn, and appends every result.
/// Returns the last one.
fn sums(
    packed: &[u8],
    width: u8,
    count: usize,
    mut value: u64,
    least: u64,
    values: &mut Vec<u64>,
) -> Result<u64> {
    match width {
        0 => values.extend((0..count).map(|_| {
            value = value.wrapping_add(least);
            value
        })),
        1..=56 => {
            let (width, mask) = (usize::from(width), (1_u64 << width) - 1);
            values.extend((0..count).map(|index| {
                let bit = index * width;
                value = value
                    .wrapping_add(least)
                    .wrapping_add(word(packed, bit / 8) >> (bit % 8) & mask);
                value
            }));
        }
        57..=64 => {
            let (width, mask) = (usize::from(width), (1_u128 << width) - 1);
            values.extend((0..count).map(|index| {
                let (bit, octet) = (index * width, index * width / 8);
                let both =
                    u128::from(word(packed, octet)) | u128::from(word(packed, octet + 8)) << 64;
                value = value
                    .wrapping_add(least)
                    .wrapping_add((both >> (bit % 8) & mask) as u64);
                value
            }));
        }
        _ => return Err(too_short()),
    }
    Ok(value)
}

/// Returns the eight bytes at an offset. Bytes after the end are 0.
#[inline]
fn word(octets: &[u8], place: usize) -> u64 {
    match octets.get(place..).and_then(<[u8]>::first_chunk::<8>) {
        Some(octets) => u64::from_le_bytes(*octets),
        None => octets
            .iter()
            .skip(place)
            .take(8)
            .rev()
            .fold(0, |word, octet| word << 8 | u64::from(*octet)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_summed() {
        // Blocks of 128 values in four parts. The values are 5 and two more with the differences 1
        // and 3: the min is 1, and what remains is 0 and 2 with two bits each.
        let mut octets = vec![0x80, 0x01, 4, 3, 10, 2, 2, 0, 0, 0, 0b1000];
        octets.resize(octets.len() + 7, 0);
        let mut values = Vec::new();
        delta(&octets, 3, &mut values).unwrap();
        assert_eq!(values, [5, 6, 9]);
        for length in 0..octets.len() {
            assert!(
                delta(&octets[..length], 3, &mut Vec::new()).is_err(),
                "{length}"
            );
        }
        assert!(
            delta(&octets, 4, &mut Vec::new()).is_err(),
            "another number of values"
        );
    }

    #[test]
    fn numbers_of_any_width_are_unpacked() {
        for width in 0..=64_u8 {
            let mask = if width == 64 {
                u64::MAX
            } else {
                (1 << width) - 1
            };
            let numbers: Vec<u64> = (1..=32_u64)
                .map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask)
                .collect();
            let mut packed = vec![0_u8; 4 * usize::from(width)];
            for (index, number) in numbers.iter().enumerate() {
                for bit in (0..usize::from(width)).filter(|bit| number >> bit & 1 == 1) {
                    let place = index * usize::from(width) + bit;
                    packed[place / 8] |= 1 << (place % 8);
                }
            }
            let (mut values, mut sum) = (Vec::new(), 7_u64);
            let last = sums(&packed, width, 32, 7, 1, &mut values).unwrap();
            let expected = numbers.iter().map(|number| {
                sum = sum.wrapping_add(*number).wrapping_add(1);
                sum
            });
            assert_eq!(values, expected.collect::<Vec<_>>(), "{width}");
            assert_eq!(last, values[31]);
        }
        assert!(sums(&[0; 300], 65, 32, 0, 0, &mut Vec::new()).is_err());
    }
}
