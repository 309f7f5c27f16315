//! Draws heat maps. Each metric has a panel with time axes and a colour bar, and jobs are outlined.

use ibnet_analysis::heat::grid::{Cell, Grid, Panel};
use ibnet_analysis::heat::marks::JobMark;
use ibnet_analysis::heat::order::RowKind;
use ibnet_analysis::heat::range::{ColorRange, Range};
use ibnet_analysis::when::Zone;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use self::section::Section;
use crate::draw::{self, Drawing, Drawn, Image, axis, font, palette};

mod outlines;
mod rows;
mod section;

/// A heat map with its layout.
#[derive(Clone, Debug)]
pub struct HeatPicture {
    /// Sections from top to bottom: the rows of the fabric, then the hosts with host metrics.
    sections: Vec<Section>,
    zone: Zone,
    /// Width of a cell in pixels.
    wide: u32,
    /// Width of the row labels in pixels.
    left: i32,
}

/// Space above the first panel, in pixels. [`BOTTOM`] is the space below the last panel.
const TOP: i32 = 60;
const BOTTOM: i32 = 34;

/// Space for the heading of a panel, in pixels. [`AXIS`] is the space for each of its time axes.
const HEADING: i32 = 42;
const AXIS: i32 = 22;

/// Space between the panel and the colour bar, in pixels. [`BAR`] is the width of the bar.
const GAP: i32 = 14;
const BAR: i32 = 16;

/// Font size of labels.
const SMALL: u32 = 12;

/// Min height of a row with its name beside it, in pixels.
const READABLE: u32 = SMALL - 1;

/// Max number of rows in all panels together, if no size is given.
const MAX_ROWS: usize = 6000;

/// Default width of a panel, and default height of all panels together, in pixels. Neither applies
/// if a size is given or more rows or columns need the space.
const USUAL: usize = 1000;

/// Up to this number of rows, every row is high enough for its name, if no size is given.
const MAX_NAMES: usize = 160;

/// Min height in pixels of a panel with a time axis at its top too.
const TALL: i32 = 400;

const DAY_NS: u64 = 86_400_000_000_000;

const GREY: RGBColor = RGBColor(90, 90, 90);

/// Colours of the stripes of a cell without an answer.
const STRIPES: (palette::Rgb, palette::Rgb) = ((70, 70, 70), (235, 235, 235));
/// Colour of a link that is down.
const DOWN: palette::Rgb = (110, 110, 110);
/// Colour of an unknown value.
const UNKNOWN: palette::Rgb = (190, 190, 190);
/// Colour of an increase whose time is not known.
const INCREASE: palette::Rgb = (213, 94, 0);
/// Colour of a cell without a record.
const NO_RECORD: palette::Rgb = (255, 255, 255);

/// Returns the colour of a cell at a pixel.
pub(crate) fn cell_color(cell: Cell, range: &ColorRange, (x, y): (u32, u32)) -> palette::Rgb {
    match cell {
        // Both dark and light dots, so that they are visible on every colour.
        Cell::AtLeast { .. } if (x + 5 * y) % 13 == 0 => STRIPES.1,
        Cell::AtLeast { .. } if (x + 5 * y) % 13 == 1 => STRIPES.0,
        Cell::Value(value) | Cell::AtLeast { value, .. } => palette::color(range.share(value)),
        Cell::Increase => INCREASE,
        Cell::NoAnswer if (x + y) % 6 < 3 => STRIPES.0,
        Cell::NoAnswer => STRIPES.1,
        Cell::Down => DOWN,
        Cell::Unknown => UNKNOWN,
        Cell::NoRecord => NO_RECORD,
    }
}

impl HeatPicture {
    /// Lays out the picture. `hosts` is the heat map of host metrics, if any, with the same
    /// columns. `size` is the max width and height of the picture in pixels; rows and columns are
    /// merged until they fit.
    pub fn new(
        grid: &Grid,
        hosts: Option<&Grid>,
        range: &Range,
        zone: Zone,
        size: Option<(u32, u32)>,
    ) -> Self {
        let grids: Vec<&Grid> = std::iter::once(grid).chain(hosts).collect();
        let panels = grids
            .iter()
            .map(|grid| grid.panels.len())
            .sum::<usize>()
            .max(1);
        let room = size.map(|(_, height)| {
            let around = TOP + BOTTOM + panels as i32 * (HEADING + 2 * AXIS);
            (height as i32 - around).max(1) as usize / panels
        });
        let sections: Vec<Section> = grids
            .iter()
            .map(|grid| Section::new(grid, range, panels, room))
            .collect();
        let widest = sections
            .iter()
            .map(|section| section.labels.width(&section.grid))
            .fold(0.0, f64::max);
        let left = 24 + widest.ceil() as i32;
        let most_columns = size.map_or(usize::MAX, |(width, _)| {
            (width as i32 - left - right(&sections)).max(1) as usize
        });
        let sections: Vec<Section> = if grid.columns > most_columns {
            sections
                .into_iter()
                .map(|section| section.narrowed(most_columns))
                .collect()
        } else {
            sections
        };
        let columns = sections
            .iter()
            .map(|section| section.grid.columns)
            .max()
            .unwrap_or(1)
            .max(1);
        let wide = if size.is_some() {
            most_columns / columns
        } else {
            (USUAL / columns).clamp(1, 200)
        };
        Self {
            sections,
            zone,
            wide: wide.max(1) as u32,
            left,
        }
    }

