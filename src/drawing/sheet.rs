//! Computes positions on the page: the boxes of switches in rows by tier, and the links between
//! the boxes.

use ibnet_record::count::count;
use ibnet_record::types::Printable;

use super::canvas::{Canvas, px, shortened};
use super::layout::{Layout, Net};

/// Width and height of a switch's box. All lengths are in pixels.
pub const BOX: (f64, f64) = (120.0, 44.0);
/// Space between the boxes of a line. Links to lines further down pass through this gap.
const GAP: f64 = 16.0;
/// Number of positions for links within a gap, which keep the links from hiding each other.
const TRACKS: usize = 5;
/// Distance between two of these positions.
const TRACK: f64 = 2.5;
/// Space between the lines of a row: first without links within the row, then with such links.
const LINE_GAP: (f64, f64) = (22.0, 50.0);
/// Space between rows: a constant, plus some space for each column of the widest line, so that
/// the links of a wide picture are not too flat.
const ROW_GAP: (f64, f64) = (80.0, 5.0);
/// Margin of the page.
pub const MARGIN: f64 = 24.0;
/// Width of the titles of the rows.
const TITLES: f64 = 104.0;
/// Height of the area above the first row.
pub const HEAD: f64 = 78.0;
/// Max height of an arc above the boxes. An arc is the link between two boxes of the same line.
const HIGHEST_ARC: f64 = 60.0;
/// Number of characters of a name that fit in a box.
pub const NAME: usize = 13;

/// A page with switches.
#[derive(Clone, PartialEq, Debug)]
pub struct Sheet {
    layout: Layout,
    /// Upper left corner of each switch's box.
    pub places: Vec<(f64, f64)>,
    /// Text in the box of each switch.
    pub labels: Vec<String>,
    /// Lines of boxes from top to bottom.
    lines: Vec<BoxLine>,
}

/// A line of boxes. Links to other lines pass through the gaps between its boxes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct BoxLine {
    /// Index of the row.
    row: usize,
    /// Upper end of the boxes.
    top: f64,
    /// Left end of the first box, and right end of the last one.
    ends: (f64, f64),
    /// Space below the boxes.
    space: f64,
}

impl Sheet {
    /// Lays out the page.
    pub fn new(net: &Net<'_>) -> Self {
        Self::with_space_below(net, &[])
    }

    /// Lays out the page with additional space below the box of each switch, in pixels. A missing
    /// value means 0.
    pub fn with_space_below(net: &Net<'_>, space: &[f64]) -> Self {
        let layout = Layout::of(net);
        let names: Vec<_> = net.switches.iter().map(|(name, _)| *name).collect();
        let places = places(net, &layout, space);
        let line = |(row, line): (usize, &Vec<usize>)| {
            let (left, right) = (places[*line.first()?], places[*line.last()?]);
            Some(BoxLine {
                row,
                top: left.1,
                ends: (left.0, right.0 + BOX.0),
                space: space_below(line, space),
            })
        };
        let rows = layout.rows.iter().enumerate();
        let lines = rows
            .flat_map(|(row, lines)| lines.lines.iter().map(move |line| (row, line)))
            .filter_map(line)
            .collect();
        Self {
            places,
            labels: labels(&names),
            layout,
            lines,
        }
    }

    /// Returns the width of the page, which is at least `least`.
    pub fn width(&self, least: f64) -> f64 {
        (2.0 * MARGIN + TITLES + self.layout.columns as f64 * (BOX.0 + GAP)).max(least)
    }

    /// Returns the lower end of the lowest box, including the space below it.
    pub fn bottom(&self) -> f64 {
        self.lines.iter().map(BoxLine::low).fold(HEAD, f64::max)
    }

