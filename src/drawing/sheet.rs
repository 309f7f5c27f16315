//! Positions on the page: boxes of switches in rows by tier, and the lines between them.

use super::canvas::{Canvas, px, shortened};
use super::layout::{Layout, Net};
use crate::types::Printable;

/// Width and height of the box of a switch. All lengths are in pixels.
pub const BOX: (f64, f64) = (120.0, 44.0);
/// Space between the boxes of a line.
const GAP: f64 = 10.0;
/// Space between the lines of a row: first without links within the row, then with such links.
const LINE_GAP: (f64, f64) = (14.0, 50.0);
/// Space between rows: a constant, and an additional space for each column of the widest line. So
/// the links of a wide picture are not too flat.
const ROW_GAP: (f64, f64) = (80.0, 5.0);
/// Margin of the page.
pub const MARGIN: f64 = 24.0;
/// Width of the titles of the rows.
const TITLES: f64 = 96.0;
/// Height of the area above the first row.
pub const HEAD: f64 = 78.0;
/// Largest height of an arc above the boxes. An arc is the link between two boxes of the same line.
const HIGHEST_ARC: f64 = 60.0;
/// Number of characters of a name that fit in a box.
pub const NAME: usize = 13;

/// A page with switches.
#[derive(Clone, PartialEq, Debug)]
pub struct Sheet {
    layout: Layout,
    /// Space below each box.
    space: f64,
    /// Upper left corner of the box of each switch.
    pub places: Vec<(f64, f64)>,
    /// Texts of the boxes.
    pub labels: Vec<String>,
}

impl Sheet {
    /// Lays out the page.
    pub fn new(net: &Net<'_>) -> Self {
        Self::with_space_below(net, 0.0)
    }

    /// Lays out the page with `space` pixels below each box.
    pub fn with_space_below(net: &Net<'_>, space: f64) -> Self {
        let layout = Layout::of(net);
        let names: Vec<_> = net.switches.iter().map(|(name, _)| *name).collect();
        Self { places: places(net, &layout, space), labels: labels(&names), layout, space }
    }

    /// Returns the width of the page. It is at least `least`.
    pub fn width(&self, least: f64) -> f64 {
        (2.0 * MARGIN + TITLES + self.layout.columns as f64 * (BOX.0 + GAP)).max(least)
    }

    /// Returns the lower end of the lowest box.
    pub fn bottom(&self) -> f64 {
        self.places.iter().map(|(_, y)| y + BOX.1).fold(HEAD, f64::max)
    }

    /// Draws a band behind each row, with the title of the row.
    pub fn rows(&self, canvas: &mut Canvas, width: f64) {
        const AROUND: f64 = 12.0;
        for row in &self.layout.rows {
            let ys = row.lines.iter().flatten().map(|switch| self.places[*switch].1);
            let (top, low) = ys.fold((f64::MAX, 0.0_f64), |(top, low), y| (top.min(y), low.max(y)));
            let (y, height) = (px(top - AROUND), px(low - top + BOX.1 + self.space + 2.0 * AROUND));
            canvas.empty("rect", &[("x", "0"), ("y", &y), ("width", &px(width)), ("height", &height), ("fill", "#f3f3f3")]);
            let x = px(MARGIN);
            canvas.text("text", &[("x", &x), ("y", &px(top + 18.0)), ("font-size", "13"), ("font-weight", "bold")], &row.title);
            let count = row.lines.iter().map(Vec::len).sum::<usize>();
            let count = if count == 1 { "1 switch".to_owned() } else { format!("{count} switches") };
            canvas.text("text", &[("x", &x), ("y", &px(top + 34.0)), ("font-size", "11"), ("fill", "#444444")], &count);
        }
    }

    /// Returns the line between two switches and the position of its label. Between rows the line
    /// is a curve, within a line of boxes it is an arc.
    pub fn path(&self, (one, other): (usize, usize)) -> (String, (f64, f64)) {
        let ((ax, ay), (bx, by)) = (self.places[one], self.places[other]);
        let (a, b) = (ax + BOX.0 / 2.0, bx + BOX.0 / 2.0);
        if ay == by {
            let rise = (12.0 + (a - b).abs() * 0.12).min(HIGHEST_ARC);
            let path = format!("M{a:.0} {ay:.0}C{a:.0} {y:.0} {b:.0} {y:.0} {b:.0} {by:.0}", y = ay - rise);
            return (path, ((a + b) / 2.0, ay - rise * 0.75));
        }
        let ((top_x, top_y), (low_x, low_y)) = if ay < by { ((a, ay + BOX.1), (b, by)) } else { ((b, by + BOX.1), (a, ay)) };
        let (upper, lower) = (top_y + (low_y - top_y) * 0.3, top_y + (low_y - top_y) * 0.7);
        let path = format!("M{top_x:.0} {top_y:.0}C{top_x:.0} {upper:.0} {low_x:.0} {lower:.0} {low_x:.0} {low_y:.0}");
        (path, (0.4 * top_x + 0.6 * low_x, 0.4 * top_y + 0.6 * low_y))
    }
}

/// Returns the upper left corner of the box of each switch.
fn places(net: &Net<'_>, layout: &Layout, space: f64) -> Vec<(f64, f64)> {
    let mut places = vec![(0.0, 0.0); net.switches.len()];
    let within = |line: &[usize]| net.links.iter().any(|(one, other)| line.contains(one) && line.contains(other));
    let mut y = HEAD;
    for row in &layout.rows {
        // Links within a row are drawn above its boxes.
        let has_arcs = row.lines.len() > 1 && within(&row.lines.concat());
        for line in &row.lines {
            y += if within(line) { HIGHEST_ARC } else { 0.0 };
            let indent = (layout.columns - line.len()) as f64 / 2.0;
            for (column, switch) in line.iter().enumerate() {
                places[*switch] = (MARGIN + TITLES + (indent + column as f64) * (BOX.0 + GAP), y);
            }
            y += BOX.1 + space + if has_arcs { LINE_GAP.1 } else { LINE_GAP.0 };
        }
        y += ROW_GAP.0 + ROW_GAP.1 * layout.columns as f64 - LINE_GAP.0;
    }
    places
}

/// Returns the texts of the boxes. A long name is shortened to the part in which the names differ.
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
    // If space remains, it shows the end of the common beginning, because `rack1` is clearer than
    // `1`.
    let widest = long.iter().map(|name| name.len() - head - tail).max().unwrap_or(0);
    let head = head.saturating_sub(NAME.saturating_sub(widest + 2));
    let apart = |name: &Vec<char>| {
        // An ellipsis for a single character saves no space.
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
    fn common_parts_of_long_names_are_left_out() {
        let labels = labels(&["MF0;ib-rack1:SX6036/U1", "MF0;ib-rack2:SX6036/U1", "MF0;ib-rack10:SX6036/U1", "top"]);
        assert_eq!(labels, ["\u{2026}0;ib-rack1\u{2026}", "\u{2026}0;ib-rack2\u{2026}", "\u{2026}0;ib-rack10\u{2026}", "top"]);
        assert_eq!(shortened("0123456789abcdef", 13), "012345\u{2026}abcdef");
    }

    #[test]
    fn boxes_do_not_overlap_and_are_on_the_page() {
        let names: Vec<String> = (0..300).map(|n| format!("s{n}")).collect();
        let switches: Vec<_> = names.iter().zip(0_u16..).map(|(name, n)| (&**name, 1 + n / 200)).collect();
        // Leaf switches to spine switches, and some links between leaf switches.
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
