//! Reads string columns with dictionary encoding.
//!
//! Such a column has a dictionary of strings, and for each row the id of its string. Equal ids in
//! consecutive rows are stored as one run, in the encoding "RLE / bit-packing hybrid" of the
//! Parquet format. This reader passes runs on without expanding them, so a column whose value
//! changes rarely costs almost nothing.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};

use crate::column::Texts;
use crate::ids::Ids;

/// Reads a column, or returns `None` if a page has another encoding.
pub(crate) fn texts(
    pages: &mut dyn PageReader,
    rows: usize,
    is_required: bool,
) -> Result<Option<Texts>> {
    let mut texts = Texts::default();
    texts.ids = Ids::Runs(Vec::new());
    // For each entry of the column's dictionary: the id of the string in `texts`.
    let mut dictionary = Vec::new();
    while let Some(page) = pages.get_next_page()? {
        match page {
            Page::DictionaryPage {
                buf, num_values, ..
            } => entries(&buf, num_values, |text| dictionary.push(texts.intern(text)))?,
            Page::DataPageV2 {
                buf,
                num_values,
                encoding: Encoding::RLE_DICTIONARY,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let (levels, values) = buf
                    .split_at_checked((def_levels_byte_len + rep_levels_byte_len) as usize)
                    .ok_or_else(too_short)?;
                let count = num_values as usize;
                let (mut places, mut present) = (Vec::new(), count);
                if !is_required {
                    present = 0;
                    hybrid(levels, 1, count, &mut |level, length| {
                        places.push((level == 1, length));
                        present += if level == 1 { length } else { 0 };
                        Ok(())
                    })?;
                }
                let Some((width, numbers)) = values.split_first() else {
                    if present > 0 {
                        return Err(too_short());
                    }
                    texts.ids.extend(Texts::NONE, count);
                    continue;
                };
                let text = |number: u32| {
                    dictionary
                        .get(number as usize)
                        .copied()
                        .ok_or_else(too_short)
                };
                if present == count {
                    hybrid(numbers, *width, count, &mut |number, length| {
                        texts.ids.extend(text(number)?, length);
                        Ok(())
                    })?;
                } else {
                    let mut runs = Vec::new();
                    hybrid(numbers, *width, present, &mut |number, length| {
                        runs.push((text(number)?, length));
                        Ok(())
                    })?;
                    put(&mut texts.ids, &places, &runs);
                }
            }
            _ => return Ok(None),
        }
    }
    texts.ids.settle();
    if texts.ids.len() == rows {
        Ok(Some(texts))
    } else {
        Err(too_short())
    }
}

/// Appends rows with and without a string. `runs` are the ids of the rows with one.
fn put(ids: &mut Ids, places: &[(bool, usize)], runs: &[(u32, usize)]) {
    let mut runs = runs.iter().copied();
    let (mut id, mut left) = (Texts::NONE, 0);
    for (has_text, length) in places.iter().copied() {
        if !has_text {
            ids.extend(Texts::NONE, length);
            continue;
        }
        let mut rest = length;
        while rest > 0 {
            if left == 0 {
                let Some(next) = runs.next() else { return };
                (id, left) = next;
            }
            let some = rest.min(left);
            ids.extend(id, some);
            (rest, left) = (rest - some, left - some);
        }
    }
}

/// Calls `each` with every string of a dictionary.
pub(crate) fn entries(octets: &[u8], count: u32, mut each: impl FnMut(&str)) -> Result<()> {
    let mut rest = octets;
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
        let (text, after) = after
            .split_at_checked(u32::from_le_bytes(*length) as usize)
            .ok_or_else(too_short)?;
        each(std::str::from_utf8(text).map_err(|error| ParquetError::General(error.to_string()))?);
        rest = after;
    }
    Ok(())
}

pub(crate) fn too_short() -> ParquetError {
    ParquetError::EOF("a column has too few bytes".to_owned())
}

/// Decodes `count` numbers of `width` bits each, and calls `each` with every number and the length
/// of its run.
pub(crate) fn hybrid(
    octets: &[u8],
    width: u8,
    count: usize,
    each: &mut dyn FnMut(u32, usize) -> Result<()>,
) -> Result<()> {
    if width > 32 {
        return Err(ParquetError::General(format!("a number has {width} bits")));
    }
    let width = usize::from(width);
    let (mut rest, mut left) = (octets, count);
    while left > 0 {
        let (header, after) = varint(rest).ok_or_else(too_short)?;
        rest = after;
        if header & 1 == 0 {
            let length = usize::try_from(header >> 1).unwrap_or(usize::MAX).min(left);
            let (value, after) = rest
                .split_at_checked(width.div_ceil(8))
                .ok_or_else(too_short)?;
            each(
                value
                    .iter()
                    .rev()
                    .fold(0, |value, octet| value << 8 | u32::from(*octet)),
                length,
            )?;
            (rest, left) = (after, left - length);
            if length == 0 {
                return Err(too_short());
            }
            continue;
        }
        // Bit-packed groups of eight numbers. The last group can be padded.
        let groups = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        let octets = groups
            .checked_mul(width)
            .filter(|octets| *octets <= rest.len())
            .ok_or_else(too_short)?;
        let (packed, after) = rest.split_at(octets);
        let length = groups.saturating_mul(8).min(left);
        if length == 0 {
            return Err(too_short());
        }
        let mask = (1_u64 << width) - 1;
        let (mut bits, mut have, mut next) = (0_u64, 0, packed.iter());
        for _ in 0..length {
            while have < width {
                bits |= u64::from(*next.next().ok_or_else(too_short)?) << have;
                have += 8;
            }
            each((bits & mask) as u32, 1)?;
            (bits, have) = (bits >> width, have - width);
        }
        (rest, left) = (after, left - length);
    }
    Ok(())
}

/// Reads a variable-length number, seven bits a byte.
pub(crate) fn varint(octets: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, octet) in octets.iter().enumerate().take(10) {
        value |= u64::from(octet & 0x7f) << (7 * index);
        if octet & 0x80 == 0 {
            return Some((value, &octets[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(octets: &[u8], width: u8, count: usize) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        hybrid(octets, width, count, &mut |number, length| {
            all.extend(std::iter::repeat_n(number, length));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn runs_and_packed_numbers_are_decoded() {
        // The example of the Parquet format: the numbers 0 to 7 with three bits each.
        let packed = [0x03, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(decoded(&packed, 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            decoded(&[10, 7, 0x03, 0b1000_1000, 0b1100_0110, 0b1111_1010], 3, 7).unwrap(),
            [7, 7, 7, 7, 7, 0, 1]
        );
        assert_eq!(
            decoded(&[0x90, 0x03, 0x34, 0x12], 16, 200).unwrap(),
            [0x1234; 200]
        );
        assert_eq!(decoded(&[20], 0, 10).unwrap(), [0; 10]);
    }

    #[test]
    fn damaged_octets_are_an_error() {
        for (octets, width) in [
            (&[][..], 3),
            (&[0x03, 0x88], 3),
            (&[0x0a], 8),
            (&[0x0a, 1], 40),
            (&[0xff; 12], 3),
            (&[0, 0], 8),
            (&[1], 8),
        ] {
            assert!(decoded(octets, width, 9).is_err(), "{octets:?}");
        }
    }
}
