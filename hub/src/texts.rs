//! Limits the length of strings in records. A line can have 1 MiB, and inputs are not trusted.

use std::borrow::Cow;

use ibnet_analysis::record::Record;
use ibnet_record::physical::Value;

/// Max length of a string in bytes. Device names have at most 64.
const LONGEST: usize = 1024;

/// Returns the beginning of a string, at most [`LONGEST`] bytes.
pub(crate) fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

/// Cuts the strings that the hub keeps.
pub(crate) fn cut(record: &mut Record<'_>) {
    match record {
        Record::Port(port) => {
            let port = &mut **port;
            [
                &mut port.sampler,
                &mut port.node,
                &mut port.link,
                &mut port.link_source,
                &mut port.status,
                &mut port.identity,
            ]
            .into_iter()
            .for_each(cut_text);
            port.role
                .iter_mut()
                .chain(&mut port.peer)
                .for_each(cut_text);
        }
        Record::Sweep(sweep) => [&mut sweep.sampler, &mut sweep.ca, &mut sweep.role]
            .into_iter()
            .for_each(cut_text),
        Record::Start(start) => {
            [
                &mut start.sampler,
                &mut start.ca,
                &mut start.role,
                &mut start.version,
                &mut start.boot_id,
            ]
            .into_iter()
            .for_each(cut_text);
        }
        Record::Event(event) => [
            &mut event.sampler,
            &mut event.role,
            &mut event.event,
            &mut event.detail,
        ]
        .into_iter()
        .for_each(cut_text),
        Record::Physical(record) => record.values.values_mut().for_each(|value| match value {
            Value::Text(text) => text.truncate(short(text).len()),
            Value::Texts(texts) => {
                texts.truncate(LONGEST / size_of::<u64>());
                texts
                    .iter_mut()
                    .for_each(|text| text.truncate(short(text).len()));
            }
            Value::Integers(numbers) => numbers.truncate(LONGEST / size_of::<u64>()),
            Value::Integer(_) | Value::Float(_) => {}
        }),
        Record::Histogram(_) | Record::Routes(_) => {}
    }
}

fn cut_text(text: &mut Cow<'_, str>) {
    if text.len() > LONGEST {
        *text = Cow::Owned(short(text).to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = format!("{}ü", "x".repeat(LONGEST - 1));
        assert_eq!((short(&text).len(), short("ü")), (LONGEST - 1, "ü"));
    }
}
