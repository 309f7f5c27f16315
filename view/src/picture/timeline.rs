//! Panels over a common time axis: curves, or values stacked on each other.

use ibnet::drawing::canvas::shortened;
use ibnet_analysis::cell::{self, Cell};
use ibnet_analysis::job::marks::Mark;
use ibnet_analysis::metric::Unit;
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use crate::draw::axis::Scale;
use crate::draw::{self, Drawing, Drawn, axis, font, palette};

/// Width of the picture in pixels. The next constants are positions and sizes of the panels
/// in pixels.
const PAGE: i32 = 1180;
const LEFT: i32 = 84;
const PLOT: i32 = 800;
const HEIGHT: i32 = 190;
const TOP: i32 = 92;
const BETWEEN: i32 = 64;

const SMALL: u32 = 12;

/// Largest number of rows of phases.
const MARK_ROWS: usize = 4;

/// Largest number of series that have their own colours.
pub(super) const COLORS: usize = palette::SERIES;

const GREY: RGBColor = RGBColor(90, 90, 90);
const FAINT: RGBColor = RGBColor(222, 222, 222);
/// Background of a step without a value.
const NO_VALUE: RGBColor = RGBColor(205, 205, 205);
/// Background of a step in which some values are missing: its sums are lower bounds.
const MISSING: RGBColor = RGBColor(255, 226, 150);

/// Values of equal steps of time.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) color: palette::Rgb,
    /// Value of each step.
    pub(super) values: Vec<Cell>,
}

impl Series {
    fn value(&self, step: usize) -> Option<f64> {
        self.values.get(step)?.value()
    }
}

/// A panel with its own vertical axis.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) unit: Unit,
    /// Value at the upper end. `None` for a round number above the largest value.
    pub(super) most: Option<f64>,
    /// Series that are stacked on each other. The first one is at the bottom.
    pub(super) stacked: Vec<Series>,
    /// Series as curves.
    pub(super) curves: Vec<Series>,
}

/// A picture of panels over time.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub(super) title: String,
    /// What is missing in the panels, such as times without values. Empty if nothing is missing.
    pub(super) note: String,
    /// Start of the first step in nanoseconds since 1970.
    pub(super) start_ns: u64,
    /// Length of a step in nanoseconds.
    pub(super) step_ns: u64,
    /// Number of steps.
    pub(super) steps: usize,
    pub(super) zone: Zone,
    pub(super) panels: Vec<Panel>,
    /// Phases of an application.
    pub(super) marks: Vec<Mark>,
}

/// Returns the series with the largest sums, in unchanged order, and joins all others into
/// one series.
pub(super) fn largest(series: Vec<(String, Vec<Cell>)>, what: &str) -> Vec<Series> {
    let most = if series.len() > COLORS {
        COLORS - 1
    } else {
        COLORS
    };
    let mut rest = series;
    let others = rest.split_off(most.min(rest.len()));
    let mut shown: Vec<Series> = rest
        .into_iter()
        .enumerate()
        .map(|(index, (name, values))| Series {
            name,
            color: palette::series(index),
            values,
        })
        .collect();
    if !others.is_empty() {
        let name = format!("{} other {what}", others.len());
        let values = cell::sum(0, others.into_iter().map(|(_, values)| values));
        shown.push(Series {
            name,
            color: palette::series(COLORS - 1),
            values,
        });
    }
    shown
}

