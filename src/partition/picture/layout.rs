//! Where each switch goes: rows by tier, the highest on top; within a row near its neighbours.
//!
//! A row that is too long for a page is broken into lines of equal length. In a fabric without tiers a row is a step from a switch at the rim.

use std::collections::{BTreeMap, VecDeque};

use super::Picture;

/// Switches in rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// From the top.
    pub rows: Vec<Row>,
    /// Boxes of the longest line.
    pub columns: usize,
}

/// Switches of one tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// What they have in common.
    pub title: String,
    /// [line][column]: the place in [`Picture::switches`].
    pub lines: Vec<Vec<usize>>,
}

impl Layout {
    /// Finds a place for every switch.
    pub fn of(picture: &Picture) -> Self {
        let neighbours = neighbours(picture);
        let (titles, mut rows): (Vec<_>, Vec<_>) = rows(picture, &neighbours).into_iter().unzip();
        order(&mut rows, &neighbours);
        let most = columns(picture.switches.len());
        let lines = |row: Vec<usize>| {
            let length = row.len().div_ceil(row.len().div_ceil(most).max(1)).max(1);
            row.chunks(length).map(<[usize]>::to_vec).collect::<Vec<_>>()
        };
        let rows: Vec<_> = titles.into_iter().zip(rows).map(|(title, row)| Row { title, lines: lines(row) }).collect();
        let columns = rows.iter().flat_map(|row| &row.lines).map(Vec::len).max().unwrap_or(0);
        Self { rows, columns }
    }
}

/// The most boxes of a line: so many that the picture is about twice as wide as high.
fn columns(switches: usize) -> usize {
    ((4 * switches) as f64).sqrt().ceil().clamp(16.0, 40.0) as usize
}

fn neighbours(picture: &Picture) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); picture.switches.len()];
    for (one, other) in picture.links.keys() {
        neighbours[*one].push(*other);
        neighbours[*other].push(*one);
    }
    neighbours
}

/// Rows from the top with their titles, each by name.
fn rows(picture: &Picture, neighbours: &[Vec<usize>]) -> Vec<(String, Vec<usize>)> {
    let has_tiers = picture.switches.iter().any(|switch| switch.tier > 1);
    let (of_switch, first) = match has_tiers || picture.links.is_empty() {
        true => (picture.switches.iter().map(|switch| u32::from(switch.tier)).collect(), None),
        false => {
            let rim = rim(neighbours);
            (steps(rim, neighbours), Some(rim))
        }
    };
    let mut rows: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (switch, row) in of_switch.iter().enumerate() {
        rows.entry(*row).or_default().push(switch);
    }
    let named = |(row, mut switches): (u32, Vec<usize>)| {
        switches.sort_by_key(|switch| natural(&picture.switches[*switch].name));
        let title = match (first, row) {
            (None, 0) => "no hosts".to_owned(),
            (None, tier) => format!("tier {tier}"),
            (Some(_), u32::MAX) => "not connected".to_owned(),
            (Some(_), 0) => "the rim".to_owned(),
            (Some(_), 1) => "1 link away".to_owned(),
            (Some(_), steps) => format!("{steps} links away"),
        };
        (title, switches)
    };
    let rows = rows.into_iter().map(named);
    if first.is_some() { rows.collect() } else { rows.rev().collect() }
}

/// A switch at the rim: the farthest from the farthest from the first.
fn rim(neighbours: &[Vec<usize>]) -> usize {
    let farthest = |from: usize| {
        let steps = steps(from, neighbours);
        // The first of equals.
        (0..steps.len()).rev().filter(|switch| steps[*switch] != u32::MAX).max_by_key(|switch| steps[*switch]).unwrap_or(from)
    };
    farthest(farthest(0))
}

/// Links from one switch to each; the greatest number where no way leads.
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

