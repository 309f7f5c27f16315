//! Draws latency as two plots with the same logarithmic time axis. The first plot shows the share
//! of values per bin. The second plot shows the cumulative share.

use ibnet::types::Printable;
use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::latency::{Latencies, Named};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use crate::draw::{self, Drawing, Drawn, axis, palette};

/// Distributions in one picture.
#[derive(Clone, Debug)]
pub struct LatencyPicture {
    title: String,
    subtitle: String,
    curves: Vec<Curve>,
    /// Ends of the axis as decimal logarithms of nanoseconds.
    range: (f64, f64),
    /// Largest share of a bin.
    highest: f64,
}

#[derive(Clone, Debug)]
struct Curve {
    name: String,
    values: Distribution,
    color: RGBColor,
    width: u32,
}

const WIDTH: i32 = 900;
const LEFT: i32 = 64;
const PLOT: i32 = 600;
const HEIGHT: i32 = 260;
const TOP: i32 = 80;
const BETWEEN: i32 = 40;
const BOTTOM: i32 = 64;
const SMALL: u32 = 12;
const GREY: RGBColor = RGBColor(90, 90, 90);
const FAINT: RGBColor = RGBColor(225, 225, 225);

/// Largest number of samplers that get their own curves.
const MOST_SAMPLERS: usize = 6;

impl LatencyPicture {
    /// Lays out one recording: all values, by kind, by distance, by sampler if there are few, and
    /// the smallest value of each port. `when` is the time range with the time zone.
    pub fn of(latencies: &Latencies, when: &str) -> Self {
        let named = |named: &Named| Printable(&named.name).to_string();
        let mut curves = vec![Curve::new("all".to_owned(), &latencies.all, (0, 0, 0))];
        let [least, colors @ ..] = palette::LINES;
        if latencies.kinds.len() > 1 {
            curves.extend(latencies.kinds.iter().zip(colors).map(|(kind, color)| Curve::new(named(kind), &kind.values, color)));
        }
        // Colours follow the order of the distances. The lightest colour is not used.
        let farthest = latencies.distances.len().saturating_sub(1);
        let shades = (0..=farthest).map(|index| palette::color(0.9 * index as f64 / farthest.max(1) as f64));
        if farthest > 0 {
            curves.extend(latencies.distances.iter().zip(shades).map(|(far, color)| Curve::new(named(far), &far.values, color)));
        }
        if (2..=MOST_SAMPLERS).contains(&latencies.samplers.len()) {
            let grey = |index: usize| (60 + 25 * index as u8, 60 + 25 * index as u8, 60 + 25 * index as u8);
            let samplers = latencies.samplers.iter().enumerate();
            curves.extend(samplers.map(|(index, each)| Curve::new(format!("from {}", named(each)), &each.values, grey(index))));
        }
        curves.push(Curve::new("smallest of each port".to_owned(), &latencies.least, least));
        Self::new("latency: round-trip times of MADs".to_owned(), when.to_owned(), curves)
    }

    /// Lays out two recordings in the same plots.
    pub fn compared(before: &Latencies, after: &Latencies, when: &str) -> Self {
        let distance = before.all.distance(&after.all);
        let subtitle = format!("{when}; Kolmogorov-Smirnov distance {distance:.3}");
        let curves = vec![
            Curve::new("before".to_owned(), &before.all, palette::LINES[0]),
            Curve::new("after".to_owned(), &after.all, palette::LINES[1]),
        ];
        Self::new("latency: round-trip times of MADs, compared".to_owned(), subtitle, curves)
    }

    fn new(title: String, subtitle: String, mut curves: Vec<Curve>) -> Self {
        curves.retain(|curve| !curve.values.is_empty());
        let bins = || curves.iter().flat_map(|curve| curve.values.bins());
        let ends = bins().fold((f64::INFINITY, 1.0_f64), |(from, to), bin| (from.min(bin.from), to.max(bin.to)));
        let range = (ends.0.max(1.0).min(ends.1).log10(), ends.1.log10());
        let highest = bins().map(|bin| bin.share).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        Self { title, subtitle, curves, range: (range.0, range.1.max(range.0 + 0.1)), highest }
    }

    fn x(&self, ns: f64) -> i32 {
        let (from, to) = self.range;
        LEFT + ((ns.max(1.0).log10() - from) / (to - from) * f64::from(PLOT)) as i32
    }