    /// Draws a band behind each row, with the title of the row.
    pub fn rows(&self, canvas: &mut Canvas, width: f64) {
        const AROUND: f64 = 12.0;
        for (number, row) in self.layout.rows.iter().enumerate() {
            let lines = self.lines.iter().filter(|line| line.row == number);
            let (top, low) = lines.fold((f64::MAX, 0.0_f64), |(top, low), line| {
                (top.min(line.top), low.max(line.low()))
            });
            let (y, height) = (px(top - AROUND), px(low - top + 2.0 * AROUND));
            canvas.empty(
                "rect",
                &[
                    ("x", "0"),
                    ("y", &y),
                    ("width", &px(width)),
                    ("height", &height),
                    ("fill", "#f3f3f3"),
                ],
            );
            let x = px(MARGIN);
            canvas.text(
                "text",
                &[
                    ("x", &x),
                    ("y", &px(top + 18.0)),
                    ("font-size", "13"),
                    ("font-weight", "bold"),
                ],
                &row.title,
            );
            let count = count(row.lines.iter().map(Vec::len).sum::<usize>(), "switch");
            canvas.text(
                "text",
                &[
                    ("x", &x),
                    ("y", &px(top + 34.0)),
                    ("font-size", "11"),
                    ("fill", "#444444"),
                ],
                &count,
            );
        }
    }

    /// Returns the path of the link between two switches, and the position of its label. The path
    /// is an arc between boxes of the same line, and otherwise a curve, which crosses lines of
    /// boxes in between through the gaps between their boxes.
    pub fn path(&self, (one, other): (usize, usize)) -> (String, (f64, f64)) {
        let ((ax, ay), (bx, by)) = (self.places[one], self.places[other]);
        let (a, b) = (ax + BOX.0 / 2.0, bx + BOX.0 / 2.0);
        if ay == by {
            let rise = (12.0 + (a - b).abs() * 0.12).min(HIGHEST_ARC);
            let path = format!(
                "M{a:.0} {ay:.0}C{a:.0} {y:.0} {b:.0} {y:.0} {b:.0} {by:.0}",
                y = ay - rise
            );
            return (path, ((a + b) / 2.0, ay - rise * 0.75));
        }
        let (from, to) = if ay < by {
            ((a, ay + BOX.1), (b, by))
        } else {
            ((b, by + BOX.1), (a, ay))
        };
        let track = (((one * 7 + other * 3) % TRACKS) as f64 - (TRACKS - 1) as f64 / 2.0) * TRACK;
        let line_at = |top: f64| self.lines.iter().find(|line| line.top == top);
        let rows = (
            line_at(from.1 - BOX.1).map(|line| line.row),
            line_at(to.1).map(|line| line.row),
        );
        let right = (to.0 - from.0).signum();
        let mut path = format!("M{:.0} {:.0}", from.0, from.1);
        let (mut last, mut last_row) = (from, None);
        // The curve also crosses the space below the first box.
        let own = line_at(from.1 - BOX.1)
            .filter(|line| line.space > 0.0)
            .map(|line| line.top);
        for line in self
            .lines
            .iter()
            .filter(|line| own == Some(line.top) || (line.top > from.1 && line.top < to.1))
        {
            // The lines of a row are close to each other, so a link crosses them straight down.
            // In a row of one of its ends it does so near that end; in other rows, where a
            // straight line between the ends meets the row.
            let x = match Some(line.row) {
                row if row == rows.1 => to.0 - right,
                row if row == rows.0 => from.0 + right,
                row if row == last_row => last.0,
                _ => from.0 + (to.0 - from.0) * (line.top - from.1) / (to.1 - from.1),
            };
            let (top, low) = (line.top.max(from.1), line.low());
            last_row = Some(line.row);
            let Some(gap) = line.gap_near(x) else {
                continue;
            };
            let gap = gap + track;
            curve(&mut path, last, (gap, top));
            path += &format!("V{low:.0}");
            last = (gap, low);
        }
        curve(&mut path, last, to);
        (path, (0.4 * last.0 + 0.6 * to.0, 0.4 * last.1 + 0.6 * to.1))
    }
}

