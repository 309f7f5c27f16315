//! Pictures of sweeps: the durations over time by sampler, the distribution of the durations, and
//! the distribution of compound queries, each as cumulative shares or as a histogram.

use std::cmp::Reverse;

use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::sweeps::SweepReport;
use ibnet_analysis::sweeps::course::Course;
use ibnet_analysis::sweeps::histogram::{BinsOf, Histogram};
use ibnet_analysis::when::Zone;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::counts::Counts;
use super::curves::{self, Frame, GREY, STYLES, Style};
use crate::draw::{self, Drawing, Drawn, axis};
use crate::text::count;

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

/// Distributions of durations.
#[derive(Clone, Debug)]
struct Panel {
    heading: String,
    bins: Bins,
    /// Ends of the axis of durations as positions.
    range: (f64, f64),
    /// Upper end of the vertical axis.
    top: f64,
    /// Marks of the vertical axis.
    marks: Vec<(f64, String)>,
    curves: Vec<Curve>,
}

/// Name, lines and style of a distribution.
type Curve = (&'static str, Vec<Vec<(f64, f64)>>, Style);

const TITLE: &str = "sweeps: durations and compound queries";

const LEFT: i32 = 68;
const PLOT: i32 = 370;
const BETWEEN: i32 = 170;
const LEGEND: i32 = 200;
const TOP: i32 = 92;
const HEIGHT: i32 = 230;
const ROW: i32 = HEIGHT + 62;

impl SweepPicture {
    /// Lays out the durations over time, and below them the histograms with these bins, or else the
    /// cumulative shares. `when` is the time range with the time zone.
    pub fn new(report: &SweepReport, bins: Option<BinsOf>, zone: Zone, when: &str) -> Self {
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
        let (slots, queries) = ("slots by duration", "compound queries by duration");
        let panels = if let Some(bins) = bins {
            let [sweeps, compound] = report.histograms(bins);
            [
                Panel::counts(slots, sweeps),
                Panel::counts(queries, compound),
            ]
        } else {
            let kinds = report.compound.iter().map(|(kind, values)| (*kind, values));
            [
                Panel::cumulative(slots, &report.parts()),
                Panel::cumulative(queries, &kinds.collect::<Vec<_>>()),
            ]
        };
        Self {
            subtitle: format!("{when}; {}", count(report.rows.len(), "sampler")),
            zone,
            more,
            courses,
            span: (from, to.max(from + 1)),
            longest,
            panels,
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
            x: (0.0, seconds(to).max(1e-3)),
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
            let style = Style::nth(index);
            match points[..] {
                // A curve needs two points.
                [point] => curves::dot(area, point, style)?,
                _ => curves::curve(area, &points, style)?,
            }
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
    fn cumulative(heading: &str, series: &[(&'static str, &Distribution)]) -> Self {
        let bins = Bins::LOG;
        let values = || series.iter().map(|(_, values)| values);
        let least = values().map(|values| values.least()).min().unwrap_or(1);
        let most = values().map(|values| values.greatest()).max().unwrap_or(1);
        let line = |values: &Distribution| {
            let points = values.cumulative().into_iter();
            points.map(|(ns, share)| (bins.position(ns), share))
        };
        let curves = series.iter().enumerate().map(|(index, (name, values))| {
            (*name, vec![line(values).collect()], Style::nth(index))
        });
        Self {
            heading: format!("cumulative share of {heading}"),
            bins,
            range: (
                bins.position(least as f64) - 0.05,
                bins.position(most as f64) + 0.05,
            ),
            top: 1.0,
            marks: axis::marks(0.0, 1.0, 5)
                .into_iter()
                .map(|mark| (mark, axis::number(mark)))
                .collect(),
            curves: curves.collect(),
        }
    }

    fn counts(heading: &str, Histogram { bins, series }: Histogram) -> Self {
        let counts = Counts::new(bins, series.iter().flat_map(|(_, counted)| counted), PLOT);
        let curves = series
            .iter()
            .enumerate()
            .map(|(index, (name, counted))| (*name, counts.lines(counted), Style::nth(index)));
        Self {
            heading: format!("number of {heading}, {}", counts.width()),
            bins,
            range: counts.range,
            top: counts.top,
            curves: curves.collect(),
            marks: counts.marks,
        }
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, left: i32) -> Drawn<DB> {
        let frame = Frame {
            at: (left, TOP + ROW),
            size: (PLOT, HEIGHT),
            x: self.range,
            top: self.top,
        };
        let times = curves::time_marks(self.bins, self.range);
        frame.draw(area, &self.heading, &times, &self.marks)?;
        for (_, lines, style) in &self.curves {
            for line in lines {
                let mut points: Vec<_> = line.iter().map(|(x, y)| frame.pixel(*x, *y)).collect();
                points.dedup();
                curves::curve(area, &points, *style)?;
            }
        }
        let names: Vec<_> = self
            .curves
            .iter()
            .map(|(name, _, style)| (*name, *style))
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
