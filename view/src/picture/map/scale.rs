//! Colours and widths of the map, and its legend.
//!
//! Utilization is shown in shades of blue, and blocked time in shades of orange. In both scales,
//! each colour is darker than the one before, and readers with protanopia, deuteranopia or
//! tritanopia can distinguish the two hues. Blocked time also has a shape: teeth on both sides of
//! a link.

use ibnet::drawing::canvas::{Canvas, px};
use ibnet::drawing::sheet::MARGIN;
use ibnet_analysis::cell::Cell;
use ibnet_analysis::links::Link;
use ibnet_analysis::map::Map;
use ibnet_analysis::metric::{Metric, Unit};
use ibnet_analysis::stat::Stat;

use crate::draw::axis;
use crate::text::count;

/// Colours from the first to the last value of the range. They are the darker part of the scheme
/// Blues of ColorBrewer 2.0 (C. Brewer), whose palest colours are not visible on white.
const BLUES: [[u8; 3]; 6] = [
    [0xc6, 0xdb, 0xef],
    [0x9e, 0xca, 0xe1],
    [0x6b, 0xae, 0xd6],
    [0x31, 0x82, 0xbd],
    [0x08, 0x51, 0x9c],
    [0x06, 0x25, 0x55],
];

/// Colours of blocked time, each with the share from which it is used.
const ORANGES: [(f64, &str); 3] = [(WAITS, "#f9a557"), (0.3, "#e0620d"), (0.6, "#9c3a02")];

/// A port is marked as blocked if it is blocked for more than this share of the time, 0 to 1.
const WAITS: f64 = 0.1;
/// Colour of an unknown value.
pub(super) const UNKNOWN: &str = "#aaaaaa";
/// Colour of roots.
pub(super) const ROOT: &str = "#9c3a02";
/// Colour of frames and texts.
pub(super) const INK: &str = "#222222";
/// Dashes of a link whose value is not known.
pub(super) const DOTS: (&str, &str) = ("stroke-dasharray", "2 4");

