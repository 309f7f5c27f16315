//! Table of the links of a path.

use ibnet_analysis::routing::PathRow;
use ibnet_record::types::{Lid, Printable};

use super::{count, percent, table};

/// Writes the links of a path. `lid` is that of the receiver.
pub fn report(rows: &[PathRow], lid: Lid) -> String {
    let Some(first) = rows.first() else {
        return "\nThe sender and the receiver are the same device.\n".to_owned();
    };
    let mut table = table::new();
    table.set_header([
        "from", "to", "link", "Gb/s", "used", "peak", "blocked", "errors",
    ]);
    for PathRow { link, .. } in rows {
        table.add_row([
            link.from.to_string(),
            link.to.to_string(),
            Printable(&link.link).to_string(),
            link.xmit_gbps
                .map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}")),
            percent(link.xmit_utilization),
            percent(link.xmit_utilization_peak),
            percent(link.blocked),
            link.errors.to_string(),
        ]);
    }
    let (sender, receiver) = (&first.sender, &first.receiver);
    let links = count(rows.len(), "link");
    let table = table::to_text(table, &[3, 4, 5, 6, 7]);
    format!("\n{sender} to {receiver} (LID {lid}): {links}\n\n{table}\n")
}
