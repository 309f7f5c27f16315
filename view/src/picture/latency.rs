//! Draws latencies: for each grouping, the density of the values or their numbers, and their
//! cumulative share.

use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::compare::{self, Recording};
use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::latency::grouping::By;
use ibnet_analysis::latency::{LEAST, Latencies, TIMER};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::counts::Counts;
use super::curves::{self, Frame, GREY, STYLES, Style};
use crate::draw::{self, Drawing, Drawn, axis};

/// Distributions in one picture.
#[derive(Clone, Debug)]
pub struct LatencyPicture {
    title: String,
    subtitle: String,
    panels: Vec<(Scale, Panel)>,
}

/// Scale of the durations.
#[derive(Clone, Debug)]
struct Scale {
    bins: Bins,
    /// Width of a bin as a difference of positions.
    width: f64,
    /// Ends of the axis as positions.
    range: (f64, f64),
    /// Axes of the numbers of values. With `None`, densities are drawn.
    counts: Option<Counts>,
}

/// A density or numbers of values, and a cumulative share side by side.
#[derive(Clone, Debug)]
struct Panel {
    name: String,
    curves: Vec<Curve>,
    /// Number of groups without a curve.
    more: usize,
    /// Modes in nanoseconds.
    modes: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Curve {
    name: String,
    values: Distribution,
    style: Style,
}

const LEFT: i32 = 56;
const PLOT: i32 = 400;
const BETWEEN: i32 = 60;
const LEGEND: i32 = 220;
const TOP: i32 = 92;
const HEIGHT: i32 = 210;
const ROW: i32 = HEIGHT + 58;

impl LatencyPicture {
    /// Lays out the picture of one recording. The first row has all values and the shortest
    /// round-trip times; then each grouping with several groups has a row, and the last row has the
    /// times of single readings of the clock, which are always drawn as numbers. With `has_counts`,
    /// numbers of values are drawn instead of densities. `when` is the time range with the time
    /// zone.
    pub fn of(latencies: &Latencies, bins: Bins, has_counts: bool, when: &str) -> Self {
        let report = latencies.modes(bins);
        let all = || Curve::new("all", &latencies.all, Style::ALL);
        let mut first = Panel::new("all values");
        first.modes = report.modes.iter().map(|mode| mode.at).collect();
        first.curves = vec![all()];
        let minima = [
            (LEAST, &latencies.least),
            ("least in each minute", &latencies.minima),
        ];
        for (index, (name, values)) in (1..).zip(minima) {
            if !values.is_empty() {
                first
                    .curves
                    .push(Curve::new(name, values, Style::nth(index)));
            }
        }
        let mut panels = vec![first];
        // Few switches can be compared, but hundreds of devices cannot.
        let few = [By::Switch, By::Chassis].into_iter();
        let few = few.filter(|by| latencies.groups(*by).len() <= STYLES);
        for by in latencies.tabulated().chain(few) {
            let groups = latencies.groups(by);
            if groups.len() > 1 {
                let mut panel = Panel::new(&format!("by {by}"));
                panel.curves = vec![all()];
                panel.add(
                    groups
                        .iter()
                        .map(|group| (group.name.as_str(), &group.values)),
                );
                panels.push(panel);
            }
        }
        let title = "latency: round-trip times of MADs";
        let mut picture = Self::new(title, when, (bins, has_counts), panels);
        if !latencies.timer.is_empty() {
            let mut panel = Panel::new(TIMER);
            panel.curves = vec![Curve::new(
                "readings of the clock",
                &latencies.timer,
                Style::ALL,
            )];
            // Bins for round trips are too wide.
            let bins = Bins::Log { per_decade: 50 };
            picture.panels.push((Scale::of_counts(bins, &panel), panel));
        }
        picture
    }

    /// Lays out the picture of several recordings. The first row has all values. Then each device
    /// kind has a row.
    pub fn compared(recordings: &[Recording], bins: Bins, has_counts: bool, when: &str) -> Self {
        let kinds = compare::groups(recordings, Some(By::Kind));
        let groups = compare::groups(recordings, None)
            .into_iter()
            .chain(if kinds.len() > 1 { kinds } else { Vec::new() });
        let mut panels = Vec::new();
        for group in groups {
            let mut panel = Panel::new(if group.by.is_some() {
                group.name
            } else {
                "all values"
            });
            let of_recordings = recordings.iter().zip(&group.values);
            panel.add(of_recordings.filter_map(|(recording, values)| {
                values.map(|values| (recording.name.as_str(), values))
            }));
            panels.push(panel);
        }
        let title = "latency: round-trip times of MADs, compared";
        Self::new(title, when, (bins, has_counts), panels)
    }

