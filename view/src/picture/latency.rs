//! Draws latencies: for each grouping, the density of the values and their cumulative share.

use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::compare::{self, Recording};
use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::latency::grouping::By;
use ibnet_analysis::latency::{LEAST, Latencies};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::curves::{self, Frame, GREY, STYLES, Style};
use crate::draw::{self, Drawing, Drawn, axis};

/// Distributions in one picture.
#[derive(Clone, Debug)]
pub struct LatencyPicture {
    title: String,
    subtitle: String,
    bins: Bins,
    /// Width of a bin as a difference of positions.
    width: f64,
    /// Ends of the axis as positions.
    range: (f64, f64),
    panels: Vec<Panel>,
}

/// A density and a cumulative share side by side.
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
    /// round-trip times; then each grouping with several groups has a row. `when` is the time range
    /// with the time zone.
    pub fn of(latencies: &Latencies, bins: Bins, when: &str) -> Self {
        let report = latencies.modes(bins);
        let all = || Curve::new("all", &latencies.all, Style::ALL);
        let mut first = Panel::new("all values");
        first.modes = report.modes.iter().map(|mode| mode.at).collect();
        first.curves = vec![all()];
        if !latencies.least.is_empty() {
            first
                .curves
                .push(Curve::new(LEAST, &latencies.least, Style::nth(1)));
        }
        let mut panels = vec![first];
        for by in [By::Kind, By::Hops, By::Sampler] {
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
        Self::new("latency: round-trip times of MADs", when, bins, panels)
    }

    /// Lays out the picture of several recordings. The first row has all values. Then each device
    /// kind has a row.
    pub fn compared(recordings: &[Recording], bins: Bins, when: &str) -> Self {
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
        Self::new(
            "latency: round-trip times of MADs, compared",
            when,
            bins,
            panels,
        )
    }

    fn new(title: &str, when: &str, bins: Bins, panels: Vec<Panel>) -> Self {
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
                Bins::Log => most,
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
        let main = leading().next();
        let width = main.map_or(1.0, |values| bins.width(values));
        let (from, to) = (bins.position(least as f64), bins.position(most as f64));
        let range = (
            (from / width).floor() * width,
            (to + width).max(from + 2.0 * width),
        );
        let beyond = main.map_or(0.0, |values| {
            values.between(bins.value(range.1), f64::INFINITY) / values.count().max(1) as f64
        });
        let beyond = if beyond > 0.0 {
            format!(
                "; {:.1} % of the values are beyond the axis",
                100.0 * beyond
            )
        } else {
            String::new()
        };
        Self {
            title: title.to_owned(),
            subtitle: format!("{when}{beyond}"),
            bins,
            width,
            range,
            panels,
        }
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

    fn draw_panel<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        panel: &Panel,
        top: i32,
    ) -> Drawn<DB> {
        let densities = panel
            .curves
            .iter()
            .flat_map(|curve| self.bins.of(&curve.values, self.width));
        let highest = densities
            .map(|bin| bin.density)
            .fold(0.0, f64::max)
            .max(f64::MIN_POSITIVE);
        // The frame is higher than the highest bar, so they do not touch.
        let frame = Frame {
            at: (LEFT, top),
            size: (PLOT, HEIGHT),
            x: self.range,
            top: 1.08 * highest,
        };
        let right = Frame {
            at: (LEFT + PLOT + BETWEEN, top),
            top: 1.0,
            ..frame.clone()
        };
        let marks = curves::time_marks(self.bins, self.range);
        let numbers = |high: f64| {
            axis::marks(0.0, high, 5)
                .into_iter()
                .map(|mark| (mark, axis::number(mark)))
                .collect::<Vec<_>>()
        };
        frame.draw(
            area,
            &format!("{}: density {}", panel.name, self.bins.unit()),
            &marks,
            &numbers(frame.top),
        )?;
        right.draw(
            area,
            &format!("{}: cumulative share", panel.name),
            &marks,
            &numbers(1.0),
        )?;
        for curve in &panel.curves {
            curves::curve(area, &self.density(curve, &frame), curve.style)?;
            curves::curve(area, &self.cumulative(curve, &right), curve.style)?;
        }
        for ns in panel
            .modes
            .iter()
            .filter(|ns| frame.contains(self.bins.position(**ns)))
        {
            let (x, _) = frame.pixel(self.bins.position(*ns), 0.0);
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
            let at = (legend.0, legend.1 + 17 * (entries.len() as i32 + 1));
            draw::write(
                area,
                &format!("modes: {}", modes.join(", ")),
                curves::SMALL,
                at,
                (HPos::Left, VPos::Center),
                &BLACK,
            )?;
        }
        Ok(())
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
            self.draw_panel(area, panel, TOP + ROW * row)?;
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
            Bins::Log,
            Bins::Fixed {
                width: Some(5_000.0),
            },
        ] {
            let picture = LatencyPicture::of(&latencies, bins, "today (UTC)");
            let names: Vec<_> = picture
                .panels
                .iter()
                .map(|panel| (panel.name.as_str(), panel.curves.len()))
                .collect();
            assert_eq!(names, [("all values", 1), ("by kind", 3), ("by hops", 3)]);
            assert_eq!(picture.panels[0].modes.len(), 2);
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
        let picture = LatencyPicture::of(&latencies("s"), Bins::Log, "");
        for panel in &picture.panels {
            let bins = panel
                .curves
                .iter()
                .flat_map(|curve| Bins::Log.of(&curve.values, picture.width));
            let highest = bins.map(|bin| bin.density).fold(0.0, f64::max);
            let frame = Frame {
                at: (0, 0),
                size: (PLOT, HEIGHT),
                x: picture.range,
                top: 1.08 * highest,
            };
            let top = panel
                .curves
                .iter()
                .flat_map(|curve| picture.density(curve, &frame))
                .map(|(_, y)| y)
                .min()
                .unwrap();
            assert!((10..30).contains(&top), "{top}");
        }
    }

    #[test]
    fn recordings_are_curves_of_the_same_plots() {
        let recordings = ["</svg>&", "b"].map(|name| Recording {
            name: name.to_owned(),
            latencies: latencies("s"),
        });
        let picture = LatencyPicture::compared(&recordings, Bins::Log, "");
        let mut names = String::new();
        for panel in &picture.panels {
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
