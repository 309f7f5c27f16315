//! Where everything goes: boxes of switches in rows by tier, and the lines between them.

use super::canvas::{Canvas, px, shortened};
use super::layout::{Layout, Net};
use crate::types::Printable;

/// Width and height of a switch's box, in pixels as all here.
pub const BOX: (f64, f64) = (120.0, 44.0);
/// Between boxes of a line.
const GAP: f64 = 10.0;
/// Between lines of a row; the second if there are links within the row.
const LINE_GAP: (f64, f64) = (14.0, 50.0);
/// Between rows, by the columns of the widest line: room for the links, so that they do not lie too flat.
const ROW_GAP: (f64, f64) = (80.0, 5.0);
/// Around all.
pub const MARGIN: f64 = 24.0;
/// Room for the rows' titles.
const TITLES: f64 = 96.0;
/// From the top to the first row.
pub const HEAD: f64 = 78.0;
/// How far a line between two boxes side by side rises above them at most.
const HIGHEST_BOW: f64 = 60.0;
/// Characters of a name that find room in a box.
pub const NAME: usize = 13;
/// A page with switches on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Sheet {
    layout: Layout,
    /// Below each box.
    room: f64,
    /// The left upper corner of each switch's box.
    pub places: Vec<(f64, f64)>,
    /// What is written into the boxes.
    pub labels: Vec<String>,
}

impl Sheet {
    /// Lays everything out.
    pub fn new(net: &Net<'_>) -> Self {
        Self::with_room_below(net, 0.0)
    }

    /// Lays everything out, with so much room below each box.
    pub fn with_room_below(net: &Net<'_>, room: f64) -> Self {
        let layout = Layout::of(net);
        let names: Vec<_> = net.switches.iter().map(|(name, _)| *name).collect();
        Self { places: places(net, &layout, room), labels: labels(&names), layout, room }
    }

    /// The width of the page, at least so much.
    pub fn width(&self, least: f64) -> f64 {
        (2.0 * MARGIN + TITLES + self.layout.columns as f64 * (BOX.0 + GAP)).max(least)
    }

    /// Where the lowest box ends.
    pub fn bottom(&self) -> f64 {
        self.places.iter().map(|(_, y)| y + BOX.1).fold(HEAD, f64::max)
    }

    /// A band behind each row, with its title.
    pub fn rows(&self, canvas: &mut Canvas, width: f64) {
        const AROUND: f64 = 12.0;
        for row in &self.layout.rows {
            let ys = row.lines.iter().flatten().map(|switch| self.places[*switch].1);
            let (top, low) = ys.fold((f64::MAX, 0.0_f64), |(top, low), y| (top.min(y), low.max(y)));
            let (y, height) = (px(top - AROUND), px(low - top + BOX.1 + self.room + 2.0 * AROUND));
            canvas.empty("rect", &[("x", "0"), ("y", &y), ("width", &px(width)), ("height", &height), ("fill", "#f3f3f3")]);
            let x = px(MARGIN);
            canvas.text("text", &[("x", &x), ("y", &px(top + 18.0)), ("font-size", "13"), ("font-weight", "bold")], &row.title);
            let count = row.lines.iter().map(Vec::len).sum::<usize>();
            let count = if count == 1 { "1 switch".to_owned() } else { format!("{count} switches") };
            canvas.text("text", &[("x", &x), ("y", &px(top + 34.0)), ("font-size", "11"), ("fill", "#444444")], &count);
        }
    }

    /// The line between two switches, and where its count stands: a curve from row to row, a bow within a line.
    pub fn path(&self, (one, other): (usize, usize)) -> (String, (f64, f64)) {
        let ((ax, ay), (bx, by)) = (self.places[one], self.places[other]);
        let (a, b) = (ax + BOX.0 / 2.0, bx + BOX.0 / 2.0);
        if ay == by {
            let rise = (12.0 + (a - b).abs() * 0.12).min(HIGHEST_BOW);
            let path = format!("M{a:.0} {ay:.0}C{a:.0} {y:.0} {b:.0} {y:.0} {b:.0} {by:.0}", y = ay - rise);
            return (path, ((a + b) / 2.0, ay - rise * 0.75));
        }
        let ((top_x, top_y), (low_x, low_y)) = if ay < by { ((a, ay + BOX.1), (b, by)) } else { ((b, by + BOX.1), (a, ay)) };
        let (upper, lower) = (top_y + (low_y - top_y) * 0.3, top_y + (low_y - top_y) * 0.7);
        let path = format!("M{top_x:.0} {top_y:.0}C{top_x:.0} {upper:.0} {low_x:.0} {lower:.0} {low_x:.0} {low_y:.0}");
        (path, (0.4 * top_x + 0.6 * low_x, 0.4 * top_y + 0.6 * low_y))
    }
}