    /// Outlines jobs. `marks` returns the marks for a heat map as it is drawn, with merged rows
    /// and columns.
    #[must_use]
    pub fn with_jobs(mut self, marks: impl Fn(&Grid) -> Vec<JobMark>) -> Self {
        self.sections
            .iter_mut()
            .for_each(|section| section.jobs = marks(&section.grid));
        self
    }

    /// Returns all panels, each with its section and its index there.
    fn panels(&self) -> impl Iterator<Item = (&Section, usize)> {
        self.sections
            .iter()
            .flat_map(|section| (0..section.grid.panels.len()).map(move |panel| (section, panel)))
    }

    /// Returns the start, the length and the number of the columns.
    fn columns(&self) -> (u64, u64, usize) {
        self.sections.first().map_or((0, 1, 0), |section| {
            (
                section.grid.start_ns,
                section.grid.step_ns,
                section.grid.columns,
            )
        })
    }

    /// Returns the width of the cells in pixels.
    fn width(&self) -> i32 {
        self.columns().2 as i32 * self.wide as i32
    }

    /// Returns the upper edge of the cells of a panel.
    fn top(&self, panel: usize) -> i32 {
        let above = self
            .panels()
            .nth(panel)
            .map_or(0, |(section, _)| section.above());
        TOP + self
            .panels()
            .take(panel)
            .map(|(section, _)| section.whole())
            .sum::<i32>()
            + above
    }

    fn bottom(&self) -> i32 {
        TOP + self
            .panels()
            .map(|(section, _)| section.whole())
            .sum::<i32>()
    }

    fn end_ns(&self) -> u64 {
        self.sections
            .first()
            .map_or(0, |section| section.grid.end_ns())
    }

    /// Returns the two lines below the title: the time range, and the rows and columns.
    fn subtitle(&self) -> [String; 2] {
        let day = |ns| self.zone.format(ns, "%Y-%m-%d %H:%M:%S");
        let (start, step, _) = self.columns();
        let rows: Vec<String> = self.sections.iter().map(Section::describe).collect();
        let step = axis::nanos(step as f64);
        [
            format!(
                "{} to {} ({})",
                day(start),
                day(self.end_ns()),
                self.zone.name(start)
            ),
            format!("{}, {step} per column", rows.join(", host metrics of ")),
        ]
    }

    /// Returns the two lines of the heading of a panel: the metric, and its colours.
    fn heading(&self, section: &Section, number: usize) -> [String; 2] {
        let (grid, panel) = (&section.grid, &section.grid.panels[number]);
        let unit = panel.metric.unit();
        let largest = panel.largest().map(|(value, row, column)| {
            // The time of day of a long column says nothing.
            let form = if grid.step_ns < DAY_NS {
                "%H:%M:%S"
            } else {
                "%Y-%m-%d"
            };
            let when = grid.start_ns + column as u64 * grid.step_ns;
            let when = self.zone.format(when, form);
            format!(
                "; largest: {} at {}, {when}",
                axis::quantity(value, unit),
                grid.rows[row].row
            )
        });
        // Names of host metrics are not those of record fields, so the title follows the name.
        let name = match panel.metric.title() {
            title if section.is_of_hosts() && title != panel.metric.name() => {
                format!("{}: {title}", panel.metric.name())
            }
            _ => panel.metric.name().to_owned(),
        };
        let what = format!(
            "{name}{}{}",
            notes(panel, grid.by),
            largest.unwrap_or_else(|| "; no value".to_owned())
        );
        [what, axis::colours(&section.ranges[number], unit)]
    }

