//! Curves in frames with two axes. Curves differ in colour and in dash.

use ibnet_analysis::latency::bins::Bins;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use crate::draw::{self, Drawn, axis, palette};

/// Size of small letters in pixels.
pub(super) const SMALL: u32 = 12;
/// Colour of frames and secondary texts.
pub(super) const GREY: RGBColor = RGBColor(90, 90, 90);
const FAINT: RGBColor = RGBColor(225, 225, 225);

/// Dashes and gaps in pixels. An empty pattern means a solid line.
const DASHES: [&[f64]; 4] = [&[], &[9.0, 4.0], &[2.0, 3.0], &[9.0, 3.0, 2.0, 3.0]];

/// Max number of styles: all combinations of colour and dash that [`Style::nth`] returns.
pub(super) const STYLES: usize = 12;

/// Colour, dash and width of a curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Style {
    color: RGBColor,
    dash: &'static [f64],
    width: u32,
}

impl Style {
    /// A thick black line, for the sum of all groups.
    pub(super) const ALL: Self = Self {
        color: BLACK,
        dash: &[],
        width: 2,
    };

    /// Returns one of [`STYLES`] styles. Neighbours differ in colour and in dash.
    pub(super) fn nth(index: usize) -> Self {
        let (r, g, b) = palette::LINES[index % palette::LINES.len()];
        Self {
            color: RGBColor(r, g, b),
            dash: DASHES[index % DASHES.len()],
            width: 2,
        }
    }
}

pub(super) fn curve<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    points: &[(i32, i32)],
    style: Style,
) -> Drawn<DB> {
    let stroke = style.color.stroke_width(style.width);
    for dash in dashes(points, style.dash) {
        for part in unfolded(&dash) {
            area.draw(&PathElement::new(part, stroke))?;
        }
    }
    Ok(())
}

/// Draws a point alone.
pub(super) fn dot<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    point: (i32, i32),
    style: Style,
) -> Drawn<DB> {
    area.draw(&Circle::new(point, 4, style.color.filled()))?;
    Ok(())
}

/// Cuts a line where it turns by more than a right angle. In a PNG, such a corner of a thick line
/// would have a tip far outside of the line.
fn unfolded(points: &[(i32, i32)]) -> Vec<&[(i32, i32)]> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (corner, three) in (1..).zip(points.windows(3)) {
        let [a, b, c] = [three[0], three[1], three[2]];
        if (b.0 - a.0) * (c.0 - b.0) + (b.1 - a.1) * (c.1 - b.1) < 0 {
            parts.push(&points[start..=corner]);
            start = corner;
        }
    }
    parts.push(&points[start..]);
    parts
}

/// Cuts a line into dashes.
fn dashes(points: &[(i32, i32)], pattern: &[f64]) -> Vec<Vec<(i32, i32)>> {
    if pattern.is_empty() || points.len() < 2 {
        return vec![points.to_vec()];
    }
    let mut parts = Vec::new();
    let (mut phase, mut rest) = (0, pattern[0]);
    let mut part = vec![points[0]];
    for pair in points.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = (x1 - x0).hypot(y1 - y0);
        let at = |done: f64| {
            (
                (x0 + (x1 - x0) * done / length).round() as i32,
                (y0 + (y1 - y0) * done / length).round() as i32,
            )
        };
        let mut done = 0.0;
        while length - done > rest {
            done += rest;
            if phase % 2 == 0 {
                part.push(at(done));
                parts.push(std::mem::take(&mut part));
            } else {
                part = vec![at(done)];
            }
            phase = (phase + 1) % pattern.len();
            rest = pattern[phase];
        }
        rest -= length - done;
        if phase % 2 == 0 {
            part.push(pair[1]);
        }
    }
    if part.len() > 1 {
        parts.push(part);
    }
    parts
}

/// A rectangle with a horizontal and a vertical axis.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Upper left corner.
    pub(super) at: (i32, i32),
    /// Width and height.
    pub(super) size: (i32, i32),
    /// Values at the left and right end.
    pub(super) x: (f64, f64),
    /// Value at the upper end. The lower end is 0.
    pub(super) top: f64,
}

impl Frame {
    /// Returns the pixel of a point. A point beyond an end of an axis gets a pixel at this end.
    pub(super) fn pixel(&self, x: f64, y: f64) -> (i32, i32) {
        let part =
            |share: f64, length: i32| (share.clamp(0.0, 1.0) * f64::from(length)).round() as i32;
        let span = (self.x.1 - self.x.0).max(f64::MIN_POSITIVE);
        (
            self.at.0 + part((x - self.x.0) / span, self.size.0),
            self.at.1 + self.size.1 - part(y / self.top, self.size.1),
        )
    }

    /// Returns whether a position is between both ends of the horizontal axis.
    pub(super) fn contains(&self, x: f64) -> bool {
        (self.x.0..=self.x.1).contains(&x)
    }