/// The left upper corner of each switch's box.
fn places(net: &Net<'_>, layout: &Layout, room: f64) -> Vec<(f64, f64)> {
    let mut places = vec![(0.0, 0.0); net.switches.len()];
    let within = |line: &[usize]| net.links.iter().any(|(one, other)| line.contains(one) && line.contains(other));
    let mut y = HEAD;
    for row in &layout.rows {
        // Links within a row rise above its boxes.
        let bows = row.lines.len() > 1 && within(&row.lines.concat());
        for line in &row.lines {
            y += if within(line) { HIGHEST_BOW } else { 0.0 };
            let indent = (layout.columns - line.len()) as f64 / 2.0;
            for (column, switch) in line.iter().enumerate() {
                places[*switch] = (MARGIN + TITLES + (indent + column as f64) * (BOX.0 + GAP), y);
            }
            y += BOX.1 + room + if bows { LINE_GAP.1 } else { LINE_GAP.0 };
        }
        y += ROW_GAP.0 + ROW_GAP.1 * layout.columns as f64 - LINE_GAP.0;
    }
    places
}

/// What is written into the boxes: the names, or where they are long what tells them apart.
fn labels(names: &[&str]) -> Vec<String> {
    let names: Vec<Vec<char>> = names.iter().map(|name| Printable(name.trim()).to_string().chars().collect()).collect();
    let whole = |name: &Vec<char>| name.iter().collect::<String>();
    let long: Vec<_> = names.iter().filter(|name| name.len() > NAME).collect();
    let all_same =
        |at: &dyn Fn(&Vec<char>) -> Option<char>| long.windows(2).all(|pair| at(pair[0]).is_some() && at(pair[0]) == at(pair[1]));
    if long.len() < 2 {
        return names.iter().map(|name| shortened(&whole(name), NAME)).collect();
    }
    let shortest = long.iter().map(|name| name.len()).min().unwrap_or(0);
    let head = (0..shortest).take_while(|at| all_same(&|name| name.get(*at).copied())).count();
    let tail = (0..shortest - head).take_while(|at| all_same(&|name| name.get(name.len() - 1 - at).copied())).count();
    // What room is left shows the end of what is alike before the difference: `rack1` tells more than `1`.
    let widest = long.iter().map(|name| name.len() - head - tail).max().unwrap_or(0);
    let head = head.saturating_sub(NAME.saturating_sub(widest + 2));
    let apart = |name: &Vec<char>| {
        // An ellipsis that saves nothing is left out.
        let cut = |length: usize| if length > 1 { (length, "\u{2026}") } else { (0, "") };
        let ((head, before), (tail, after)) = (cut(head), cut(tail));
        format!("{before}{}{after}", name[head..name.len() - tail].iter().collect::<String>())
    };
    names.iter().map(|name| if name.len() <= NAME { whole(name) } else { shortened(&apart(name), NAME) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_where_they_are_alike() {
        let labels = labels(&["MF0;ib-rack1:SX6036/U1", "MF0;ib-rack2:SX6036/U1", "MF0;ib-rack10:SX6036/U1", "top"]);
        assert_eq!(labels, ["\u{2026}0;ib-rack1\u{2026}", "\u{2026}0;ib-rack2\u{2026}", "\u{2026}0;ib-rack10\u{2026}", "top"]);
        assert_eq!(shortened("0123456789abcdef", 13), "012345\u{2026}abcdef");
    }

    #[test]
    fn no_two_boxes_overlap_and_all_are_on_the_page() {
        let names: Vec<String> = (0..300).map(|n| format!("s{n}")).collect();
        let switches: Vec<_> = names.iter().zip(0_u16..).map(|(name, n)| (&**name, 1 + n / 200)).collect();
        // Leaves to spines, and some side by side.
        let links = (0..200).map(|leaf| (leaf, 200 + leaf % 100)).chain((0..50).map(|leaf| (leaf, leaf + 1))).collect();
        let sheet = Sheet::new(&Net { switches, links });
        let mut places = sheet.places.clone();
        places.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
        assert!(places.windows(2).all(|pair| pair[1].0 - pair[0].0 >= BOX.0 || pair[1].1 - pair[0].1 >= BOX.1));
        assert!(
            places.iter().all(|(x, y)| *x >= MARGIN + TITLES && x + BOX.0 < sheet.width(0.0) && *y >= HEAD && y + BOX.1 <= sheet.bottom())
        );
    }
}