    fn new(title: &str, when: &str, (bins, has_counts): (Bins, bool), panels: Vec<Panel>) -> Self {
        let main = panels[0].curves.first().map(|curve| &curve.values);
        // All panels have the same bins.
        let bins = main.map_or(bins, |values| bins.with_width(values));
        let densities = Scale::of_densities(bins, &panels);
        let beyond = main.map_or(0.0, |values| {
            values.between(bins.value(densities.range.1), f64::INFINITY)
                / values.count().max(1) as f64
        });
        let beyond = if beyond > 0.0 && !has_counts {
            format!(
                "; {:.1} % of the values are beyond the axis",
                100.0 * beyond
            )
        } else {
            String::new()
        };
        let scaled = |panel: Panel| {
            let scale = if has_counts {
                Scale::of_counts(bins, &panel)
            } else {
                densities.clone()
            };
            (scale, panel)
        };
        Self {
            title: title.to_owned(),
            subtitle: format!("{when}{beyond}"),
            panels: panels.into_iter().map(scaled).collect(),
        }
    }

    fn draw_panel<DB: DrawingBackend>(
        area: &DrawingArea<DB, Shift>,
        (scale, panel): &(Scale, Panel),
        top: i32,
    ) -> Drawn<DB> {
        let (left, numbers, heading) = scale.left(panel, top);
        let right = Frame {
            at: (LEFT + PLOT + BETWEEN, top),
            top: 1.0,
            ..left.clone()
        };
        let marks = curves::time_marks(scale.bins, scale.range);
        left.draw(area, &heading, &marks, &numbers)?;
        right.draw(
            area,
            &format!("{}: cumulative share", panel.name),
            &marks,
            &marks_to(1.0),
        )?;
        for curve in &panel.curves {
            for line in scale.lines(curve, &left) {
                curves::curve(area, &line, curve.style)?;
            }
            curves::curve(area, &scale.cumulative(curve, &right), curve.style)?;
        }
        for ns in panel
            .modes
            .iter()
            .filter(|ns| left.contains(scale.bins.position(**ns)))
        {
            let (x, _) = left.pixel(scale.bins.position(*ns), 0.0);
            area.draw(&Polygon::new(
                vec![(x - 5, top), (x + 5, top), (x, top + 9)],
                BLACK.filled(),
            ))?;
        }
        let entries: Vec<_> = panel
            .curves
            .iter()
            .map(|curve| (curve.name.as_str(), curve.style))
            .collect();
        let legend = (LEFT + 2 * PLOT + BETWEEN + 16, top + 8);
        curves::legend(area, legend, &entries, panel.more)?;
        if panel.modes.len() > 1 {
            let modes: Vec<String> = panel.modes.iter().map(|ns| axis::nanos(*ns)).collect();
            for (line, modes) in (1..).zip(modes.chunks(3)) {
                let title = if line == 1 { "modes: " } else { "" };
                draw::write(
                    area,
                    &format!("{title}{}", modes.join(", ")),
                    curves::SMALL,
                    (legend.0, legend.1 + 17 * (entries.len() as i32 + line)),
                    (HPos::Left, VPos::Center),
                    &BLACK,
                )?;
            }
        }
        Ok(())
    }
}

/// Returns the marks of a linear axis from 0.
fn marks_to(high: f64) -> Vec<(f64, String)> {
    axis::marks(0.0, high, 5)
        .into_iter()
        .map(|mark| (mark, axis::number(mark)))
        .collect()
}

impl Scale {
    /// Returns the scale of densities, which ends where few values are left.
    fn of_densities(bins: Bins, panels: &[Panel]) -> Self {
        /// Share in percent of the values that lie below the axis, and also of those above it.
        const BEYOND: f64 = 0.5;
        /// End of a linear axis, in interquartile ranges above the third quartile.
        const RANGES: u64 = 6;
        let curves = || {
            panels
                .iter()
                .flat_map(|panel| &panel.curves)
                .map(|curve| &curve.values)
        };
        // Groups with few values do not influence the axis.
        let leading = || {
            panels
                .iter()
                .take(1)
                .flat_map(|panel| &panel.curves)
                .map(|curve| &curve.values)
        };
        let end = |values: &Distribution| {
            let most = values.percentile(100.0 - BEYOND);
            match bins {
                Bins::Log { .. } => most,
                Bins::Fixed { .. } => {
                    let [low, high] = [25.0, 75.0].map(|percent| values.percentile(percent));
                    most.min(high + RANGES * (high - low))
                }
            }
        };
        let least = curves()
            .map(|values| values.percentile(BEYOND))
            .min()
            .unwrap_or(1);
        let most = leading().map(end).max().unwrap_or(1);
        let width = leading().next().map_or(1.0, |values| bins.width(values));
        let (from, to) = (bins.position(least as f64), bins.position(most as f64));
        let range = (
            (from / width).floor() * width,
            (to + width).max(from + 2.0 * width),
        );
        Self {
            bins,
            width,
            range,
            counts: None,
        }
    }