/// Returns the colour of a position in the range, 0 to 1.
pub(super) fn color(used: Option<f64>) -> String {
    let Some(used) = used else {
        return UNKNOWN.to_owned();
    };
    let at = used.clamp(0.0, 1.0) * (BLUES.len() - 1) as f64;
    let low = (at as usize).min(BLUES.len() - 2);
    let part = at - low as f64;
    let mix = |channel: usize| {
        let (a, b) = (
            f64::from(BLUES[low][channel]),
            f64::from(BLUES[low + 1][channel]),
        );
        (a + (b - a) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// Returns the width of a line in pixels.
pub(super) fn width(used: Option<f64>) -> f64 {
    1.0 + 7.0 * used.unwrap_or(0.0).clamp(0.0, 1.0)
}

/// Returns the colour of the larger blocked share of the two ends. Returns `None` if this share is
/// too small to be marked.
pub(super) fn blocked(link: &Link) -> Option<&'static str> {
    let share = link
        .directions
        .iter()
        .filter_map(|direction| direction.blocked)
        .reduce(f64::max)?;
    // A share equal to the limit is not marked.
    (share > WAITS).then(|| {
        ORANGES
            .iter()
            .rev()
            .find(|(from, _)| share >= *from)
            .map_or(ORANGES[0].1, |(_, color)| color)
    })
}

/// Height of the legend in pixels.
pub(super) const LEGEND: f64 = 104.0;

/// Returns the unit of the values.
pub(super) fn unit(map: &Map) -> Unit {
    let metric = map.metric.as_ref();
    metric.map_or(Unit::ShareOfLink, |own| own.metric.unit())
}

/// Returns the title of the map.
pub(super) fn title(map: &Map) -> String {
    match map.metric.as_ref().map(|own| &own.metric) {
        Some(metric) => format!("{} on each link", named(metric)),
        None => "Utilization of the links".to_owned(),
    }
}

/// Returns the name of a metric, with its title if that differs.
fn named(metric: &Metric) -> String {
    match metric.title() {
        title if title == metric.name() => title,
        title => format!("{} ({title})", metric.name()),
    }
}

/// Returns what a colour stands for.
fn meaning(map: &Map) -> String {
    let stat = map.stat;
    let Some(own) = &map.metric else {
        let values = match stat {
            Stat::Mean => "mean of the time range".to_owned(),
            Stat::Peak => "largest value of a slot".to_owned(),
            Stat::Percentile(_) => format!("{stat} of all slots"),
        };
        return format!("Utilization of the direction with more traffic, {values}");
    };
    let step = axis::nanos(own.step_ns as f64);
    let values = match stat {
        Stat::Mean => "mean of the time range".to_owned(),
        Stat::Peak => format!("largest mean of {step}"),
        Stat::Percentile(_) => format!("{stat} of the means of {step}"),
    };
    format!("Larger value of the two ends, {values}")
}

/// Describes the range of the colours, and how many values are lower bounds.
fn colours(map: &Map) -> String {
    let range = axis::colours(&map.range, unit(map));
    let values = map.metric.iter().flat_map(|own| own.values.values());
    let bounds = values
        .filter(|cell| matches!(cell, Cell::AtLeast { .. }))
        .count();
    match bounds {
        0 => format!("C{}.", &range[1..]),
        _ => format!(
            "C{}; {} of at least this value.",
            &range[1..],
            count(bounds, "port")
        ),
    }
}

pub(super) fn legend(canvas: &mut Canvas, top: f64, map: &Map) {
    const STEPS: usize = 11;
    const STEP: f64 = 40.0;
    let text = |canvas: &mut Canvas, x: f64, y: f64, text: &str| {
        canvas.text(
            "text",
            &[
                ("x", &px(x)),
                ("y", &px(y)),
                ("font-size", "11"),
                ("fill", INK),
            ],
            text,
        );
    };
    let unit = unit(map);
    text(canvas, MARGIN, top, &meaning(map));
    let share = |step: usize| step as f64 / (STEPS - 1) as f64;
    let labels: Vec<String> = (0..STEPS)
        .map(|step| axis::quantity(map.range.value(share(step)), unit))
        .collect();
    // Longer labels than `100 %` have the space of two colours.
    let labelled = 1 + usize::from(labels.iter().any(|label| label.len() > 5));
    for (step, label) in labels.iter().enumerate() {
        let used = share(step);
        let (x, middle) = (MARGIN + step as f64 * STEP, px(top + 14.0));
        let (stroke, thick) = (color(Some(used)), format!("{:.1}", width(Some(used))));
        let (from, to) = (px(x), px(x + STEP - 4.0));
        canvas.empty(
            "line",
            &[
                ("x1", &from),
                ("x2", &to),
                ("y1", &middle),
                ("y2", &middle),
                ("stroke", &stroke),
                ("stroke-width", &thick),
            ],
        );
        if step % labelled == 0 {
            text(canvas, x, top + 32.0, label);
        }
    }
    let left = MARGIN + STEPS as f64 * STEP + 36.0;
    text(
        canvas,
        left,
        top,
        "Blocked: an end had data to send and no credit",
    );
    let mut x = left;
    for (index, (from, _)) in ORANGES.iter().enumerate() {
        let path = format!("M{:.0} {y:.0}H{:.0}", x, x + 70.0, y = top + 14.0);
        teeth(canvas, &path, ORANGES[index].1, 4.0);
        canvas.empty(
            "path",
            &[
                ("d", &path),
                ("stroke", &color(Some(0.4))),
                ("stroke-width", "4"),
            ],
        );
        let to = ORANGES.get(index + 1).map_or(1.0, |(next, _)| *next);
        text(
            canvas,
            x,
            top + 32.0,
            &format!("{:.0} to {:.0} %", 100.0 * from, 100.0 * to),
        );
        x += 86.0;
    }
    let unknown = [
        ("x1", &*px(x)),
        ("x2", &px(x + 60.0)),
        ("y1", &px(top + 14.0)),
        ("y2", &px(top + 14.0)),
        ("stroke", UNKNOWN),
        DOTS,
    ];
    canvas.empty("line", &[&unknown[..], &[("stroke-width", "1.5")]].concat());
    text(canvas, x, top + 32.0, "unknown");
    let of_job = if map.job.is_some() {
        " Outlined: hosts of the job. Not dimmed: their links, and the ports on the way to the root that held them up."
    } else {
        ""
    };
    let notes = [
        colours(map),
        "Between two switches: a line for each link, or, with \u{d7} and their number, one for the link with the largest value."
            .to_owned(),
        "Bars in a box: the links of its hosts by port number, or all links of a switch without hosts.".to_owned(),
        format!("Label \"root\": congestion begins at these ports. Crossed out: the device does not answer. Hover over a link or a box for details.{of_job}"),
    ];
    notes
        .iter()
        .zip(1_u8..)
        .for_each(|(note, line)| text(canvas, MARGIN, top + 40.0 + 16.0 * f64::from(line), note));
}

/// Draws the mark of a blocked link: teeth on both sides of a line of this width. The line is drawn
/// above them.
pub(super) fn teeth(canvas: &mut Canvas, path: &str, color: &str, width: f64) {
    let width = format!("{:.1}", width + 5.0);
    canvas.empty(
        "path",
        &[
            ("d", path),
            ("fill", "none"),
            ("stroke", color),
            ("stroke-width", &width),
            ("stroke-dasharray", "4 4"),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lightness L* of a colour (CIE 1976).
    fn lightness(color: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        116.0 * (0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)).cbrt() - 16.0
    }

    #[test]
    fn both_scales_get_darker_in_visible_steps() {
        let blues: Vec<f64> = (0..=10)
            .map(|step| lightness(&color(Some(f64::from(step) / 10.0))))
            .collect();
        assert!(
            blues.windows(2).all(|pair| pair[0] - pair[1] > 3.0),
            "{blues:?}"
        );
        let oranges: Vec<f64> = ORANGES.iter().map(|(_, color)| lightness(color)).collect();
        assert!(
            oranges.windows(2).all(|pair| pair[0] - pair[1] > 15.0),
            "{oranges:?}"
        );
        // A link of any utilization is visible on white and on the grey of the rows.
        assert!(lightness("#f3f3f3") - blues[0] > 8.0, "{blues:?}");
    }

    #[test]
    fn colour_and_width_follow_the_utilization() {
        assert_eq!(
            (
                color(None),
                color(Some(0.0)),
                color(Some(1.0)),
                color(Some(1.7))
            ),
            (
                UNKNOWN.into(),
                "#c6dbef".into(),
                "#062555".into(),
                "#062555".into()
            )
        );
        assert_eq!(
            [None, Some(0.0), Some(0.5), Some(2.0)].map(width),
            [1.0, 1.0, 4.5, 8.0]
        );
    }
}
