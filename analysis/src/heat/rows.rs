//! The rows of a heat map in the JSON output.

use ibnet_record::types::{Guid, PortNum};
use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::grid::{Cell, Grid, Panel};
use super::order::RowLabel;
use crate::metric::Unit;
use crate::ports::PortName;
use crate::rows::Row;

/// A row of a heat map in the JSON output: one metric over time, for a port, link, switch, host,
/// service level or virtual lane.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct HeatRow<'a> {
    /// Name of the metric as it was given.
    pub metric: &'a str,
    /// Unit of the values: `Gb/s`, `share of 1`, `ns`, `octets/s`, `ticks/s`, `1/s`,
    /// `octets` or `1`.
    pub unit: &'static str,
    /// Kind of the row: `port`, `link`, `switch`, `host`, `sl`, `vl` or `group`.
    pub by: String,
    /// GUID of the device of a port, of the first end of a link, or of a switch. Null for other
    /// rows.
    pub guid: Option<Guid>,
    /// Number of a port, or of the port at the first end of a link. Null for other rows.
    pub port: Option<PortNum>,
    /// Node description of this device, or name of a host or a group. Null for `sl` and `vl`.
    pub node: Option<&'a str>,
    /// The other end of the link of a port or of a link. Null for other rows, or if unknown.
    pub peer: Option<&'a PortName>,
    /// Number of a service level or a virtual lane. Null for other rows.
    pub index: Option<usize>,
    /// Number of ports whose values the cells combine. Ports that answered but lack the counter
    /// of the metric are left out. Null for a metric of hosts.
    pub ports: Option<usize>,
    /// Length of a bin in nanoseconds.
    pub bin_ns: u64,
    /// One cell for each bin, in time order.
    pub cells: Cells<'a>,
}

impl Row for HeatRow<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "metric",
        "unit",
        "by",
        "guid",
        "port",
        "node",
        "peer_guid",
        "peer_port",
        "peer_node",
        "index",
        "ports",
        "bin_ns",
        "cells_start_ns",
        "cells_state",
        "cells_value",
        "cells_covered",
    ];
}

/// The cells of a row, serialized one by one, because a heat map can have millions of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cells<'a> {
    start_ns: u64,
    bin_ns: u64,
    cells: &'a [Cell],
}

/// A cell in the JSON output.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct HeatCell {
    /// Start of the bin, in nanoseconds since 1970.
    pub start_ns: u64,
    /// `value`, `at_least`, `increase`, `no_answer`, `down`, `unknown` or `no_record`.
    pub state: &'static str,
    /// Mean of the metric over that time of the bin for which it is known. For `at_least` it is a
    /// lower bound, and for other states null.
    pub value: Option<f64>,
    /// Share of the ports whose value is known, 0 to 1. Only for `at_least`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered: Option<f64>,
}

impl Cells<'_> {
    /// Returns the cells in time order.
    pub fn iter(&self) -> impl Iterator<Item = HeatCell> {
        let starts = (0..).map(|index| {
            self.start_ns
                .saturating_add(self.bin_ns.saturating_mul(index))
        });
        starts.zip(self.cells).map(|(start_ns, cell)| {
            let (state, covered) = match cell {
                Cell::Value(_) => ("value", None),
                Cell::AtLeast { covered, .. } => ("at_least", Some(*covered)),
                Cell::Increase => ("increase", None),
                Cell::NoAnswer => ("no_answer", None),
                Cell::Down => ("down", None),
                Cell::Unknown => ("unknown", None),
                Cell::NoRecord => ("no_record", None),
            };
            HeatCell {
                start_ns,
                state,
                value: cell.value(),
                covered,
            }
        })
    }
}

impl Serialize for Cells<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.cells.len()))?;
        self.iter()
            .try_for_each(|cell| list.serialize_element(&cell))?;
        list.end()
    }
}