    /// Returns the scale of the numbers of values of a panel, up to the longest value.
    fn of_counts(bins: Bins, panel: &Panel) -> Self {
        let counted: Vec<_> = panel
            .curves
            .iter()
            .flat_map(|curve| bins.counts(&curve.values))
            .collect();
        let counts = Counts::new(bins, counted.iter(), PLOT);
        Self {
            bins,
            width: 0.0,
            range: counts.range,
            counts: Some(counts),
        }
    }

    /// Returns the left frame of a panel, the marks of its vertical axis, and its heading.
    fn left(&self, panel: &Panel, top: i32) -> (Frame, Vec<(f64, String)>, String) {
        let (high, marks, heading) = if let Some(counts) = &self.counts {
            let heading = format!("number of values, {}", counts.width());
            (counts.top, counts.marks.clone(), heading)
        } else {
            let densities = panel
                .curves
                .iter()
                .flat_map(|curve| self.bins.of(&curve.values, self.width))
                .map(|bin| bin.density);
            // The frame is higher than the highest bar, so they do not touch.
            let high = 1.08 * densities.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
            let heading = format!("density {}", self.bins.unit());
            (high, marks_to(high), heading)
        };
        let frame = Frame {
            at: (LEFT, top),
            size: (PLOT, HEIGHT),
            x: self.range,
            top: high,
        };
        (frame, marks, format!("{}: {heading}", panel.name))
    }

    /// Returns the lines of a curve in the left frame.
    fn lines(&self, curve: &Curve, frame: &Frame) -> Vec<Vec<(i32, i32)>> {
        let Some(counts) = &self.counts else {
            return vec![self.density(curve, frame)];
        };
        let lines = counts.lines(&self.bins.counts(&curve.values)).into_iter();
        let pixels = lines.map(|line| {
            let mut points: Vec<_> = line.iter().map(|(x, y)| frame.pixel(*x, *y)).collect();
            points.dedup();
            points
        });
        pixels.collect()
    }

    fn density(&self, curve: &Curve, frame: &Frame) -> Vec<(i32, i32)> {
        let bins = self.bins.of(&curve.values, self.width);
        let mut points = Vec::new();
        for bin in bins.iter().filter(|bin| {
            self.bins.position(bin.to) > self.range.0 && self.bins.position(bin.from) < self.range.1
        }) {
            let (from, to) = (self.bins.position(bin.from), self.bins.position(bin.to));
            if points.is_empty() {
                points.push(frame.pixel(from, 0.0));
            }
            points.extend([frame.pixel(from, bin.density), frame.pixel(to, bin.density)]);
        }
        if let Some(last) = bins
            .last()
            .map(|bin| self.bins.position(bin.to))
            .filter(|last| *last < self.range.1)
        {
            points.push(frame.pixel(last, 0.0));
        }
        points
    }

    fn cumulative(&self, curve: &Curve, frame: &Frame) -> Vec<(i32, i32)> {
        let all = curve
            .values
            .cumulative()
            .into_iter()
            .map(|(ns, share)| (self.bins.position(ns), share));
        let mut points: Vec<_> = all
            .take_while(|(at, _)| *at <= self.range.1)
            .map(|(at, share)| frame.pixel(at, share))
            .collect();
        // Several values can have the same pixel.
        points.dedup();
        points
    }
}

impl Panel {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            curves: Vec::new(),
            more: 0,
            modes: Vec::new(),
        }
    }

    /// Adds a curve for each group with values. The number of curves is at most the number
    /// of styles.
    fn add<'a>(&mut self, groups: impl Iterator<Item = (&'a str, &'a Distribution)>) {
        let groups: Vec<_> = groups.filter(|(_, values)| !values.is_empty()).collect();
        self.more = groups.len().saturating_sub(STYLES);
        let curves = groups.into_iter().take(STYLES).enumerate();
        self.curves.extend(
            curves.map(|(index, (name, values))| Curve::new(name, values, Style::nth(index))),
        );
    }
}

impl Curve {
    fn new(name: &str, values: &Distribution, style: Style) -> Self {
        Self {
            name: name.to_owned(),
            values: values.clone(),
            style,
        }
    }
}

