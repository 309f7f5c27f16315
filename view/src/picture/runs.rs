//! Draws the run time of each run of a job against its blocked time.

use ibnet_analysis::job::compare::{Comparison, Point};
use ibnet_record::types::Printable;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::curves::{self, Frame, GREY, SMALL, Style};
use crate::draw::{self, Drawing, Drawn, axis, font};
use crate::text::{count, sharing};

/// Left edge of the frame, and its size.
const LEFT: i32 = 84;
const SIZE: (i32, i32) = (600, 400);

/// Height of a label in pixels, and its distance from its dot.
const ROW: i32 = 14;
const GAP: i32 = 8;

/// A dot for each run that was compared.
#[derive(Clone, Debug)]
pub struct RunsPicture {
    run: String,
    others: usize,
    notes: Vec<String>,
    points: Vec<Point>,
}

impl RunsPicture {
    /// Lays out the picture. The dot of `run` is black.
    pub fn new(compared: &Comparison, run: &str) -> Self {
        let test = sharing::test(compared.blocked_seconds, compared.runs);
        let mut notes = vec![format!("run time and blocked time of a node: {test}")];
        notes.extend(sharing::faults(compared));
        Self {
            run: run.to_owned(),
            others: (compared.runs + compared.left_out).saturating_sub(1),
            notes,
            points: compared.points.clone(),
        }
    }

    /// Returns the upper edge of the frame, below the notes.
    fn top(&self) -> i32 {
        57 + 17 * self.notes.len() as i32
    }
}

/// Returns the ends of an axis with a margin around all values.
fn ends(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().reduce(f64::min).unwrap_or(0.0);
    let most = values.reduce(f64::max).unwrap_or(0.0);
    let margin = (0.08 * (most - least)).max(0.01 * most).max(1e-3);
    ((least - margin).max(0.0), most + margin)
}

impl Drawing for RunsPicture {
    fn size(&self) -> (u32, u32) {
        let right = LEFT + SIZE.0 + 40;
        let title = self.title();
        let texts = self.notes.iter().map(|note| (note, 13));
        let widest = texts
            .chain([(&title, 20)])
            .map(|(text, size)| 24 + font::width(text, size).ceil() as i32);
        let width = widest.fold(right, i32::max);
        (width as u32, (self.top() + SIZE.1 + 54) as u32)
    }

    fn title(&self) -> String {
        let others = count(self.others, "other run");
        format!("Job {} and {others}", Printable(&self.run))
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        let start = (HPos::Left, VPos::Top);
        draw::write(area, &self.title(), 20, (12, 8), start, &BLACK)?;
        for (line, note) in (0..).zip(&self.notes) {
            draw::write(area, note, 13, (12, 34 + 17 * line), start, &GREY)?;
        }
        let x = ends(self.points.iter().map(|point| point.blocked_seconds));
        let (low, high) = ends(self.points.iter().map(|point| point.seconds));
        let frame = Frame {
            at: (LEFT, self.top()),
            size: SIZE,
            x,
            top: high - low,
        };
        let marks = |(from, to): (f64, f64), low: f64| -> Vec<(f64, String)> {
            let text = |at: f64| (at - low, curves::duration(at * 1e9));
            axis::marks(from, to, 6).into_iter().map(text).collect()
        };
        frame.draw(area, "run time", &marks(x, 0.0), &marks((low, high), low))?;
        let below = (LEFT + SIZE.0 / 2, self.top() + SIZE.1 + 28);
        let what = "blocked time of a node in the whole run";
        let middle = (HPos::Center, VPos::Top);
        draw::write(area, what, 13, below, middle, &BLACK)?;
        let dots: Vec<_> = self
            .points
            .iter()
            .map(|point| frame.pixel(point.blocked_seconds, point.seconds - low))
            .collect();
        let mut labels: Vec<(i32, i32, i32)> = Vec::new();
        for (index, ((x, y), point)) in dots.iter().zip(&self.points).enumerate() {
            let is_given = point.run == self.run;
            let style = if is_given { Style::ALL } else { Style::nth(0) };
            curves::dot(area, (*x, *y), style)?;
            let width = font::width(&point.run, SMALL).ceil() as i32;
            let is_right = x + GAP + width < LEFT + SIZE.0;
            let left = if is_right { x + GAP } else { x - GAP - width };
            let covers = |from: i32, to: i32, middle: i32| {
                from < left + width && left < to && (middle - y).abs() < ROW
            };
            let covers_dot = dots
                .iter()
                .enumerate()
                .any(|(other, (x, y))| other != index && covers(x - 5, x + 5, *y));
            let is_free = !labels.iter().any(|(from, to, y)| covers(*from, *to, *y));
            if is_free && !covers_dot {
                let at = (HPos::Left, VPos::Center);
                draw::write(area, &point.run, SMALL, (left, *y), at, &BLACK)?;
                labels.push((left, left + width, *y));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Format, render};

    #[test]
    fn each_compared_run_has_a_dot_at_its_times() {
        let point = |run: &str, seconds, blocked_seconds| Point {
            run: run.to_owned(),
            seconds,
            blocked_seconds,
        };
        let points = vec![
            point("47<", 100.0, 10.0),
            point("48", 120.0, 30.0),
            point("49", 140.0, 20.0),
            // Its label would cover that of the first run.
            point("50", 100.0, 10.01),
        ];
        let compared = Comparison {
            runs: 4,
            left_out: 1,
            has_other_nodes: true,
            blocked_seconds: None,
            blocked_ns_per_byte: None,
            points,
        };
        let svg = |compared: &Comparison| {
            let picture = RunsPicture::new(compared, "47<");
            String::from_utf8(render(&picture, Format::Svg).unwrap()).unwrap()
        };
        let text = svg(&compared);
        assert_eq!(text.matches("<circle").count(), 4, "{text}");
        // The margins are 8 % of 20 s and of 40 s.
        let right = 84.0 + 600.0 * (21.6 / 23.2_f64);
        let upper = 108.0 + 400.0 * (3.2 / 46.4_f64);
        for part in [
            format!("cx=\"{}.5\"", right.round()),
            format!("cy=\"{}.5\"", upper.round()),
            ">48<".to_owned(),
            ">Job 47&lt; and 4 other runs<".to_owned(),
            ">120 s<".to_owned(),
            "no test: it needs three runs that differ".to_owned(),
            "Left out: 1 ".to_owned(),
            "different numbers of nodes".to_owned(),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
        assert!(!text.contains(">50<"), "{text}");
        let none = Comparison {
            points: Vec::new(),
            ..compared
        };
        assert_eq!(svg(&none).matches("<circle").count(), 0);
    }
}
