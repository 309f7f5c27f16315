//! The counters for people: the tables in `docs/records.md`, one for each group. They are printed from what the codec reads by, so that neither
//! can say what the other does not.
//!
//! `cargo run --no-default-features --example counters -- docs/records.md` makes them anew.

use super::{Capabilities, Field, Group, Needs};
use crate::types::NodeKind;

/// The lines between which a document has the tables.
pub const MARKS: [&str; 2] = ["<!-- counters: from the code -->\n", "<!-- counters: end -->\n"];

/// The document with its tables made anew; `None` if it has no place for them.
pub fn renew(document: &str) -> Option<String> {
    let [begin, end] = MARKS;
    let (before, rest) = document.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some([before, begin, &markdown(), end, after].concat())
}

/// The tables, in the order in which groups are asked.
pub fn markdown() -> String {
    Group::ALL.into_iter().map(table).collect()
}

fn table(group: Group) -> String {
    let attribute = group.attribute();
    let everything = Capabilities { mask: u16::MAX, mask2: u32::MAX, option_mask: None };
    let whose = if group.is_had_by(NodeKind::Hca, everything) { "" } else { "; switches only" };
    let asked = if attribute.needs == Needs::Nothing { String::new() } else { format!("; {}", attribute.needs) };
    let rows: String = group.fields().map(row).collect();
    format!(
        "\n### `{group}`\n\n{}, attribute {:#06x} (IBA vol. 1, {}){asked}{whose}.\n\n\
         | name | values | field | unit | bits | full at | gate |\n|---|---|---|---|---|---|---|\n{rows}",
        attribute.name, attribute.id, attribute.section
    )
}

fn row(field: &Field) -> String {
    let unit = field.unit.map(|unit| unit.to_string()).unwrap_or_default();
    let full = if field.is_saturated(field.all_ones()) { field.value(field.all_ones()).to_string() } else { "-".to_owned() };
    let gate = if field.needs == Needs::Nothing { "-".to_owned() } else { field.needs.to_string() };
    format!("| `{}` | {} | {} | {unit} | {} | {full} | {gate} |\n", field.json, values(field), field.name, field.width)
}

/// How many values, and what tells them apart: the name says it.
fn values(field: &Field) -> String {
    let by = ["sl", "vl", "lane"].into_iter().find(|word| field.json.split('_').any(|part| part == *word));
    match (field.len, by) {
        (1, _) => "1".to_owned(),
        (len, Some("lane")) => format!("{len}, by lane"),
        (len, Some(by)) => format!("{len}, by {}", by.to_uppercase()),
        (len, None) => format!("{len}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_what_is_around_its_tables() {
        let [begin, end] = MARKS;
        let renewed = renew(&format!("before\n{begin}old\n{end}after\n")).expect("it has a place");
        assert!(renewed.starts_with(&format!("before\n{begin}\n### `extended`\n")) && renewed.ends_with(&format!("|\n{end}after\n")));
        assert_eq!(renew(&renewed).as_ref(), Some(&renewed));
        assert_eq!(renew("no place"), None);
    }

    #[test]
    fn a_row_says_where_a_counter_is_full() {
        let row_of = |group: Group, name| row(group.attribute().field(name).expect("declared"));
        assert_eq!(
            row_of(Group::XmtSl, "XmtDataSL"),
            "| `port_xmit_data_sl_bytes` | 16, by SL | XmtDataSL | octets | 32 | 17179869180 | OptionMask bit 55 |\n"
        );
        assert_eq!(row_of(Group::Extended, "PortXmitPkts"), "| `port_xmit_pkts` | 1 | PortXmitPkts | packets | 64 | - | - |\n");
    }
}
