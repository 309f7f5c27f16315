//! Tables of all counters for `docs/records.md`, one for each counter group, made from the tables
//! of the decoder.

use super::{Field, Group, Needs};

/// Returns the tables in the order of [`Group::ALL`].
pub fn markdown() -> String {
    Group::ALL.into_iter().map(table).collect()
}

fn table(group: Group) -> String {
    let attribute = group.attribute();
    let only = if group.is_of_switches() {
        "; switches only"
    } else {
        ""
    };
    let requires = if attribute.needs == Needs::Nothing {
        String::new()
    } else {
        format!("; {}", attribute.needs)
    };
    let rows: String = group.fields().map(row).collect();
    format!(
        "\n### `{group}`\n\n{}, attribute {:#06x} (IBA vol. 1, {}){requires}{only}.\n\n\
         | name | values | field | unit | bits | full at | requires |\n|---|---|---|---|---|---|---|\n{rows}",
        attribute.name, attribute.id, attribute.section
    )
}

fn row(field: &Field) -> String {
    let unit = field.unit.map(|unit| unit.to_string()).unwrap_or_default();
    let full = if field.is_saturated(field.all_ones()) {
        field.value(field.all_ones()).to_string()
    } else {
        "-".to_owned()
    };
    let requires = if field.needs == Needs::Nothing {
        "-".to_owned()
    } else {
        field.needs.to_string()
    };
    format!(
        "| `{}` | {} | {} | {unit} | {} | {full} | {requires} |\n",
        field.json,
        values(field),
        field.name,
        field.width
    )
}

/// Describes the number of values of a field and their index, which is part of the field's name.
fn values(field: &Field) -> String {
    let by = ["sl", "vl", "lane"]
        .into_iter()
        .find(|word| field.json.split('_').any(|part| part == *word));
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
    fn row_has_the_value_at_which_a_counter_is_full() {
        let row_of = |group: Group, name| row(group.attribute().field(name).expect("declared"));
        assert_eq!(
            row_of(Group::XmtSl, "XmtDataSL"),
            "| `port_xmit_data_sl_bytes` | 16, by SL | XmtDataSL | bytes | 32 | 17179869180 | OptionMask bit 55 |\n"
        );
        assert_eq!(
            row_of(Group::Extended, "PortXmitPkts"),
            "| `port_xmit_pkts` | 1 | PortXmitPkts | packets | 64 | - | - |\n"
        );
    }
}