    fn bar<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        section: &Section,
        panel: usize,
        top: i32,
    ) -> Drawn<DB> {
        let (range, panel) = (&section.ranges[panel], &section.grid.panels[panel]);
        let unit = panel.metric.unit();
        let x = self.left + self.width() + GAP;
        let height = section
            .height()
            .clamp(60, 240)
            .min(section.height().max(24));
        draw::color_bar(area, (x, top), (BAR, height), range, unit)?;
        draw::write(
            area,
            &beyond(range, panel),
            SMALL,
            (x, top - 6),
            (HPos::Left, VPos::Bottom),
            &BLACK,
        )
    }

    fn times<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, Shift>,
        height: i32,
        top: i32,
    ) -> Drawn<DB> {
        let start_ns = self.columns().0;
        let (span, bottom) = ((self.end_ns() - start_ns).max(1) as f64, top + height);
        for (ns, text) in axis::times(
            &self.zone,
            start_ns,
            self.end_ns(),
            (self.width() / 90).max(1) as usize,
        ) {
            let x = self.left + ((ns - start_ns) as f64 / span * f64::from(self.width())) as i32;
            draw::line(area, (x, bottom), (x, bottom + 5), &GREY)?;
            draw::write(
                area,
                &text,
                SMALL,
                (x, bottom + 7),
                (HPos::Center, VPos::Top),
                &BLACK,
            )?;
            if height >= TALL {
                draw::line(area, (x, top - 6), (x, top - 2), &GREY)?;
                draw::write(
                    area,
                    &text,
                    SMALL,
                    (x, top - 7),
                    (HPos::Center, VPos::Bottom),
                    &BLACK,
                )?;
            }
        }
        Ok(())
    }

    /// Returns the position, the text and a sample cell of each entry of the legend. The last two
    /// exist only if a panel has such cells.
    fn legend(&self) -> Vec<(i32, &'static str, Cell)> {
        let at_least = Cell::AtLeast {
            value: f64::MAX,
            covered: 0.0,
        };
        let has = |cell| {
            self.panels()
                .any(|(section, panel)| section.grid.panels[panel].count(cell) > 0)
        };
        let entries = [
            ("no answer", Cell::NoAnswer, true),
            ("link down", Cell::Down, true),
            ("value unknown", Cell::Unknown, true),
            ("no record", Cell::NoRecord, true),
            ("at least this value", at_least, has(at_least)),
            (
                "increase, rate unknown",
                Cell::Increase,
                has(Cell::Increase),
            ),
        ];
        let mut x = self.left;
        let place = |(text, cell, _): (&'static str, Cell, bool)| {
            let own = x;
            x += 48 + font::width(text, SMALL).ceil() as i32;
            (own, text, cell)
        };
        entries
            .into_iter()
            .filter(|(.., is_shown)| *is_shown)
            .map(place)
            .collect()
    }

    /// Returns the pixel in the middle of a cell.
    pub fn pixel(&self, panel: usize, row: usize, column: usize) -> (u32, u32) {
        let (wide, high) = (
            self.wide,
            self.panels()
                .nth(panel)
                .map_or(1, |(section, _)| section.high),
        );
        (
            (self.left as u32) + column as u32 * wide + wide / 2,
            self.top(panel) as u32 + row as u32 * high + high / 2,
        )
    }
}

/// Returns what a panel sums, and what these sums lack.
pub(crate) fn notes(panel: &Panel, by: RowKind) -> String {
    let summed = if panel.summed > 1 {
        format!(", sum of {} {}s", panel.summed, panel.metric.elements())
    } else {
        String::new()
    };
    // Each element of an array has a row of all ports.
    let rows = if by.is_element() {
        &panel.ports[..panel.ports.len().min(1)]
    } else {
        &panel.ports[..]
    };
    let without = match rows
        .iter()
        .filter(|(_, with)| *with > 0)
        .map(|(all, with)| all - with)
        .sum::<usize>()
    {
        0 => String::new(),
        1 => ", without 1 port that does not have it".to_owned(),
        ports => format!(", without {ports} ports that do not have it"),
    };
    let (values, bounds) = (
        panel.values().count(),
        panel.count(Cell::AtLeast {
            value: 0.0,
            covered: 0.0,
        }),
    );
    let bounds = if bounds > 0 {
        format!(
            ", {:.1} % are lower bounds",
            100.0 * bounds as f64 / values as f64
        )
    } else {
        String::new()
    };
    format!("{summed}{without}{bounds}")
}

/// Returns the text above a colour bar, if there are values above the range.
fn beyond(range: &ColorRange, panel: &Panel) -> String {
    if panel.values().any(|value| value > range.high) {
        let high = axis::quantity(range.high, panel.metric.unit());
        format!("and more: ≥ {high}")
    } else {
        String::new()
    }
}

