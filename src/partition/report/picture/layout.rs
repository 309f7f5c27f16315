//! Prepares a picture for [`drawing::layout`](crate::drawing::layout), which places its switches.

use super::Picture;
use crate::drawing::layout::Net;

impl Picture {
    /// Returns the switches and the links between them.
    pub(super) fn net(&self) -> Net<'_> {
        let switches = self
            .switches
            .iter()
            .map(|switch| (&*switch.name, switch.tier))
            .collect();
        Net {
            switches,
            links: self.links.keys().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::picture;
    use crate::drawing::layout::Layout;
    use crate::topology::synthetic::{Blueprint, FatTree};

    fn titles(layout: &Layout) -> Vec<(&str, Vec<usize>)> {
        layout
            .rows
            .iter()
            .map(|row| (&*row.title, row.lines.iter().map(Vec::len).collect()))
            .collect()
    }

    #[test]
    fn tiers_are_rows_and_long_rows_are_split_evenly() {
        let picture = picture(
            &FatTree {
                leaves: 36,
                hosts: 2,
                spines: 4,
                trunk: 1,
                radix: 36,
            }
            .blueprint(),
            "node00001",
            1000,
        );
        let layout = Layout::of(&picture.net());
        assert_eq!(
            titles(&layout),
            [("tier 2", vec![4]), ("tier 1", vec![12, 12, 12])]
        );
        assert_eq!(layout.columns, 12);
        let names: Vec<_> = layout.rows[1]
            .lines
            .concat()
            .into_iter()
            .map(|switch| picture.switches[switch].name.clone())
            .collect();
        assert!(
            names.is_sorted(),
            "switches with equal links are sorted by number: {names:?}"
        );
    }

    #[test]
    fn switches_with_a_common_neighbour_are_adjacent() {
        let mut net = Blueprint::new("EDR");
        let tops: Vec<_> = (0..3).map(|n| net.switch(&format!("top{n}"), 8)).collect();
        // Leaf n is connected to top n modulo 3.
        for n in 0..12 {
            let leaf = net.switch(&format!("{n:02}"), 8);
            net.cable((leaf, 8), (tops[n % 3], n / 3 + 1));
            let host = net.adapter(&format!("n{n} mlx5_0"), 1);
            net.cable((host, 1), (leaf, 1));
        }
        let picture = picture(&net, "n0", 1000);
        let layout = Layout::of(&picture.net());
        let tops: Vec<_> = layout.rows[1]
            .lines
            .concat()
            .iter()
            .map(|switch| picture.switches[*switch].name.parse::<usize>().unwrap() % 3)
            .collect();
        assert_eq!(tops, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn without_tiers_rows_are_distances_from_the_edge() {
        let mut net = Blueprint::new("EDR");
        let row: Vec<_> = (0..5).map(|n| net.switch(&format!("s{n}"), 8)).collect();
        for (n, switch) in row.iter().enumerate() {
            let host = net.adapter(&format!("n{n} mlx5_0"), 1);
            net.cable((host, 1), (*switch, 1));
        }
        // A chain whose order is not the order of the names.
        for (n, pair) in [2, 0, 4, 1, 3].windows(2).enumerate() {
            net.cable((row[pair[0]], 2 + n % 2), (row[pair[1]], 4 + n % 2));
        }
        let picture = picture(&net, "n0", 1000);
        let layout = Layout::of(&picture.net());
        let found: Vec<_> = layout.rows.iter().map(|row| row.lines.concat()).collect();
        assert!(
            found == [[2], [0], [4], [1], [3]] || found == [[3], [1], [4], [0], [2]],
            "{found:?}"
        );
    }
}