impl Timeline {
    /// Leaves out the first or the last step if less than an eighth of it lies in the recorded
    /// time. Such a step exists because slots rarely begin exactly where a step begins; heat maps
    /// leave out such columns too. Without any step, the recorded time has no value.
    #[must_use]
    pub fn trimmed(mut self, (from, to): (u64, u64)) -> Self {
        if self.steps == 0 {
            let step_ns = to.saturating_sub(from).max(1);
            return Self {
                start_ns: from,
                step_ns,
                steps: 1,
                ..self
            };
        }
        let least_ns = self.step_ns / 8;
        let last_start = self.end_ns().saturating_sub(self.step_ns);
        let first_end = self.start_ns.saturating_add(self.step_ns);
        let skip_last = self.steps > 1 && to.saturating_sub(last_start) < least_ns;
        let skip_first =
            self.steps > 1 + usize::from(skip_last) && first_end.saturating_sub(from) < least_ns;
        self.start_ns = if skip_first { first_end } else { self.start_ns };
        self.steps -= usize::from(skip_first) + usize::from(skip_last);
        for series in self
            .panels
            .iter_mut()
            .flat_map(|panel| panel.stacked.iter_mut().chain(&mut panel.curves))
        {
            series
                .values
                .drain(..usize::from(skip_first).min(series.values.len()));
            series.values.truncate(self.steps);
        }
        self
    }

    /// Adds phases of an application: a bar for each, lines at their starts and ends in all panels,
    /// and a panel of their values.
    #[must_use]
    pub fn with_marks(mut self, marks: &[Mark]) -> Self {
        let is_shown = |mark: &&Mark| {
            mark.from < self.end_ns() && mark.to.is_none_or(|to| to >= self.start_ns)
        };
        self.marks = marks.iter().filter(is_shown).cloned().collect();
        self.marks.sort_by_key(|mark| mark.from);
        let value = |step: usize| {
            let start = self.start_ns + step as u64 * self.step_ns;
            let is_in = |mark: &&Mark| {
                mark.from < start + self.step_ns && mark.to.is_none_or(|to| to > start)
            };
            let values = self
                .marks
                .iter()
                .filter(is_in)
                .filter_map(|mark| mark.value);
            values
                .reduce(|a, b| a + b)
                .map_or(Cell::NoRecord, Cell::Value)
        };
        let values: Vec<Cell> = (0..self.steps).map(value).collect();
        if values.iter().any(|cell| cell.value().is_some()) {
            self.panels.push(Panel {
                title: "Value of the phases".to_owned(),
                unit: Unit::Number,
                most: None,
                stacked: Vec::new(),
                curves: vec![Series {
                    name: "sum".to_owned(),
                    color: palette::LINES[0],
                    values,
                }],
            });
        }
        self
    }

    /// Returns the distinct names of the phases, and the row of each phase. Phases at the same time
    /// have different rows, if there are not too many.
    fn mark_rows(&self) -> (Vec<&str>, Vec<usize>) {
        let (mut names, mut ends): (Vec<&str>, Vec<u64>) = Default::default();
        let mut rows = Vec::new();
        for mark in &self.marks {
            if !names.contains(&&*mark.name) {
                names.push(&mark.name);
            }
            let free = ends.iter().position(|end| *end <= mark.from);
            let row = free.unwrap_or(ends.len()).min(MARK_ROWS - 1);
            let end = mark.to.unwrap_or(u64::MAX);
            match ends.get_mut(row) {
                Some(last) => *last = end.max(*last),
                None => ends.push(end),
            }
            rows.push(row);
        }
        (names, rows)
    }

    /// Returns the height of the bars of the phases.
    fn marks_height(&self) -> i32 {
        let (names, rows) = self.mark_rows();
        let rows = rows.into_iter().max().map_or(0, |row| row + 1);
        match rows.max(names.len().min(COLORS)) {
            0 => 0,
            rows => 24 + 18 * rows as i32,
        }
    }

