//! The traffic between each pair of hosts, estimated by the fit.
//!
//! A cell is only as good as the counters: they have no destinations. `docs/jobs.md` has the
//! measured errors.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use serde::Serialize;

use super::Shares;
use super::network::Host;
use crate::hosts::Hosts;
use crate::job::is_one_of;
use crate::rows::Row;

/// A job with more nodes is shown by leaf switch.
const MANY: usize = 48;

/// The traffic of a job by sender and receiver.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Matrix {
    /// Pairs with possible traffic, the one with the largest estimate first. A pair that is not in
    /// the list exchanged no data, if hosts of different jobs exchange none.
    pub cells: Vec<MatrixCell>,
    /// Length of the intervals of the estimate in nanoseconds.
    pub interval_ns: u64,
    /// Part of the data on links between switches that the estimate does not explain, 0 to 1.
    pub unexplained: Option<f64>,
    /// Time of the intervals in which the counters show that hosts of different jobs exchange
    /// data, in seconds.
    pub contradicted_seconds: f64,
}

/// What one host sent to another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MatrixCell {
    /// Name of the sending host, or of its leaf switch.
    pub from: String,
    /// Name of the receiving host, or of its leaf switch.
    pub to: String,
    /// Leaf switch of the sender. Empty if unknown.
    pub from_leaf: String,
    /// Leaf switch of the receiver. Empty if unknown.
    pub to_leaf: String,
    /// Whether the sender is a node of the job.
    pub from_is_node: bool,
    /// Whether the receiver is a node of the job.
    pub to_is_node: bool,
    /// Lower bound of the bytes, if hosts of different jobs exchange no data.
    pub least_bytes: f64,
    /// Estimate of the bytes.
    pub estimate_bytes: f64,
    /// Upper bound of the bytes.
    pub most_bytes: f64,
}

impl Row for MatrixCell {
    const COLUMNS: &'static [&'static str] = &[
        "from",
        "to",
        "from_leaf",
        "to_leaf",
        "from_is_node",
        "to_is_node",
        "least_bytes",
        "estimate_bytes",
        "most_bytes",
    ];
}

impl Shares<'_> {
    /// Returns what these hosts sent to each other, and what they exchanged with other hosts.
    /// Returns `None` if there is no estimate.
    pub fn matrix(&self, hosts: &Hosts) -> Option<Matrix> {
        let bytes = |gbps: f64| gbps * self.bin_ns as f64 / 8.0;
        let leaf = |host: &Host<'_>| {
            let port = host.port.leaf_port.as_ref();
            port.map_or_else(String::new, |port| port.node.to_string())
        };
        let mut cells = Vec::new();
        for pair in self.pairs.as_ref()? {
            let [from, to] = [pair.from, pair.to].map(|host| &self.network.hosts[host as usize]);
            let [from_is_node, to_is_node] =
                [from, to].map(|host| is_one_of(hosts, host.port.host));
            if (from_is_node || to_is_node) && pair.bounds.most > 0.0 {
                cells.push(MatrixCell {
                    from: from.port.host.to_owned(),
                    to: to.port.host.to_owned(),
                    from_leaf: leaf(from),
                    to_leaf: leaf(to),
                    from_is_node,
                    to_is_node,
                    least_bytes: bytes(pair.bounds.least),
                    estimate_bytes: bytes(pair.estimate),
                    most_bytes: bytes(pair.bounds.most),
                });
            }
        }
        Some(Matrix {
            cells: joined(cells),
            interval_ns: self.bin_ns,
            unexplained: self.unexplained(),
            contradicted_seconds: self.contradicted_seconds(),
        })
    }
}

/// The estimates as a square table. All hosts that are not nodes of the job are one end.
#[derive(Clone, PartialEq, Debug)]
pub struct Square {
    /// Names of the hosts or leaf switches. [`OTHERS`] is the last one, if there is traffic with
    /// other hosts.
    pub names: Vec<String>,
    /// Bytes by sender and receiver. NaN if unknown.
    pub bytes: Vec<Vec<f64>>,
}

/// Name of all hosts that are not nodes of the job.
pub const OTHERS: &str = "other hosts";

impl Matrix {
    /// Returns the number of hosts or leaf switches of the job that exchanged data.
    pub fn ends(&self) -> usize {
        let all: BTreeSet<_> = self.cells.iter().flat_map(MatrixCell::ends).collect();
        all.into_iter().filter(|(is_other, ..)| !is_other).count()
    }

