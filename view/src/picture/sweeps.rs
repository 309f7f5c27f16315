//! Pictures of sweeps: the durations over time by sampler, the distribution of the durations, and
//! the distribution of compound queries.

use std::cmp::Reverse;

use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::sweeps::SweepReport;
use ibnet_analysis::sweeps::course::Course;
use ibnet_analysis::when::Zone;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::curves::{self, Frame, GREY, STYLES, Style};
use crate::draw::{self, Drawing, Drawn, axis};

/// The durations of a recording.
#[derive(Clone, Debug)]
pub struct SweepPicture {
    subtitle: String,
    zone: Zone,
    /// Durations of up to [`STYLES`] samplers.
    courses: Vec<(String, Course)>,
    /// Number of samplers without a curve.
    more: usize,
    /// First and last time in nanoseconds since 1970.
    span: (u64, u64),
    /// Longest duration over time in nanoseconds.
    longest: f64,
    panels: [Panel; 2],
}

/// A distribution of durations.
#[derive(Clone, Debug)]
struct Panel {
    heading: &'static str,
    curves: Vec<(String, Distribution, Style)>,
}

const TITLE: &str = "sweeps: durations and compound queries";

const LEFT: i32 = 68;
const PLOT: i32 = 370;
const BETWEEN: i32 = 170;
const LEGEND: i32 = 200;
const TOP: i32 = 92;
const HEIGHT: i32 = 230;
const ROW: i32 = HEIGHT + 62;

impl SweepPicture {
    /// Lays out the durations over time, and below them the cumulative shares. `when` is the time
    /// range with the time zone.
    pub fn new(report: &SweepReport, zone: Zone, when: &str) -> Self {
        let mut courses: Vec<_> = report
            .rows
            .iter()
            .map(|row| report.name(row))
            .zip(report.courses.iter().cloned())
            .collect();
        let more = courses.len().saturating_sub(STYLES);
        if more > 0 {
            // The samplers with the longest sweeps, in the order of their names.
            courses
                .sort_by_key(|(_, course)| Reverse(course.steps().map(|(_, step)| step.max).max()));
            courses.truncate(STYLES);
            courses.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let steps = || courses.iter().flat_map(|(_, course)| course.steps());
        let times = || steps().map(|(ts, _)| ts);
        let longest = steps().map(|(_, step)| step.max).max().unwrap_or(1) as f64;
        let (from, to) = (times().min().unwrap_or(0), times().max().unwrap_or(1));
        let parts = [
            ("sweep", &report.sweep),
            ("decode", &report.decode),
            ("total", &report.total),
        ];
        let sweeps = parts
            .into_iter()
            .enumerate()
            .map(|(index, (name, values))| (name.to_owned(), values.clone(), Style::nth(index)));
        let kinds = report.compound.iter().enumerate();
        let queries = kinds
            .map(|(index, (kind, values))| ((*kind).to_owned(), values.clone(), Style::nth(index)));
        Self {
            subtitle: format!("{when}; {} samplers", report.rows.len()),
            zone,
            more,
            courses,
            span: (from, to.max(from + 1)),
            longest,
            panels: [
                Panel {
                    heading: "cumulative share of slots by duration",
                    curves: sweeps.collect(),
                },
                Panel {
                    heading: "cumulative share of compound queries by duration",
                    curves: queries.collect(),
                },
            ],
        }
    }

    fn draw_courses<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (from, to) = self.span;
        // The unit is seconds since the start, because nanoseconds since 1970 lose digits in
        // an `f64`.
        let seconds = |ts: u64| ts.saturating_sub(from) as f64 / 1e9;
        let frame = Frame {
            at: (LEFT, TOP),
            size: (2 * PLOT + BETWEEN, HEIGHT),
            x: (0.0, seconds(to)),
            top: 1.08 * self.longest,
        };
        let times: Vec<_> = axis::times(&self.zone, from, to, 8)
            .into_iter()
            .map(|(ts, text)| (seconds(ts), text))
            .collect();
        let marks: Vec<_> = axis::marks(0.0, frame.top, 5)
            .into_iter()
            .map(|ns| (ns, curves::duration(ns)))
            .collect();
        let which = if self.more > 0 {
            "duration of sweeps by sampler: the longest ones"
        } else {
            "duration of sweeps by sampler"
        };
        frame.draw(area, which, &times, &marks)?;
        for (index, (_, course)) in self.courses.iter().enumerate() {
            let points: Vec<_> = course
                .steps()
                .map(|(ts, step)| frame.pixel(seconds(ts), step.max as f64))
                .collect();
            curves::curve(area, &points, Style::nth(index))?;
        }
        let names: Vec<_> = self
            .courses
            .iter()
            .enumerate()
            .map(|(index, (name, _))| (name.as_str(), Style::nth(index)))
            .collect();
        curves::legend(
            area,
            (LEFT + 2 * PLOT + BETWEEN + 16, TOP + 8),
            &names,
            self.more,
        )
    }
}

impl Panel {
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, left: i32) -> Drawn<DB> {
        let least = self
            .curves
            .iter()
            .map(|(_, values, _)| values.least())
            .min()
            .unwrap_or(1);
        let most = self
            .curves
            .iter()
            .map(|(_, values, _)| values.greatest())
            .max()
            .unwrap_or(1);
        let (from, to) = (
            Bins::Log.position(least as f64) - 0.05,
            Bins::Log.position(most as f64) + 0.05,
        );
        let frame = Frame {
            at: (left, TOP + ROW),
            size: (PLOT, HEIGHT),
            x: (from, to),
            top: 1.0,
        };
        let shares: Vec<_> = axis::marks(0.0, 1.0, 5)
            .into_iter()
            .map(|mark| (mark, axis::number(mark)))
            .collect();
        frame.draw(area, self.heading, &curves::decades(from, to), &shares)?;
        for (_, values, style) in &self.curves {
            let mut points: Vec<_> = values
                .cumulative()
                .into_iter()
                .map(|(ns, share)| frame.pixel(Bins::Log.position(ns), share))
                .collect();
            points.dedup();
            curves::curve(area, &points, *style)?;
        }
        let names: Vec<_> = self
            .curves
            .iter()
            .map(|(name, _, style)| (name.as_str(), *style))
            .collect();
        curves::legend(area, (left + PLOT + 16, TOP + ROW + 8), &names, 0)
    }
}

impl Drawing for SweepPicture {
    fn size(&self) -> (u32, u32) {
        (
            (LEFT + 2 * PLOT + BETWEEN + LEGEND) as u32,
            (TOP + 2 * ROW) as u32,
        )
    }

    fn title(&self) -> String {
        TITLE.to_owned()
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        draw::write(area, TITLE, 20, (12, 10), (HPos::Left, VPos::Top), &BLACK)?;
        draw::write(
            area,
            &self.subtitle,
            13,
            (12, 36),
            (HPos::Left, VPos::Top),
            &GREY,
        )?;
        self.draw_courses(area)?;
        for (panel, left) in self
            .panels
            .iter()
            .zip([LEFT, LEFT + PLOT + BETWEEN])
            .filter(|(panel, _)| !panel.curves.is_empty())
        {
            panel.draw(area, left)?;
        }
        Ok(())
    }
}