/// Appends a curve that is vertical at both ends.
fn curve(path: &mut String, from: (f64, f64), to: (f64, f64)) {
    let height = to.1 - from.1;
    if height < 1.0 {
        *path += &format!("L{:.1} {:.0}", to.0, to.1);
        return;
    }
    let (upper, lower) = (from.1 + height * 0.3, from.1 + height * 0.7);
    *path += &format!(
        "C{:.1} {upper:.0} {:.1} {lower:.0} {:.1} {:.0}",
        from.0, to.0, to.0, to.1
    );
}

/// Returns the space below a line: the max of the spaces that its switches need.
fn space_below(line: &[usize], space: &[f64]) -> f64 {
    line.iter()
        .filter_map(|switch| space.get(*switch))
        .copied()
        .fold(0.0, f64::max)
}

impl BoxLine {
    /// Returns the lower end of the boxes and of the space below them.
    fn low(&self) -> f64 {
        self.top + BOX.1 + self.space
    }

    /// Returns the middle of the gap that is nearest to `x`, or `None` if the line has no box
    /// there.
    fn gap_near(&self, x: f64) -> Option<f64> {
        let (first, step) = (self.ends.0 - GAP / 2.0, BOX.0 + GAP);
        let last = self.ends.1 + GAP / 2.0;
        (first..=last)
            .contains(&x)
            .then(|| first + ((x - first) / step).round() * step)
    }
}

/// Returns the upper left corner of each switch's box.
fn places(net: &Net<'_>, layout: &Layout, space: &[f64]) -> Vec<(f64, f64)> {
    let mut places = vec![(0.0, 0.0); net.switches.len()];
    let within = |line: &[usize]| {
        net.links
            .iter()
            .any(|(one, other)| line.contains(one) && line.contains(other))
    };
    let mut y = HEAD;
    for row in &layout.rows {
        // Links within a row are drawn above its boxes.
        let has_arcs = row.lines.len() > 1 && within(&row.lines.concat());
        for line in &row.lines {
            y += if within(line) { HIGHEST_ARC } else { 0.0 };
            let indent = (layout.columns - line.len()) as f64 / 2.0;
            for (column, switch) in line.iter().enumerate() {
                places[*switch] = (
                    MARGIN + TITLES + (indent + column as f64) * (BOX.0 + GAP),
                    y,
                );
            }
            y += BOX.1 + space_below(line, space) + if has_arcs { LINE_GAP.1 } else { LINE_GAP.0 };
        }
        y += ROW_GAP.0 + ROW_GAP.1 * layout.columns as f64 - LINE_GAP.0;
    }
    places
}

