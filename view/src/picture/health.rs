//! The picture of the worst links: bit errors over time, and FEC blocks by their wrong symbols.

use ibnet_analysis::health::{Health, HealthRow};
use ibnet_analysis::when::Zone;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::curves::{self, Frame, GREY, STYLES, Style};
use crate::draw::{self, Drawing, Drawn, axis};
use crate::text::count;

/// The bit errors of links.
#[derive(Clone, Debug)]
pub struct HealthPicture {
    subtitle: String,
    zone: Zone,
    span: (u64, u64),
    /// The worst links, at most [`STYLES`].
    links: Vec<Link>,
    /// Number of links without a curve.
    more: usize,
}

#[derive(Clone, Debug)]
struct Link {
    name: String,
    /// Times and logarithms of bit error ratios.
    ratios: Vec<(u64, f64)>,
    histogram: Vec<u64>,
}

const TITLE: &str = "health: bit errors of the worst links";

const LEFT: i32 = 68;
const PLOT: i32 = 760;
const LEGEND: i32 = 250;
const TOP: i32 = 92;
const HEIGHT: i32 = 230;
const ROW: i32 = HEIGHT + 72;

impl HealthPicture {
    /// Lays out the first rows, which are the worst links. `when` is the time range with the time
    /// zone.
    pub fn new(
        health: &Health,
        rows: &[HealthRow],
        span: (u64, u64),
        zone: Zone,
        when: &str,
    ) -> Self {
        let link = |row: &HealthRow| {
            let ratios = health.course(&row.port).map(|course| course.ratios());
            let ratios = ratios.unwrap_or_default().into_iter();
            Link {
                name: format!("{} ({})", row.port, row.verdict.as_str()),
                ratios: ratios.map(|(ts, ratio)| (ts, ratio.log10())).collect(),
                histogram: row.histogram.clone(),
            }
        };
        Self {
            subtitle: format!("{when}; {} of links", count(rows.len(), "end")),
            zone,
            span,
            links: rows.iter().take(STYLES).map(link).collect(),
            more: rows.len().saturating_sub(STYLES),
        }
    }

    fn draw_ratios<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (from, to) = self.span;
        let seconds = |ts: u64| ts.saturating_sub(from) as f64 / 1e9;
        let all = || self.links.iter().flat_map(|link| &link.ratios);
        let logs = || all().map(|(_, log)| *log);
        let low = logs().fold(f64::INFINITY, f64::min).floor();
        let high = logs()
            .fold(f64::NEG_INFINITY, f64::max)
            .ceil()
            .max(low + 1.0);
        let heading = "bit error ratio before error correction";
        if !low.is_finite() {
            let text = "no bit errors, or less than two readings";
            return draw::write(area, text, 13, (LEFT, TOP), (HPos::Left, VPos::Top), &GREY);
        }
        let frame = Frame {
            at: (LEFT, TOP),
            size: (PLOT, HEIGHT),
            x: (0.0, seconds(to).max(1e-3)),
            top: high - low,
        };
        let times: Vec<_> = axis::times(&self.zone, from, to, 8)
            .into_iter()
            .map(|(ts, text)| (seconds(ts), text))
            .collect();
        frame.draw(area, heading, &times, &powers(low, high))?;
        for (index, link) in self.links.iter().enumerate() {
            let points = link.ratios.iter();
            let points: Vec<_> = points
                .map(|(ts, log)| frame.pixel(seconds(*ts), log - low))
                .collect();
            match points[..] {
                [] => {}
                [point] => curves::dot(area, point, Style::nth(index))?,
                _ => curves::curve(area, &points, Style::nth(index))?,
            }
        }
        Ok(())
    }

    fn draw_histograms<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let bins = || self.links.iter().flat_map(|link| &link.histogram);
        let most = *bins().max().unwrap_or(&0);
        let last = |link: &Link| link.histogram.iter().rposition(|count| *count > 0);
        let Some(end) = self.links.iter().filter_map(last).max() else {
            return Ok(());
        };
        // A count of 1 is above the lower end, which is at a half.
        let low = 0.5_f64.log10();
        let frame = Frame {
            at: (LEFT, TOP + ROW),
            size: (PLOT, HEIGHT),
            x: (0.0, end.max(1) as f64),
            top: (most as f64).log10().ceil().max(1.0) - low,
        };
        let marks: Vec<_> = powers(0.0, frame.top + low)
            .into_iter()
            .map(|(at, text)| (at - low, text))
            .collect();
        let numbers: Vec<_> = (0..=end).map(|bin| (bin as f64, bin.to_string())).collect();
        frame.draw(
            area,
            "FEC blocks by their number of wrong symbols",
            &numbers,
            &marks,
        )?;
        for (index, link) in self.links.iter().enumerate() {
            let counted = (0..=end).zip(&link.histogram);
            let points: Vec<_> = counted
                .map(|(bin, count)| {
                    let height = if *count > 0 {
                        (*count as f64).log10() - low
                    } else {
                        0.0
                    };
                    frame.pixel(bin as f64, height)
                })
                .collect();
            if points.len() > 1 {
                curves::curve(area, &points, Style::nth(index))?;
            }
        }
        Ok(())
    }
}

/// Returns marks of a logarithmic axis at powers of ten. The lower end of the axis is 0.
fn powers(low: f64, high: f64) -> Vec<(f64, String)> {
    let step = ((high - low) / 6.0).ceil().max(1.0) as usize;
    let exponents = (low as i32..=high as i32).step_by(step);
    exponents
        .map(|exponent| {
            let text = match exponent {
                0..=3 => format!("{}", 10_u64.pow(exponent as u32)),
                _ => format!("1e{exponent}"),
            };
            (f64::from(exponent) - low, text)
        })
        .collect()
}

impl Drawing for HealthPicture {
    fn size(&self) -> (u32, u32) {
        ((LEFT + PLOT + LEGEND) as u32, (TOP + 2 * ROW) as u32)
    }

    fn title(&self) -> String {
        TITLE.to_owned()
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        let corner = (HPos::Left, VPos::Top);
        draw::write(area, TITLE, 20, (12, 10), corner, &BLACK)?;
        draw::write(area, &self.subtitle, 13, (12, 36), corner, &GREY)?;
        self.draw_ratios(area)?;
        self.draw_histograms(area)?;
        let names: Vec<_> = self
            .links
            .iter()
            .enumerate()
            .map(|(index, link)| (link.name.as_str(), Style::nth(index)))
            .collect();
        curves::legend(area, (LEFT + PLOT + 16, TOP + 8), &names, self.more)
    }
}