    /// Draws the phases above the panels, and lines at their starts and ends in the panels.
    fn draw_marks<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let (names, rows) = self.mark_rows();
        let top = TOP - 2;
        let span = (self.end_ns() - self.start_ns).max(1) as f64;
        let x = |ns: u64| {
            let since = ns.clamp(self.start_ns, self.end_ns()) - self.start_ns;
            LEFT + (since as f64 / span * f64::from(PLOT)).round() as i32
        };
        let color = |name: &str| {
            let index = names.iter().position(|other| *other == name);
            rgb(palette::LINES[index.unwrap_or(0).min(COLORS - 1)])
        };
        if !self.marks.is_empty() {
            let place = (HPos::Left, VPos::Bottom);
            draw::write(area, "Phases", 13, (LEFT, top - 6), place, &BLACK)?;
        }
        for (mark, row) in self.marks.iter().zip(rows) {
            let (from, to) = (x(mark.from), x(mark.to.unwrap_or(u64::MAX)));
            let (color, y) = (color(&mark.name), top + 18 * row as i32);
            let panels = (0..self.panels.len()).map(|panel| self.top(panel));
            for (top, x) in panels.flat_map(|top| [(top, from), (top, to)]) {
                draw::line(area, (x, top), (x, top + HEIGHT), &color)?;
            }
            let corners = [(from, y), (to.max(from + 2), y + 12)];
            area.draw(&Rectangle::new(corners, color.filled()))?;
        }
        let left = LEFT + PLOT + 16;
        for (row, name) in names.iter().enumerate().take(COLORS) {
            let y = top + 6 + 18 * row as i32;
            let corners = [(left, y - 6), (left + 14, y + 6)];
            area.draw(&Rectangle::new(corners, color(name).filled()))?;
            let text = match names.len() - COLORS.min(names.len()) {
                more @ 1.. if row == COLORS - 1 => format!("{} other phases", more + 1),
                _ => fitting(name, SMALL, PAGE - left - 26),
            };
            let place = (HPos::Left, VPos::Center);
            draw::write(area, &text, SMALL, (left + 20, y), place, &BLACK)?;
        }
        Ok(())
    }

    fn end_ns(&self) -> u64 {
        self.start_ns
            .saturating_add(self.step_ns.saturating_mul(self.steps as u64))
    }

    fn top(&self, panel: usize) -> i32 {
        TOP + self.marks_height() + panel as i32 * (HEIGHT + BETWEEN)
    }

    /// Returns the left end of a step.
    fn x(&self, step: usize) -> i32 {
        LEFT + (f64::from(PLOT) * step as f64 / self.steps.max(1) as f64).round() as i32
    }

    fn panel<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        panel: &Panel,
        top: i32,
    ) -> Drawn<DB> {
        let sum = |step: usize| {
            panel
                .stacked
                .iter()
                .filter_map(|series| series.value(step))
                .sum::<f64>()
        };
        let values = panel
            .curves
            .iter()
            .flat_map(|series| &series.values)
            .filter_map(Cell::value);
        let largest = (0..self.steps).map(sum).chain(values).fold(0.0, f64::max);
        let scale = Scale::of(panel.unit, panel.most.unwrap_or(largest));
        let high = panel.most.map_or_else(
            || rounded_up(largest * scale.factor),
            |most| most * scale.factor,
        );
        let y = |value: f64| {
            top + HEIGHT
                - (f64::from(HEIGHT) * (value * scale.factor / high).clamp(0.0, 1.0)).round() as i32
        };
        draw::write(
            area,
            &panel.title,
            13,
            (LEFT, top - 6),
            (HPos::Left, VPos::Bottom),
            &BLACK,
        )?;
        for mark in axis::marks(0.0, high, 5) {
            let y = y(mark / scale.factor);
            draw::line(area, (LEFT, y), (LEFT + PLOT, y), &FAINT)?;
            let text = Scale {
                factor: 1.0,
                ..scale
            }
            .format(mark);
            draw::write(
                area,
                &text,
                SMALL,
                (LEFT - 8, y),
                (HPos::Right, VPos::Center),
                &BLACK,
            )?;
        }
        let all = || panel.stacked.iter().chain(&panel.curves);
        let has_value = |step: usize| all().any(|series| series.value(step).is_some());
        let is_bound = |step: usize| {
            has_value(step)
                && all().any(|series| {
                    series
                        .values
                        .get(step)
                        .is_some_and(|cell| cell.covered() < 1.0)
                })
        };
        let (gaps, bounds) = (
            runs(self.steps, |step| !has_value(step)),
            runs(self.steps, is_bound),
        );
        for (part, color) in gaps
            .iter()
            .map(|part| (part, NO_VALUE))
            .chain(bounds.iter().map(|part| (part, MISSING)))
        {
            let corners = [
                (self.x(part.start), top),
                (self.x(part.end) - 1, top + HEIGHT),
            ];
            area.draw(&Rectangle::new(corners, color.filled()))?;
        }
        for part in runs(self.steps, has_value) {
            let mut below = vec![0.0; part.len()];
            for series in &panel.stacked {
                let above: Vec<f64> = part
                    .clone()
                    .zip(&below)
                    .map(|(step, below)| below + series.value(step).unwrap_or(0.0))
                    .collect();
                let edge = |heights: &[f64]| -> Vec<(i32, i32)> {
                    part.clone()
                        .zip(heights)
                        .flat_map(|(step, height)| {
                            [(self.x(step), y(*height)), (self.x(step + 1), y(*height))]
                        })
                        .collect()
                };
                if above != below {
                    let outline: Vec<_> = edge(&above)
                        .into_iter()
                        .chain(edge(&below).into_iter().rev())
                        .collect();
                    area.draw(&Polygon::new(outline, rgb(series.color).filled()))?;
                }
                below = above;
            }
        }
        for series in &panel.curves {
            for part in runs(self.steps, |step| series.value(step).is_some()) {
                let points =
                    part.filter_map(|step| series.value(step).map(|value| (step, y(value))));
                let points: Vec<_> = points
                    .flat_map(|(step, y)| [(self.x(step), y), (self.x(step + 1), y)])
                    .collect();
                area.draw(&PathElement::new(points, rgb(series.color).stroke_width(2)))?;
            }
        }
        area.draw(&Rectangle::new(
            [(LEFT, top), (LEFT + PLOT, top + HEIGHT)],
            GREY,
        ))?;
        let backgrounds = [
            ("no value", NO_VALUE, gaps),
            ("values are missing", MISSING, bounds),
        ];
        let shown = backgrounds
            .into_iter()
            .filter(|(.., parts)| !parts.is_empty())
            .map(|(name, color, _)| (name, color));
        self.legend(area, panel, top, shown)?;
        self.times(area, top + HEIGHT)
    }

    /// Draws the names of the series, in the order in which they are stacked, and of the
    /// backgrounds.
    fn legend<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        panel: &Panel,
        top: i32,
        backgrounds: impl Iterator<Item = (&'static str, RGBColor)>,
    ) -> Drawn<DB> {
        let left = LEFT + PLOT + 16;
        let backgrounds: Vec<_> = backgrounds.collect();
        let entries = panel.curves.len() + panel.stacked.len() + backgrounds.len();
        // The entries end above those of the next panel.
        let step = ((HEIGHT + BETWEEN - 7) / entries.max(1) as i32).clamp(11, 18);
        let half = (step - 6).min(6);
        let mut y = top + 7;
        for series in panel.curves.iter().chain(panel.stacked.iter().rev()) {
            let is_curve = panel.curves.contains(series);
            let corners = if is_curve {
                [(left, y - 1), (left + 14, y + 1)]
            } else {
                [(left, y - half), (left + 14, y + half)]
            };
            area.draw(&Rectangle::new(corners, rgb(series.color).filled()))?;
            draw::write(
                area,
                &fitting(&series.name, SMALL, PAGE - left - 26),
                SMALL,
                (left + 20, y),
                (HPos::Left, VPos::Center),
                &BLACK,
            )?;
            y += step;
        }
        for (name, color) in backgrounds {
            area.draw(&Rectangle::new(
                [(left, y - half), (left + 14, y + half)],
                color.filled(),
            ))?;
            draw::write(
                area,
                name,
                SMALL,
                (left + 20, y),
                (HPos::Left, VPos::Center),
                &BLACK,
            )?;
            y += step;
        }
        Ok(())
    }

    fn times<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, y: i32) -> Drawn<DB> {
        let span = (self.end_ns() - self.start_ns).max(1) as f64;
        for (ns, text) in axis::times(
            &self.zone,
            self.start_ns,
            self.end_ns(),
            (PLOT / 90) as usize,
        ) {
            let x = LEFT + ((ns - self.start_ns) as f64 / span * f64::from(PLOT)).round() as i32;
            draw::line(area, (x, y), (x, y + 5), &GREY)?;
            draw::write(
                area,
                &text,
                SMALL,
                (x, y + 8),
                (HPos::Center, VPos::Top),
                &BLACK,
            )?;
        }
        Ok(())
    }
}