/// Barycentres, down and up: each switch goes to the mean place of its neighbours in other rows. Equals keep their order.
fn order(rows: &mut [Vec<usize>], neighbours: &[Vec<usize>]) {
    const SWEEPS: usize = 8;
    let mut row_of = vec![0; neighbours.len()];
    let mut place = vec![0.0; neighbours.len()];
    let put = |row: &[usize], place: &mut [f64]| {
        // Rows are as wide as each other, whatever their number.
        row.iter().enumerate().for_each(|(at, switch)| place[*switch] = (at as f64 + 0.5) / row.len() as f64);
    };
    for (number, row) in rows.iter().enumerate() {
        row.iter().for_each(|switch| row_of[*switch] = number);
        put(row, &mut place);
    }
    for sweep in 0..SWEEPS {
        for step in 1..rows.len() {
            let number = if sweep % 2 == 0 { step } else { rows.len() - 1 - step };
            let towards = |other: usize| if sweep % 2 == 0 { row_of[other] < number } else { row_of[other] > number };
            let mean = |switch: usize| {
                let others = neighbours[switch].iter().filter(|other| towards(**other)).map(|other| place[*other]);
                let (sum, count) = others.fold((0.0, 0), |(sum, count), at| (sum + at, count + 1));
                // Rounded, so that equal means of other orders of summing are equal.
                if count == 0 { place[switch] } else { (sum / f64::from(count) * 1e6).round() / 1e6 }
            };
            let mut keyed: Vec<_> = rows[number].iter().map(|switch| (mean(*switch), *switch)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[number] = keyed.into_iter().map(|(_, switch)| switch).collect();
            put(&rows[number], &mut place);
        }
    }
}

/// A key by which `leaf2` comes before `leaf10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let digits = rest[text..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| text + length);
        key.push((rest[..text].to_owned(), rest[text..digits].parse().unwrap_or(u64::MAX)));
        rest = &rest[digits..];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::super::tests::picture;
    use super::*;
    use crate::topology::synthetic::{Blueprint, FatTree};

    fn titles(layout: &Layout) -> Vec<(&str, Vec<usize>)> {
        layout.rows.iter().map(|row| (&*row.title, row.lines.iter().map(Vec::len).collect())).collect()
    }

    #[test]
    fn tiers_are_rows_and_long_rows_are_broken_evenly() {
        let picture = picture(&FatTree { leaves: 36, hosts: 2, spines: 4, trunk: 1, radix: 36 }.blueprint(), "node00001", 1000);
        let layout = Layout::of(&picture);
        assert_eq!(titles(&layout), [("tier 2", vec![4]), ("tier 1", vec![12, 12, 12])]);
        assert_eq!(layout.columns, 12);
        let names: Vec<_> = layout.rows[1].lines.concat().into_iter().map(|switch| picture.switches[switch].name.clone()).collect();
        assert!(names.is_sorted(), "where the links leave it open, as people count: {names:?}");
    }

    #[test]
    fn neighbours_come_to_stand_beside_each_other() {
        let mut net = Blueprint::new("EDR");
        let tops: Vec<_> = (0..3).map(|n| net.switch(&format!("top{n}"), 8)).collect();
        // a0, b0, c0, a1, ...: each letter hangs on one top.
        for n in 0..12 {
            let leaf = net.switch(&format!("{n:02}"), 8);
            net.cable((leaf, 8), (tops[n % 3], n / 3 + 1));
            let host = net.adapter(&format!("n{n} mlx5_0"), 1);
            net.cable((host, 1), (leaf, 1));
        }
        let picture = picture(&net, "n0", 1000);
        let layout = Layout::of(&picture);
        let tops: Vec<_> =
            layout.rows[1].lines.concat().iter().map(|switch| picture.switches[*switch].name.parse::<usize>().unwrap() % 3).collect();
        assert_eq!(tops, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn without_tiers_rows_are_steps_from_the_rim() {
        let mut net = Blueprint::new("EDR");
        let row: Vec<_> = (0..5).map(|n| net.switch(&format!("s{n}"), 8)).collect();
        for (n, switch) in row.iter().enumerate() {
            let host = net.adapter(&format!("n{n} mlx5_0"), 1);
            net.cable((host, 1), (*switch, 1));
        }
        // A chain in another order than that of the names.
        for (n, pair) in [2, 0, 4, 1, 3].windows(2).enumerate() {
            net.cable((row[pair[0]], 2 + n % 2), (row[pair[1]], 4 + n % 2));
        }
        let picture = picture(&net, "n0", 1000);
        let layout = Layout::of(&picture);
        let found: Vec<_> = layout.rows.iter().map(|row| row.lines.concat()).collect();
        assert!(found == [[2], [0], [4], [1], [3]] || found == [[3], [1], [4], [0], [2]], "{found:?}");
    }

    #[test]
    fn names_are_ordered_as_people_count() {
        let mut names = ["leaf10", "leaf2", "core", "leaf2-1", "", "9", "10", "99999999999999999999999"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["", "9", "10", "99999999999999999999999", "core", "leaf2", "leaf2-1", "leaf10"]);
    }
}
