//! Host metrics as panels of a heat map with one row for each host.

use std::collections::{BTreeMap, BTreeSet};

use super::{HostMetric, Piece};
use crate::cell::{Cell, sum};
use crate::heat::grid::{Grid, Panel};
use crate::heat::order::{RowKind, RowLabel};
use crate::heat::track::{State, Track};

/// Columns of a time axis. The first column begins at a multiple of the column length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// Start of the first column in nanoseconds since 1970.
    pub start_ns: u64,
    /// Length of a column in nanoseconds.
    pub step_ns: u64,
    /// Number of columns.
    pub count: usize,
}

/// Returns a heat map of host metrics. `rows` are labels of hosts, with the name of the host in
/// `id.node`. Hosts without readings get rows without records.
pub fn grid(metrics: &[HostMetric], rows: Vec<RowLabel>, columns: Columns) -> Grid {
    let panel = |metric: &HostMetric| {
        let mut by_host: BTreeMap<&str, Vec<&[Piece]>> = BTreeMap::new();
        metric
            .series
            .iter()
            .for_each(|(host, pieces)| by_host.entry(host).or_default().push(pieces));
        let cells = |row: &RowLabel| {
            let series = row.id.node.as_deref().and_then(|host| by_host.get(host));
            sum(
                columns.count,
                series
                    .into_iter()
                    .flatten()
                    .filter(|pieces| !pieces.is_empty())
                    .map(|pieces| cells(pieces, columns)),
            )
        };
        Panel {
            metric: metric.metric.clone(),
            summed: 1,
            full: None,
            ports: Vec::new(),
            cells: rows.iter().map(cells).collect(),
        }
    };
    let panels = metrics.iter().map(panel).collect();
    Grid {
        start_ns: columns.start_ns,
        step_ns: columns.step_ns,
        columns: columns.count,
        by: RowKind::Host,
        rows,
        panels,
    }
}

/// Returns the rows of those hosts that have a value in one of the metrics, in the order of
/// `rows`.
pub fn with_values(metrics: &[HostMetric], rows: Vec<RowLabel>) -> Vec<RowLabel> {
    let hosts: BTreeSet<&str> = metrics
        .iter()
        .flat_map(|metric| metric.series.iter().map(|(host, _)| &**host))
        .collect();
    rows.into_iter()
        .filter(|row| {
            row.id
                .node
                .as_deref()
                .is_some_and(|host| hosts.contains(host))
        })
        .collect()
}

/// Returns the cells of one series: the mean over the time with a value.
fn cells(
    pieces: &[Piece],
    Columns {
        start_ns,
        step_ns,
        count,
    }: Columns,
) -> Vec<Cell> {
    let (mut track, step_ns) = (Track::default(), step_ns.max(1));
    let end_ns = start_ns.saturating_add(step_ns.saturating_mul(count as u64));
    for Piece { time, value } in pieces {
        let state = value.map_or(State::Unknown, State::Value);
        for (column, part) in time
            .within(start_ns, end_ns)
            .into_iter()
            .flat_map(|time| time.split(step_ns))
        {
            track
                .at(column)
                .put(state, part, time.length_ns().min(step_ns));
        }
    }
    track.row(start_ns / step_ns, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heat::order::RowId;
    use crate::metric::{Metric, Unit};
    use crate::record::Interval;

    const SECOND: u64 = 1_000_000_000;

    fn row(host: &str) -> RowLabel {
        RowLabel {
            id: RowId {
                node: Some(host.to_owned()),
                ..RowId::default()
            },
            ..RowLabel::new(host)
        }
    }

    fn piece(from: u64, to: u64, value: Option<f64>) -> Piece {
        Piece {
            time: Interval::new(from * SECOND / 10, to * SECOND / 10).unwrap(),
            value,
        }
    }

    #[test]
    fn series_of_a_host_are_added_and_missing_data_is_not_zero() {
        let metric = Metric::of_hosts("ipoib", "IPoIB", Unit::OctetsPerSecond);
        let series = vec![
            (
                "n1".to_owned(),
                vec![
                    piece(100, 115, Some(4.0)),
                    piece(115, 120, Some(8.0)),
                    piece(120, 130, None),
                ],
            ),
            (
                "n1".to_owned(),
                vec![piece(100, 110, Some(1.0)), piece(120, 140, Some(2.0))],
            ),
        ];
        let metrics = [HostMetric { metric, series }];
        let columns = Columns {
            start_ns: 10 * SECOND,
            step_ns: SECOND,
            count: 5,
        };
        let grid = grid(&metrics, vec![row("n1"), row("n2")], columns);
        use Cell::{AtLeast, NoRecord, Value};
        let half = |value| AtLeast {
            value,
            covered: 0.5,
        };
        assert_eq!(
            grid.panels[0].cells,
            [
                [Value(5.0), half(6.0), half(2.0), half(2.0), NoRecord],
                [NoRecord; 5]
            ]
        );
        assert_eq!(
            with_values(&metrics, vec![row("n2"), row("n1")]),
            [row("n1")]
        );
    }
}