    /// Draws the frame of a plot. Its vertical axis goes from 0 to `highest`.
    fn frame<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, top: i32, name: &str, highest: f64) -> Drawn<DB> {
        for mark in axis::marks(0.0, highest, 5) {
            let y = up(top, mark / highest);
            draw::line(area, (LEFT, y), (LEFT + PLOT, y), &FAINT)?;
            draw::write(area, &axis::number(mark), SMALL, (LEFT - 6, y), (HPos::Right, VPos::Center), &BLACK)?;
        }
        for (ns, text) in self.marks() {
            let x = self.x(ns);
            draw::line(area, (x, top), (x, top + HEIGHT), &FAINT)?;
            draw::write(area, &text, SMALL, (x, top + HEIGHT + 5), (HPos::Center, VPos::Top), &BLACK)?;
        }
        area.draw(&Rectangle::new([(LEFT, top), (LEFT + PLOT, top + HEIGHT)], GREY))?;
        draw::write(area, name, 13, (LEFT, top - 4), (HPos::Left, VPos::Bottom), &BLACK)
    }

    /// Returns the marks of the time axis: 1, 2 and 5 of each decade, or 1 if there are many
    /// decades.
    fn marks(&self) -> Vec<(f64, String)> {
        let steps: &[f64] = if self.range.1 - self.range.0 > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = self.range.0.floor() as i32..=self.range.1.ceil() as i32;
        let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        all.filter(|ns| (self.range.0..=self.range.1).contains(&ns.log10())).map(|ns| (ns, axis::nanos(ns))).collect()
    }

    fn density(&self, curve: &Curve, top: i32) -> Vec<(i32, i32)> {
        let bins = curve.values.bins();
        let steps = bins.iter().flat_map(|bin| [(bin.from, bin.share), (bin.to, bin.share)]);
        let ends = [bins.first().map(|bin| (bin.from, 0.0)), bins.last().map(|bin| (bin.to, 0.0))];
        let points = ends[0].into_iter().chain(steps).chain(ends[1]);
        points.map(|(ns, share)| (self.x(ns), up(top, share / self.highest))).collect()
    }

    fn cumulative(&self, curve: &Curve, top: i32) -> Vec<(i32, i32)> {
        let mut share = 0.0;
        let mut points = Vec::new();
        for (ns, next) in curve.values.cumulative() {
            points.extend([(self.x(ns), up(top, share)), (self.x(ns), up(top, next))]);
            share = next;
        }
        // Several values share a pixel.
        points.dedup();
        points
    }
}

impl Curve {
    fn new(name: String, values: &Distribution, (r, g, b): palette::Rgb) -> Self {
        let width = if (r, g, b) == (0, 0, 0) { 2 } else { 1 };
        Self { name, values: values.clone(), color: RGBColor(r, g, b), width }
    }
}

/// Returns the vertical position of a share in a plot.
fn up(top: i32, share: f64) -> i32 {
    top + HEIGHT - (share * f64::from(HEIGHT)) as i32
}

impl Drawing for LatencyPicture {
    fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (TOP + 2 * HEIGHT + BETWEEN + BOTTOM) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        draw::write(area, &self.title, 20, (12, 10), (HPos::Left, VPos::Top), &BLACK)?;
        draw::write(area, &self.subtitle, 13, (12, 36), (HPos::Left, VPos::Top), &GREY)?;
        let lower = TOP + HEIGHT + BETWEEN;
        self.frame(area, TOP, "share of values per bin, 20 bins per decade", self.highest)?;
        self.frame(area, lower, "cumulative share of values", 1.0)?;
        for (index, curve) in self.curves.iter().enumerate() {
            let style = curve.color.stroke_width(curve.width);
            area.draw(&PathElement::new(self.density(curve, TOP), style))?;
            area.draw(&PathElement::new(self.cumulative(curve, lower), style))?;
            let (x, y) = (LEFT + PLOT + 16, TOP + 8 + 18 * index as i32);
            area.draw(&PathElement::new(vec![(x, y), (x + 22, y)], style))?;
            let name: String = curve.name.chars().take(28).collect();
            draw::write(area, &name, SMALL, (x + 28, y), (HPos::Left, VPos::Center), &BLACK)?;
        }
        let x = LEFT + PLOT / 2;
        draw::write(area, "round-trip time", 13, (x, lower + HEIGHT + 28), (HPos::Center, VPos::Top), &BLACK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Format, render};

    #[test]
    fn each_distribution_with_values_has_a_curve_and_a_name() {
        let mut values = Distribution::default();
        [30_000, 40_000, 50_000].into_iter().for_each(|ns| values.record(ns));
        let named = Named { name: "</svg>&".to_owned(), values: values.clone() };
        let latencies = Latencies {
            all: values.clone(),
            is_of_ports: true,
            kinds: vec![named.clone(), named],
            distances: Vec::new(),
            samplers: Vec::new(),
            least: Distribution::default(),
            clocks: [].into(),
        };
        let picture = LatencyPicture::of(&latencies, "today (UTC)");
        assert_eq!(picture.curves.len(), 3, "a distribution without values has no curve");
        // The cumulative share rises to 1 at the upper edge.
        let curve = picture.cumulative(&picture.curves[0], 0);
        assert_eq!((curve[0].1, curve.last().unwrap().1), (HEIGHT, 0));
        let text = String::from_utf8(render(&picture, Format::Svg).unwrap()).unwrap();
        assert!(text.contains("&lt;/svg&gt;&amp;") && text.contains("today (UTC)") && text.contains("50 us"), "{text}");
        assert_eq!(text.matches("</svg>").count(), 1);
        assert!(render(&LatencyPicture::compared(&latencies, &latencies, ""), Format::Png).unwrap().len() > 1000);
    }
}