/// Returns the texts of the boxes. A long name is shortened to the part in which the names differ.
fn labels(names: &[&str]) -> Vec<String> {
    let names: Vec<Vec<char>> = names
        .iter()
        .map(|name| Printable(name.trim()).to_string().chars().collect())
        .collect();
    let whole = |name: &Vec<char>| name.iter().collect::<String>();
    let long: Vec<_> = names.iter().filter(|name| name.len() > NAME).collect();
    let all_same = |at: &dyn Fn(&Vec<char>) -> Option<char>| {
        long.windows(2)
            .all(|pair| at(pair[0]).is_some() && at(pair[0]) == at(pair[1]))
    };
    if long.len() < 2 {
        return names
            .iter()
            .map(|name| shortened(&whole(name), NAME))
            .collect();
    }
    let shortest = long.iter().map(|name| name.len()).min().unwrap_or(0);
    let head = (0..shortest)
        .take_while(|at| all_same(&|name| name.get(*at).copied()))
        .count();
    let tail = (0..shortest - head)
        .take_while(|at| all_same(&|name| name.get(name.len() - 1 - at).copied()))
        .count();
    // Any remaining space shows the end of the common beginning, because `rack1` is clearer than
    // `1`.
    let widest = long
        .iter()
        .map(|name| name.len() - head - tail)
        .max()
        .unwrap_or(0);
    let head = head.saturating_sub(NAME.saturating_sub(widest + 2));
    let apart = |name: &Vec<char>| {
        // An ellipsis for a single character would save no space.
        let cut = |length: usize| {
            if length > 1 {
                (length, "\u{2026}")
            } else {
                (0, "")
            }
        };
        let ((head, before), (tail, after)) = (cut(head), cut(tail));
        format!(
            "{before}{}{after}",
            name[head..name.len() - tail].iter().collect::<String>()
        )
    };
    names
        .iter()
        .map(|name| {
            if name.len() <= NAME {
                whole(name)
            } else {
                shortened(&apart(name), NAME)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_parts_of_long_names_are_left_out() {
        let labels = labels(&[
            "MF0;ib-rack1:SX6036/U1",
            "MF0;ib-rack2:SX6036/U1",
            "MF0;ib-rack10:SX6036/U1",
            "top",
        ]);
        assert_eq!(
            labels,
            [
                "\u{2026}0;ib-rack1\u{2026}",
                "\u{2026}0;ib-rack2\u{2026}",
                "\u{2026}0;ib-rack10\u{2026}",
                "top"
            ]
        );
        assert_eq!(shortened("0123456789abcdef", 13), "012345\u{2026}abcdef");
    }

    #[test]
    fn boxes_do_not_overlap_and_are_on_the_page() {
        let names: Vec<String> = (0..300).map(|n| format!("s{n}")).collect();
        let switches: Vec<_> = names
            .iter()
            .zip(0_u16..)
            .map(|(name, n)| (&**name, 1 + n / 200))
            .collect();
        // Leaf switches to spine switches, and some links between leaf switches.
        let links = (0..200)
            .map(|leaf| (leaf, 200 + leaf % 100))
            .chain((0..50).map(|leaf| (leaf, leaf + 1)))
            .collect();
        let sheet = Sheet::new(&Net { switches, links });
        let mut places = sheet.places.clone();
        places.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
        assert!(
            places
                .windows(2)
                .all(|pair| pair[1].0 - pair[0].0 >= BOX.0 || pair[1].1 - pair[0].1 >= BOX.1)
        );
        assert!(places.iter().all(|(x, y)| *x >= MARGIN + TITLES
            && x + BOX.0 < sheet.width(0.0)
            && *y >= HEAD
            && y + BOX.1 <= sheet.bottom()));
    }

    #[test]
    fn links_do_not_cross_boxes() {
        let names: Vec<String> = (0..120).map(|n| format!("s{n}")).collect();
        let switches: Vec<_> = names
            .iter()
            .zip(0_u16..)
            .map(|(name, n)| (&**name, 1 + n / 60))
            .collect();
        let links: Vec<_> = (0..60)
            .flat_map(|leaf| [(leaf, 60 + leaf), (leaf, 60 + (leaf * 7) % 60)])
            .collect();
        let sheet = Sheet::with_space_below(
            &Net {
                switches,
                links: links.clone(),
            },
            &[20.0; 120],
        );
        assert!(sheet.lines.len() > 4, "both rows have several lines");
        for ends in links {
            // The vertical parts pass the lines of boxes.
            let (path, _) = sheet.path(ends);
            for part in path.split(['C', 'L']).filter(|part| part.contains('V')) {
                let numbers: Vec<f64> = part
                    .split([' ', 'V'])
                    .filter_map(|number| number.parse().ok())
                    .collect();
                let [.., x, _, _] = numbers[..] else {
                    panic!("{path}")
                };
                assert!(
                    sheet
                        .places
                        .iter()
                        .all(|(left, _)| x < *left || x > left + BOX.0),
                    "{x} in {path}"
                );
            }
            let passed = sheet.lines.iter().filter(|line| {
                let (high, low) = (
                    sheet.places[ends.0].1.min(sheet.places[ends.1].1),
                    sheet.places[ends.0].1.max(sheet.places[ends.1].1),
                );
                line.top >= high && line.top < low
            });
            assert_eq!(path.matches('V').count(), passed.count(), "{path}");
        }
    }
}