/// Returns the space for the colour bars, their marks and the texts above them.
fn right(sections: &[Section]) -> i32 {
    let marks = sections.iter().flat_map(Section::marks);
    let marks = marks.map(|(_, text)| f64::from(BAR + 7) + font::width(&text, SMALL));
    let above = sections
        .iter()
        .flat_map(|section| section.ranges.iter().zip(&section.grid.panels))
        .map(|(range, panel)| font::width(&beyond(range, panel), SMALL));
    let widest = marks.chain(above).fold(f64::from(BAR) + 67.0, f64::max);
    GAP + widest.ceil() as i32 + 12
}

/// Draws cells into an image and returns it.
fn image(
    at: (i32, i32),
    cells: &[Vec<Cell>],
    range: &ColorRange,
    (wide, high): (u32, u32),
) -> Image {
    let columns = cells.first().map_or(0, Vec::len) as u32;
    let size = (columns * wide, cells.len() as u32 * high);
    let mut rgb = Vec::with_capacity(size.0 as usize * size.1 as usize * 3);
    for y in 0..size.1 {
        let row = &cells[(y / high) as usize];
        for x in 0..size.0 {
            let (red, green, blue) = cell_color(row[(x / wide) as usize], range, (x, y));
            rgb.extend([red, green, blue]);
        }
    }
    Image { at, size, rgb }
}

impl Drawing for HeatPicture {
    fn size(&self) -> (u32, u32) {
        let headings = self
            .panels()
            .flat_map(|(section, panel)| self.heading(section, panel));
        let headings = headings.map(|text| (self.left, font::width(&text, 13)));
        let subtitle = self
            .subtitle()
            .into_iter()
            .map(|text| (12, font::width(&text, 13)));
        let texts = headings
            .chain(subtitle)
            .chain([(12, font::width(&self.title(), 20))]);
        let legend = self
            .legend()
            .into_iter()
            .map(|(x, text, _)| (x + 24, font::width(text, SMALL)));
        let text = texts
            .chain(legend)
            .map(|(x, width)| x + width.ceil() as i32 + 12)
            .max()
            .unwrap_or(0);
        (
            (self.left + self.width() + right(&self.sections)).max(text) as u32,
            (self.bottom() + BOTTOM) as u32,
        )
    }

    fn title(&self) -> String {
        let titles: Vec<String> = self.sections.iter().map(Section::title).collect();
        titles.join("; ")
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        draw::write(
            area,
            &self.title(),
            20,
            (12, 8),
            (HPos::Left, VPos::Top),
            &BLACK,
        )?;
        for (line, text) in self.subtitle().iter().enumerate() {
            draw::write(
                area,
                text,
                13,
                (12, 32 + 16 * line as i32),
                (HPos::Left, VPos::Top),
                &GREY,
            )?;
        }
        let mut upper = TOP;
        for (section, number) in self.panels() {
            let (top, heading, height) = (upper + section.above(), upper + 12, section.height());
            for (line, text) in self.heading(section, number).iter().enumerate() {
                let color = if line == 0 { &BLACK } else { &GREY };
                draw::write(
                    area,
                    text,
                    13,
                    (self.left, heading + 15 * line as i32),
                    (HPos::Left, VPos::Top),
                    color,
                )?;
            }
            let (cell, range) = ((self.wide, section.high), &section.ranges[number]);
            section
                .labels
                .draw(area, &section.grid, (self.left, top), section.high as i32)?;
            self.bar(area, section, number, top)?;
            draw::image(
                area,
                &image(
                    (self.left, top),
                    &section.grid.panels[number].cells,
                    range,
                    cell,
                ),
            )?;
            let corner = (self.left + self.width(), top + height);
            area.draw(&Rectangle::new([(self.left - 1, top - 1), corner], GREY))?;
            self.times(area, height, top)?;
            outlines::draw(area, &section.jobs, (self.left, top), cell)?;
            upper += section.whole();
        }
        let y = self.bottom() + 12;
        let Some(range) = self
            .sections
            .iter()
            .flat_map(|section| &section.ranges)
            .next()
        else {
            return Ok(());
        };
        for (x, text, cell) in self.legend() {
            draw::image(area, &image((x, y), &[vec![cell]], range, (18, 12)))?;
            area.draw(&Rectangle::new([(x - 1, y - 1), (x + 18, y + 12)], GREY))?;
            draw::write(
                area,
                text,
                SMALL,
                (x + 24, y + 6),
                (HPos::Left, VPos::Center),
                &BLACK,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