impl Drawing for LatencyPicture {
    fn size(&self) -> (u32, u32) {
        let height = TOP + ROW * self.panels.len() as i32;
        ((LEFT + 2 * PLOT + BETWEEN + LEGEND) as u32, height as u32)
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        draw::write(
            area,
            &self.title,
            20,
            (12, 10),
            (HPos::Left, VPos::Top),
            &BLACK,
        )?;
        draw::write(
            area,
            &self.subtitle,
            13,
            (12, 36),
            (HPos::Left, VPos::Top),
            &GREY,
        )?;
        for (panel, row) in self.panels.iter().zip(0..) {
            Self::draw_panel(area, panel, TOP + ROW * row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use ibnet_analysis::input::Fold;
    use ibnet_analysis::latency::Latency;
    use ibnet_analysis::record::{Record, Type};

    use super::*;
    use crate::draw::{Format, render};

    /// Returns a recording with values of switches and HCAs at two times.
    fn latencies(sampler: &str) -> Latencies {
        let mut latency = Latency::default();
        for value in 0..400_u64 {
            let (kind, ns) = if value % 2 == 0 {
                ("switch", 150_000)
            } else {
                ("hca", 65_000)
            };
            let line = format!(
                r#"{{"type":"port","ts":1,"slot":1,"sampler":"{sampler}","guid":"0x{:016x}","port":1,"lid":1,"node":"n","kind":"{kind}","hops":{},"status":"ok","rtt_ns":{},"mads":1}}"#,
                value % 10 + 1,
                value % 2 + 1,
                ns + value * 20
            );
            latency.add(&Record::parse(line.as_bytes(), Type::Port).unwrap());
        }
        latency.finish().unwrap()
    }

    #[test]
    fn each_grouping_has_a_row_and_each_group_a_curve() {
        let latencies = latencies("</svg>&");
        for bins in [
            Bins::LOG,
            Bins::Fixed {
                width: Some(5_000.0),
            },
        ] {
            let picture = LatencyPicture::of(&latencies, bins, false, "today (UTC)");
            let names: Vec<_> = picture
                .panels
                .iter()
                .map(|(_, panel)| (panel.name.as_str(), panel.curves.len()))
                .collect();
            let rows = [("all values", 1), ("by kind", 3), ("by hops", 3)];
            assert_eq!(names[..3], rows);
            // Five switches, and the unknown switch of the HCAs.
            assert_eq!(names[3..], [("by switch", 7)]);
            assert_eq!(picture.panels[0].1.modes.len(), 2);
            let text = String::from_utf8(render(&picture, Format::Svg).unwrap()).unwrap();
            assert!(
                text.contains(bins.unit())
                    && text.contains("today (UTC)")
                    && text.contains("100 us"),
                "{text}"
            );
        }
    }

    #[test]
    fn highest_bar_does_not_touch_the_frame() {
        for has_counts in [false, true] {
            let picture = LatencyPicture::of(&latencies("s"), Bins::LOG, has_counts, "");
            for (scale, panel) in &picture.panels {
                let (frame, ..) = scale.left(panel, 0);
                let top = panel
                    .curves
                    .iter()
                    .flat_map(|curve| scale.lines(curve, &frame))
                    .flatten()
                    .map(|(_, y)| y)
                    .min()
                    .unwrap();
                assert!((10..30).contains(&top), "{top}");
            }
        }
    }

    #[test]
    fn counts_begin_at_zero_and_have_the_longest_time() {
        let bins = Bins::Fixed { width: Some(1e4) };
        let picture = LatencyPicture::of(&latencies("s"), bins, true, "");
        let (scale, panel) = &picture.panels[0];
        let (frame, _, heading) = scale.left(panel, 0);
        assert_eq!(heading, "all values: number of values, bins of 10 us");
        let lines = scale.lines(&panel.curves[0], &frame);
        let end = lines.last().unwrap().last().unwrap().0;
        assert_eq!(frame.x.0, 0.0);
        assert!((frame.x.1 - 1.02 * 160.0).abs() < 1e-9, "{frame:?}");
        assert!((390..=396).contains(&(end - LEFT)), "{end}");
    }

    #[test]
    fn recordings_are_curves_of_the_same_plots() {
        let recordings = ["</svg>&", "b"].map(|name| Recording {
            name: name.to_owned(),
            latencies: latencies("s"),
        });
        let picture = LatencyPicture::compared(&recordings, Bins::LOG, false, "");
        let mut names = String::new();
        for (_, panel) in &picture.panels {
            write!(names, "{} {};", panel.name, panel.curves.len()).unwrap();
        }
        assert_eq!(names, "all values 2;hca 2;switch 2;");
        let text = String::from_utf8(render(&picture, Format::Svg).unwrap()).unwrap();
        assert!(
            text.contains("&lt;/svg&gt;&amp;") && text.matches("</svg>").count() == 1,
            "{text}"
        );
        assert!(render(&picture, Format::Png).unwrap().len() > 1000);
    }
}
