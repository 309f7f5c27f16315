//! Arranges switches in rows: one row for each tier, the highest tier on top. Within a row, a
//! switch is placed close to its neighbours in other rows.
//!
//! A row that is too long for the page is broken into lines of equal length. In a fabric without
//! tiers, the row of a switch is its distance from a switch at the edge.

use std::collections::{BTreeMap, VecDeque};

/// Switches and links to lay out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Net<'a> {
    /// Name and tier of each switch: tier 1 for a leaf switch, 0 if no leaf switch can be reached.
    pub switches: Vec<(&'a str, u16)>,
    /// Links, as pairs of indices into [`Net::switches`].
    pub links: Vec<(usize, usize)>,
}

/// Switches in rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Rows from top to bottom.
    pub rows: Vec<Row>,
    /// Number of switches in the longest line.
    pub columns: usize,
}

/// Switches of one tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Title of the row.
    pub title: String,
    /// Indices into [`Net::switches`], by line and column.
    pub lines: Vec<Vec<usize>>,
}

impl Layout {
    /// Lays out all switches.
    pub fn of(net: &Net<'_>) -> Self {
        let neighbours = neighbours(net);
        let (titles, mut rows): (Vec<_>, Vec<_>) = rows(net, &neighbours).into_iter().unzip();
        order(&mut rows, &neighbours);
        let most = columns(net.switches.len());
        let lines = |row: Vec<usize>| {
            let length = row.len().div_ceil(row.len().div_ceil(most).max(1)).max(1);
            row.chunks(length)
                .map(<[usize]>::to_vec)
                .collect::<Vec<_>>()
        };
        let rows: Vec<_> = titles
            .into_iter()
            .zip(rows)
            .map(|(title, row)| Row {
                title,
                lines: lines(row),
            })
            .collect();
        let columns = rows
            .iter()
            .flat_map(|row| &row.lines)
            .map(Vec::len)
            .max()
            .unwrap_or(0);
        Self { rows, columns }
    }
}

/// Returns the max number of switches in a line, with which the picture is about twice as wide as
/// high.
fn columns(switches: usize) -> usize {
    ((4 * switches) as f64).sqrt().ceil().clamp(16.0, 40.0) as usize
}

fn neighbours(net: &Net<'_>) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); net.switches.len()];
    for (one, other) in &net.links {
        neighbours[*one].push(*other);
        neighbours[*other].push(*one);
    }
    neighbours
}

/// Returns the rows from top to bottom with their titles. The switches of a row are sorted by name.
fn rows(net: &Net<'_>, neighbours: &[Vec<usize>]) -> Vec<(String, Vec<usize>)> {
    let has_tiers = net.switches.iter().any(|(_, tier)| *tier > 1);
    let (of_switch, first) = match has_tiers || net.links.is_empty() {
        true => (
            net.switches
                .iter()
                .map(|(_, tier)| u32::from(*tier))
                .collect(),
            None,
        ),
        false => {
            let edge = edge(neighbours);
            (steps(edge, neighbours), Some(edge))
        }
    };
    let mut rows: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (switch, row) in of_switch.iter().enumerate() {
        rows.entry(*row).or_default().push(switch);
    }
    let named = |(row, mut switches): (u32, Vec<usize>)| {
        switches.sort_by_key(|switch| natural(net.switches[*switch].0));
        let title = match (first, row) {
            (None, 0) => "no hosts".to_owned(),
            (None, tier) => format!("tier {tier}"),
            (Some(_), u32::MAX) => "not connected".to_owned(),
            (Some(_), 0) => "the edge".to_owned(),
            (Some(_), 1) => "1 link away".to_owned(),
            (Some(_), steps) => format!("{steps} links away"),
        };
        (title, switches)
    };
    let rows = rows.into_iter().map(named);
    if first.is_some() {
        rows.collect()
    } else {
        rows.rev().collect()
    }
}

/// Returns a switch at the edge: the one that is farthest from the switch that is farthest from
/// the first switch.
fn edge(neighbours: &[Vec<usize>]) -> usize {
    let farthest = |from: usize| {
        let steps = steps(from, neighbours);
        // On a tie, this selects the first one.
        (0..steps.len())
            .rev()
            .filter(|switch| steps[*switch] != u32::MAX)
            .max_by_key(|switch| steps[*switch])
            .unwrap_or(from)
    };
    farthest(farthest(0))
}

/// Returns the number of links from one switch to each switch, or `u32::MAX` without a path.
fn steps(from: usize, neighbours: &[Vec<usize>]) -> Vec<u32> {
    let mut steps = vec![u32::MAX; neighbours.len()];
    let mut queue = VecDeque::from([from]);
    steps[from] = 0;
    while let Some(switch) = queue.pop_front() {
        for next in &neighbours[switch] {
            if steps[*next] == u32::MAX {
                steps[*next] = steps[switch] + 1;
                queue.push_back(*next);
            }
        }
    }
    steps
}

/// Sorts the rows by the barycentre method, downwards and upwards: a switch moves to the mean
/// position of its neighbours in other rows. Switches with equal means keep their order.
fn order(rows: &mut [Vec<usize>], neighbours: &[Vec<usize>]) {
    const SWEEPS: usize = 8;
    let mut row_of = vec![0; neighbours.len()];
    let mut place = vec![0.0; neighbours.len()];
    let put = |row: &[usize], place: &mut [f64]| {
        // Positions are relative to the length of the row, as if all rows had the same width.
        row.iter()
            .enumerate()
            .for_each(|(at, switch)| place[*switch] = (at as f64 + 0.5) / row.len() as f64);
    };
    for (number, row) in rows.iter().enumerate() {
        row.iter().for_each(|switch| row_of[*switch] = number);
        put(row, &mut place);
    }
    for sweep in 0..SWEEPS {
        for step in 1..rows.len() {
            let number = if sweep % 2 == 0 {
                step
            } else {
                rows.len() - 1 - step
            };
            let towards = |other: usize| {
                if sweep % 2 == 0 {
                    row_of[other] < number
                } else {
                    row_of[other] > number
                }
            };
            let mean = |switch: usize| {
                let others = neighbours[switch]
                    .iter()
                    .filter(|other| towards(**other))
                    .map(|other| place[*other]);
                let (sum, count) = others.fold((0.0, 0), |(sum, count), at| (sum + at, count + 1));
                // The mean is rounded, so that it does not depend on the order of summation.
                if count == 0 {
                    place[switch]
                } else {
                    (sum / f64::from(count) * 1e6).round() / 1e6
                }
            };
            let mut keyed: Vec<_> = rows[number]
                .iter()
                .map(|switch| (mean(*switch), *switch))
                .collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[number] = keyed.into_iter().map(|(_, switch)| switch).collect();
            put(&rows[number], &mut place);
        }
    }
}

/// Returns a sort key that compares numbers by value: `leaf2` before `leaf10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let digits = rest[text..]
            .find(|c: char| !c.is_ascii_digit())
            .map_or(rest.len(), |length| text + length);
        key.push((
            rest[..text].to_owned(),
            rest[text..digits].parse().unwrap_or(u64::MAX),
        ));
        rest = &rest[digits..];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_the_values_of_their_numbers() {
        let mut names = [
            "leaf10",
            "leaf2",
            "core",
            "leaf2-1",
            "",
            "9",
            "10",
            "99999999999999999999999",
        ];
        names.sort_by_key(|name| natural(name));
        assert_eq!(
            names,
            [
                "",
                "9",
                "10",
                "99999999999999999999999",
                "core",
                "leaf2",
                "leaf2-1",
                "leaf10"
            ]
        );
    }
}