impl Grid {
    /// Returns the rows of the JSON output, metric by metric.
    pub fn heat_rows(&self) -> Vec<HeatRow<'_>> {
        let rows = |panel| (0..self.rows.len()).map(move |row| self.row(panel, row));
        self.panels.iter().flat_map(rows).collect()
    }

    fn row<'a>(
        &'a self,
        Panel {
            metric,
            cells,
            ports,
            ..
        }: &'a Panel,
        row: usize,
    ) -> HeatRow<'a> {
        let (RowLabel { id, .. }, cells) = (&self.rows[row], &cells[row]);
        HeatRow {
            metric: metric.name(),
            unit: unit(metric.unit()),
            by: self.by.to_string(),
            guid: id.guid,
            port: id.port,
            node: id.node.as_deref(),
            peer: id.peer.as_ref(),
            index: id.index,
            ports: ports
                .get(row)
                .map(|(all, with)| if *with > 0 { *with } else { *all }),
            bin_ns: self.step_ns,
            cells: Cells {
                start_ns: self.start_ns,
                bin_ns: self.step_ns,
                cells,
            },
        }
    }
}

/// Returns the unit for the JSON output, whose prefix does not depend on the value.
const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Gbps => "Gb/s",
        Unit::ShareOfLink | Unit::ShareOfTime => "share of 1",
        Unit::Nanoseconds => "ns",
        Unit::OctetsPerSecond => "octets/s",
        Unit::TicksPerSecond => "ticks/s",
        Unit::PerSecond => "1/s",
        Unit::Octets => "octets",
        Unit::Number => "1",
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::RowKind;
    use super::super::{HeatMap, tests};
    use crate::fixtures::{fold, port};

    #[test]
    fn row_has_the_port_the_bins_and_the_states() {
        let line = |slot, rest: &[(&str, serde_json::Value)]| {
            port(slot, (1, 2), "leaf", (0x101, 1, "n1 mlx5_0"), rest)
        };
        let status = |slot, status: &str| {
            line(
                slot,
                &[
                    ("status", status.into()),
                    ("dt_ns", ().into()),
                    ("xmit_gbps", ().into()),
                ],
            )
        };
        let lines = [
            line(2001, &[("xmit_gbps", 2.5.into())]),
            status(2002, "timeout"),
            status(2003, "down"),
            status(2004, "mad_error"),
            status(2005, "skipped"),
            status(2006, "unreachable"),
            line(2008, &[("xmit_gbps", 0.into())]),
        ];
        let grid = fold(
            HeatMap::new(vec!["xmit_gbps".parse().unwrap()], None),
            &lines,
        )
        .finish(RowKind::Port)
        .unwrap();
        let rows = grid.heat_rows();
        let row = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(
            (rows.len(), &row["guid"], &row["port"], &row["node"]),
            (1, &"0x0000000000000001".into(), &2.into(), &"leaf".into())
        );
        assert_eq!(
            (&row["peer"]["guid"], &row["peer"]["port"]),
            (&"0x0000000000000101".into(), &1.into())
        );
        assert_eq!(
            (&row["metric"], &row["unit"], &row["bin_ns"]),
            (&"xmit_gbps".into(), &"Gb/s".into(), &1_000_000_000.into())
        );
        let cells: Vec<_> = rows[0]
            .cells
            .iter()
            .map(|cell| (cell.start_ns / 1_000_000_000, cell.state, cell.value))
            .collect();
        let without = |slot, state| (slot, state, None);
        assert_eq!(
            cells,
            [
                (2000, "value", Some(2.5)),
                without(2001, "no_answer"),
                without(2002, "down"),
                without(2003, "unknown"),
                without(2004, "unknown"),
                without(2005, "no_answer"),
                without(2006, "no_record"),
                (2007, "value", Some(0.0)),
            ]
        );
        assert_eq!(row["cells"].as_array().map(Vec::len), Some(8));
    }

    #[test]
    fn rows_of_several_ports_have_the_fields_of_their_kind() {
        let of = |by| {
            let grid = tests::heat(&["port_rcv_errors"], &tests::records())
                .finish(by)
                .unwrap();
            serde_json::to_value(grid.heat_rows()).unwrap()[0].clone()
        };
        let (link, switch) = (of(RowKind::Link), of(RowKind::Switch));
        assert_eq!(
            (&link["port"], &link["peer"]["node"], &link["unit"]),
            (&2.into(), &"node2 mlx5_0".into(), &"1/s".into())
        );
        assert_eq!(
            (&switch["guid"], &switch["port"], &switch["node"]),
            (&link["guid"], &serde_json::Value::Null, &"leaf1".into())
        );
        let grid = tests::by_level();
        let level = serde_json::to_value(&grid.heat_rows()[3]).unwrap();
        assert_eq!(
            (&level["by"], &level["index"], &level["guid"]),
            (&"sl".into(), &3.into(), &serde_json::Value::Null)
        );
    }
}