/// Escapes a name and shortens it to a width in pixels.
fn fitting(name: &str, size: u32, width: i32) -> String {
    const MIN: usize = 8;
    // No picture has space for more characters.
    const MAX: usize = 300;
    let fits = |text: &String| font::width(text, size) <= f64::from(width);
    let most = Printable(name).to_string().chars().count().clamp(MIN, MAX);
    (MIN..=most)
        .rev()
        .map(|most| shortened(name, most))
        .find(fits)
        .unwrap_or_else(|| shortened(name, MIN))
}

const fn rgb((red, green, blue): palette::Rgb) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Returns the runs of consecutive steps that `is_in` selects.
fn runs(steps: usize, is_in: impl Fn(usize) -> bool) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for step in (0..steps).filter(|step| is_in(*step)) {
        match runs.last_mut() {
            Some(last) if last.end == step => last.end = step + 1,
            _ => runs.push(step..step + 1),
        }
    }
    runs
}

/// Rounds up to 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten.
fn rounded_up(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let ten = 10_f64.powf(most.log10().floor());
    let nice = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].map(|times| times * ten);
    nice.into_iter()
        .find(|round| *round >= most * (1.0 - 1e-9))
        .unwrap_or(10.0 * ten)
}

impl Drawing for Timeline {
    fn size(&self) -> (u32, u32) {
        (PAGE as u32, self.top(self.panels.len()) as u32)
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        let day = |ns| self.zone.format(ns, "%Y-%m-%d %H:%M:%S");
        let (zone, step) = (
            self.zone.name(self.start_ns),
            axis::nanos(self.step_ns as f64),
        );
        let subtitle = format!(
            "{} to {} ({zone}), {step} per step",
            day(self.start_ns),
            day(self.end_ns())
        );
        draw::write(
            area,
            &fitting(&self.title, 20, PAGE - 24),
            20,
            (12, 8),
            (HPos::Left, VPos::Top),
            &BLACK,
        )?;
        draw::write(
            area,
            &subtitle,
            13,
            (12, 34),
            (HPos::Left, VPos::Top),
            &GREY,
        )?;
        if !self.note.is_empty() {
            draw::write(
                area,
                &fitting(&self.note, 13, PAGE - 24),
                13,
                (12, 52),
                (HPos::Left, VPos::Top),
                &GREY,
            )?;
        }
        for (number, panel) in self.panels.iter().enumerate() {
            self.panel(area, panel, self.top(number))?;
        }
        self.draw_marks(area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Format, render};

    fn timeline() -> Timeline {
        let series = |name: &str, color, values: &[Option<f64>]| {
            let values = values
                .iter()
                .map(|value| value.map_or(Cell::NoRecord, Cell::Value))
                .collect();
            Series {
                name: name.to_owned(),
                color,
                values,
            }
        };
        let blue = palette::LINES[0];
        let stacked = vec![
            series("below", blue, &[Some(10.0), Some(20.0), None, Some(0.0)]),
            series(
                "above </text>\u{1b}\u{fffe}",
                palette::LINES[1],
                &[Some(10.0), Some(20.0), None, Some(40.0)],
            ),
        ];
        let curves = vec![series(
            "curve",
            (0, 0, 0),
            &[Some(30.0), None, None, Some(40.0)],
        )];
        let panel = Panel {
            title: "data".to_owned(),
            unit: Unit::Gbps,
            most: None,
            stacked,
            curves,
        };
        let start_ns = 1_795_262_400_000_000_000;
        Timeline {
            title: "t".to_owned(),
            note: String::new(),
            start_ns,
            step_ns: 1_000_000_000,
            steps: 4,
            zone: Zone::utc(),
            panels: vec![panel],
            marks: Vec::new(),
        }
    }

    fn pixel(x: i32, y: i32) -> palette::Rgb {
        let picture = timeline();
        let file = render(&picture, Format::Png).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let at = (y as usize * PAGE as usize + x as usize) * 3;
        (pixels[at], pixels[at + 1], pixels[at + 2])
    }

    #[test]
    fn stacked_values_are_drawn_to_scale_and_gaps_are_not_zero() {
        // The axis ends at 40 Gb/s: a quarter of the height is 10 Gb/s.
        let at = |step: i32, gbps: i32| {
            pixel(
                LEFT + PLOT / 8 + step * PLOT / 4,
                TOP + HEIGHT - HEIGHT * gbps / 40,
            )
        };
        let (below, above) = (palette::LINES[0], palette::LINES[1]);
        assert_eq!(
            [at(0, 5), at(0, 15), at(0, 25)],
            [below, above, (255, 255, 255)]
        );
        assert_eq!([at(1, 15), at(1, 35)], [below, above]);
        assert_eq!(at(2, 5), (NO_VALUE.0, NO_VALUE.1, NO_VALUE.2));
        assert_eq!([at(3, 2), at(3, 38)], [above, above]);
    }

    #[test]
    fn picture_is_well_formed_with_hostile_names() {
        let text = String::from_utf8(render(&timeline(), Format::Svg).unwrap()).unwrap();
        assert!(
            text.contains("above &lt;/text&gt;\\u{1b}\\u{fffe}") && text.contains(">12:00:00.500<"),
            "{text}"
        );
        let mut reader = quick_xml::Reader::from_str(&text);
        while reader.read_event().unwrap() != quick_xml::events::Event::Eof {}
        assert_eq!(
            (
                text.matches("<polygon").count(),
                text.matches("stroke-width=\"2\"").count()
            ),
            (3, 2)
        );
    }

    #[test]
    fn labels_of_the_time_axis_are_within_the_picture() {
        for (steps, step_ns) in [
            (1, 1_000_000),
            (20, 1_000_000_000),
            (360, 10_000_000_000),
            (2000, 86_400_000_000_000),
        ] {
            let picture = Timeline {
                steps,
                step_ns,
                ..timeline()
            };
            for (ns, text) in axis::times(
                &picture.zone,
                picture.start_ns,
                picture.end_ns(),
                (PLOT / 90) as usize,
            ) {
                let x = f64::from(LEFT)
                    + (ns - picture.start_ns) as f64 / (picture.end_ns() - picture.start_ns) as f64
                        * f64::from(PLOT);
                let half = font::width(&text, SMALL) / 2.0;
                assert!(x - half > 0.0 && x + half < f64::from(PAGE), "{text}");
                assert!(
                    2.0 * half < 90.0,
                    "{text} is wider than the space between marks"
                );
            }
        }
    }

    #[test]
    fn small_series_are_joined() {
        let series = (0..COLORS + 3)
            .map(|number| {
                (
                    format!("s{number}"),
                    vec![Cell::Value((COLORS + 4 - number) as f64), Cell::NoRecord],
                )
            })
            .collect();
        let shown = largest(series, "jobs");
        assert_eq!(shown.len(), COLORS);
        assert_eq!(
            (&*shown[COLORS - 1].name, &shown[COLORS - 1].values),
            (
                "4 other jobs",
                &vec![Cell::Value(5.0 + 4.0 + 3.0 + 2.0), Cell::NoRecord]
            )
        );
    }

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!(
            [0.0, 0.3, 3.0, 10.0, 24.0, 410.0].map(rounded_up),
            [1.0, 0.30000000000000004, 3.0, 10.0, 25.0, 500.0]
        );
    }
}