    /// Draws the frame with the marks of both axes and a heading.
    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        heading: &str,
        x_marks: &[(f64, String)],
        y_marks: &[(f64, String)],
    ) -> Drawn<DB> {
        let ((left, top), (width, height)) = (self.at, self.size);
        for (value, text) in y_marks {
            let (_, y) = self.pixel(self.x.0, *value);
            draw::line(area, (left, y), (left + width, y), &FAINT)?;
            draw::write(
                area,
                text,
                SMALL,
                (left - 6, y),
                (HPos::Right, VPos::Center),
                &BLACK,
            )?;
        }
        for (value, text) in x_marks {
            let (x, _) = self.pixel(*value, 0.0);
            draw::line(area, (x, top), (x, top + height), &FAINT)?;
            draw::write(
                area,
                text,
                SMALL,
                (x, top + height + 5),
                (HPos::Center, VPos::Top),
                &BLACK,
            )?;
        }
        area.draw(&Rectangle::new(
            [(left, top), (left + width, top + height)],
            GREY,
        ))?;
        draw::write(
            area,
            heading,
            13,
            (left, top - 5),
            (HPos::Left, VPos::Bottom),
            &BLACK,
        )
    }
}

/// Formats a duration for a mark. A duration of 0 has no unit.
pub(super) fn duration(ns: f64) -> String {
    if ns == 0.0 {
        "0".to_owned()
    } else {
        axis::nanos(ns)
    }
}

/// Returns the marks of an axis of durations at round times. The ends are positions.
pub(super) fn time_marks(bins: Bins, (from, to): (f64, f64)) -> Vec<(f64, String)> {
    match bins {
        Bins::Log { .. } => decades(from, to),
        Bins::Fixed { .. } => axis::marks(from, to, 6)
            .into_iter()
            .map(|us| (us, duration(us * 1e3)))
            .collect(),
    }
}

/// Returns the marks of a logarithmic axis at round times. The ends are decimal logarithms
/// of nanoseconds.
fn decades(from: f64, to: f64) -> Vec<(f64, String)> {
    let steps: &[f64] = match to - from {
        ..0.7 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        0.7..1.6 => &[1.0, 2.0, 5.0],
        1.6..4.0 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let decades = from.floor() as i32..=to.ceil() as i32;
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
    all.map(|ns| (ns.log10(), ns))
        .filter(|(at, _)| (from..=to).contains(at))
        .map(|(at, ns)| (at, axis::nanos(ns)))
        .collect()
}

/// Draws a sample of each style with its name, from `at` downwards.
pub(super) fn legend<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    at: (i32, i32),
    entries: &[(&str, Style)],
    more: usize,
) -> Drawn<DB> {
    const ROW: i32 = 17;
    const LONGEST: usize = 26;
    let (x, mut y) = at;
    for (name, style) in entries {
        curve(area, &[(x, y), (x + 30, y)], *style)?;
        let is_long = name.chars().count() > LONGEST;
        let name: String = if is_long {
            name.chars()
                .take(LONGEST - 3)
                .chain("...".chars())
                .collect()
        } else {
            (*name).to_owned()
        };
        draw::write(
            area,
            &name,
            SMALL,
            (x + 36, y),
            (HPos::Left, VPos::Center),
            &BLACK,
        )?;
        y += ROW;
    }
    if more > 0 {
        draw::write(
            area,
            &format!("and {more} more"),
            SMALL,
            (x + 36, y),
            (HPos::Left, VPos::Center),
            &GREY,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_differ_in_colour_or_dash() {
        for index in 0..STYLES {
            for other in 0..index {
                assert_ne!(Style::nth(index), Style::nth(other), "{index} {other}");
            }
            assert_ne!(
                Style::nth(index).dash,
                Style::nth(index + 1).dash,
                "neighbours differ without colours too"
            );
        }
    }

    #[test]
    fn dashes_cover_a_line_with_gaps() {
        assert_eq!(dashes(&[(0, 0), (5, 0)], &[]), [[(0, 0), (5, 0)]]);
        assert_eq!(
            dashes(&[(0, 0), (20, 0)], &[9.0, 4.0]),
            [[(0, 0), (9, 0)], [(13, 0), (20, 0)]]
        );
        // A dash continues around a corner.
        assert_eq!(
            dashes(&[(0, 0), (5, 0), (5, 10)], &[9.0, 4.0]),
            [vec![(0, 0), (5, 0), (5, 4)], vec![(5, 8), (5, 10)]]
        );
    }

    #[test]
    fn lines_are_cut_at_sharp_corners() {
        let line = [(0, 0), (5, 0), (5, 9), (6, 1), (9, 1)];
        assert_eq!(unfolded(&line), [&line[..3], &line[2..]]);
        assert_eq!(unfolded(&line[..1]), [&line[..1]]);
    }

    #[test]
    fn points_beyond_the_axes_are_at_their_ends() {
        let frame = Frame {
            at: (10, 20),
            size: (100, 50),
            x: (1.0, 2.0),
            top: 4.0,
        };
        assert_eq!(
            [(1.0, 0.0), (1.5, 2.0), (9.0, 9.0), (0.0, -1.0)].map(|(x, y)| frame.pixel(x, y)),
            [(10, 70), (60, 45), (110, 20), (10, 70)]
        );
    }
}