    /// Returns the traffic between leaf switches. The bounds are the sums of those of the hosts.
    fn by_leaf(mut self) -> Self {
        for cell in &mut self.cells {
            cell.from.clone_from(&cell.from_leaf);
            cell.to.clone_from(&cell.to_leaf);
        }
        self.cells = joined(self.cells);
        self
    }

    /// Returns the traffic between hosts, or between leaf switches if the job has many nodes, and
    /// what its ends are.
    pub fn brief(&self) -> (Self, &'static str) {
        if self.ends() > MANY {
            (self.clone().by_leaf(), "leaf switches")
        } else {
            (self.clone(), "hosts")
        }
    }

    /// Returns what the estimate is worth, in lines of 80 characters.
    pub fn worth(&self) -> String {
        let mut text = format!(
            "Port counters have no destinations. An estimate can be wrong by half or more:\n\
             trust which pairs are large, and the bounds. Both come from the routes and the\n\
             counters in intervals of {} s, and assume that hosts of different jobs\n\
             exchange no data.",
            self.interval_ns as f64 / 1e9
        );
        if let Some(share) = self.unexplained {
            text += &format!(
                "\n{:.1} % of the traffic between switches is not explained.",
                100.0 * share
            );
        }
        if self.contradicted_seconds > 0.0 {
            text += &format!(
                "\nIn {:.0} s of this time, the counters contradict this assumption: do not trust\n\
                 the estimates of this time. Its bounds do not assume it.",
                self.contradicted_seconds
            );
        }
        text
    }

    /// Returns the traffic with all hosts that are not nodes of the job as one end, [`OTHERS`].
    /// Its bounds are the sums of those of the hosts.
    #[must_use]
    pub fn with_others_joined(mut self) -> Self {
        for cell in &mut self.cells {
            for (is_node, name, leaf) in [
                (cell.from_is_node, &mut cell.from, &mut cell.from_leaf),
                (cell.to_is_node, &mut cell.to, &mut cell.to_leaf),
            ] {
                if !is_node {
                    OTHERS.clone_into(name);
                    leaf.clear();
                }
            }
        }
        self.cells = joined(self.cells);
        self
    }

    /// Returns the estimates as a table, ordered by leaf switch and host.
    pub fn square(&self) -> Square {
        let index: BTreeMap<_, usize> = {
            let all: BTreeSet<_> = self.cells.iter().flat_map(MatrixCell::ends).collect();
            all.into_iter().zip(0..).collect()
        };
        let mut bytes = vec![vec![0.0; index.len()]; index.len()];
        for cell in &self.cells {
            let [from, to] = cell.ends().map(|end| index[&end]);
            bytes[from][to] += cell.estimate_bytes;
        }
        // What other hosts sent to each other is not in the cells.
        if let Some(others) = index.get(&(true, "", OTHERS)) {
            bytes[*others][*others] = f64::NAN;
        }
        let names = index.into_keys().map(|(.., name)| name.to_owned());
        Square {
            names: names.collect(),
            bytes,
        }
    }
}

impl MatrixCell {
    /// Returns the keys of both ends in a square table: nodes first, by leaf switch and name.
    fn ends(&self) -> [(bool, &str, &str); 2] {
        let from = (self.from_is_node, &*self.from_leaf, &*self.from);
        let to = (self.to_is_node, &*self.to_leaf, &*self.to);
        [from, to].map(|(is_node, leaf, name)| match is_node {
            true => (false, leaf, name),
            false => (true, "", OTHERS),
        })
    }
}

/// Adds up the cells of the same sender and receiver: ports of a host, or hosts of a leaf switch.
fn joined(cells: Vec<MatrixCell>) -> Vec<MatrixCell> {
    let mut sums: BTreeMap<_, MatrixCell> = BTreeMap::new();
    for cell in cells {
        let ends = (cell.from.clone(), cell.to.clone());
        match sums.entry((ends, cell.from_is_node, cell.to_is_node)) {
            Entry::Vacant(entry) => {
                entry.insert(cell);
            }
            Entry::Occupied(entry) => {
                let sum = entry.into_mut();
                sum.least_bytes += cell.least_bytes;
                sum.estimate_bytes += cell.estimate_bytes;
                sum.most_bytes += cell.most_bytes;
            }
        }
    }
    let mut cells: Vec<MatrixCell> = sums.into_values().collect();
    cells.sort_by(|a, b| b.estimate_bytes.total_cmp(&a.estimate_bytes));
    cells
}
