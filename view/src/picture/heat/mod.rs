//! Heat maps as pictures. Each metric has a panel with time axes and a colour bar. Jobs are
//! outlined.

use ibnet_analysis::heat::grid::{Cell, Grid, Panel};
use ibnet_analysis::heat::marks::JobMark;
use ibnet_analysis::heat::order::RowKind;
use ibnet_analysis::heat::range::{ColorRange, Range};
use ibnet_analysis::when::Zone;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use self::rows::Labels;
use crate::draw::{self, Drawing, Drawn, Image, axis, font, palette};
use crate::text::count;

mod outlines;
mod rows;

/// A heat map with its layout.
#[derive(Clone, Debug)]
pub struct HeatPicture {
    grid: Grid,
    ranges: Vec<ColorRange>,
    zone: Zone,
    /// Number of rows that are merged into one row, because the picture has fewer pixels than rows.
    joined: usize,
    /// Width and height of a cell in pixels.
    cell: (u32, u32),
    labels: Labels,
    jobs: Vec<JobMark>,
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

/// Smallest height of a row that has its name beside it, in pixels.
const READABLE: u32 = SMALL - 1;

/// Largest number of rows in all panels together, if no size is given.
const MOST_ROWS: usize = 6000;

/// Height of all panels and width of a panel in pixels, if no size is given and they fit.
const USUAL: usize = 1000;

/// If no size is given and there are at most this many rows, every row is high enough for its name.
const MOST_NAMES: usize = 160;

/// Smallest height of a panel, in pixels, that also has a time axis at its top.
const TALL: i32 = 400;

const GREY: RGBColor = RGBColor(90, 90, 90);

/// Colours of the stripes of a cell without an answer.
const STRIPES: (palette::Rgb, palette::Rgb) = ((70, 70, 70), (235, 235, 235));
/// Colour of a link that is down.
const DOWN: palette::Rgb = (110, 110, 110);
/// Colour of an unknown value.
const UNKNOWN: palette::Rgb = (190, 190, 190);
/// Colour of a cell without a record.
const NO_RECORD: palette::Rgb = (255, 255, 255);

/// Returns the colour of a cell at a pixel.
pub(crate) fn cell_color(cell: Cell, range: &ColorRange, (x, y): (u32, u32)) -> palette::Rgb {
    match cell {
        Cell::Value(value) => palette::color(range.share(value)),
        Cell::NoAnswer if (x + y) % 6 < 3 => STRIPES.0,
        Cell::NoAnswer => STRIPES.1,
        Cell::Down => DOWN,
        Cell::Unknown => UNKNOWN,
        Cell::NoRecord => NO_RECORD,
    }
}

impl HeatPicture {
    /// Lays out the picture. `size` is its largest width and height in pixels. Rows and columns are
    /// merged until they fit.
    pub fn new(grid: &Grid, range: &Range, zone: Zone, size: Option<(u32, u32)>) -> Self {
        // A merged cell has the largest value of its cells. So the range of colours is computed
        // from all values before the merging.
        let ranges: Vec<ColorRange> = grid.panels.iter().map(|panel| range.of(panel)).collect();
        let panels = grid.panels.len().max(1);
        let most_rows = match size {
            Some((_, height)) => {
                let around = TOP + BOTTOM + panels as i32 * (HEADING + 2 * AXIS);
                (height as i32 - around).max(1) as usize / panels
            }
            None => MOST_ROWS / panels,
        };
        let most_rows = most_rows.max(1);
        let joined = grid.rows.len().div_ceil(most_rows).max(1);
        let merged = grid.at_most(most_rows, grid.columns);
        let rows = merged.rows.len().max(1);
        let high = match size {
            Some(_) => most_rows / rows,
            None => (USUAL / panels / rows).clamp(if rows <= MOST_NAMES { READABLE as usize + 1 } else { 1 }, 20),
        };
        let labels = Labels::of(&merged, high.max(1) as u32);
        let left = 24 + labels.width(&merged).ceil() as i32;
        let most_columns = size.map_or(usize::MAX, |(width, _)| (width as i32 - left - right(&ranges, grid)).max(1) as usize);
        let grid = if grid.columns > most_columns { merged.at_most(most_rows, most_columns) } else { merged };
        let columns = grid.columns.max(1);
        let wide = if size.is_some() { most_columns / columns } else { (USUAL / columns).clamp(1, 200) };
        let cell = (wide.max(1) as u32, high.max(1) as u32);
        Self { ranges, zone, joined, cell, labels, jobs: Vec::new(), left, grid }
    }

    /// Outlines these jobs. The rows and columns of a job refer to [`Self::grid`].
    #[must_use]
    pub fn with_jobs(mut self, jobs: Vec<JobMark>) -> Self {
        self.jobs = jobs;
        self
    }

    /// Returns the heat map as it is drawn: with merged rows and columns.
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the width of the cells in pixels.
    fn width(&self) -> i32 {
        self.grid.columns as i32 * self.cell.0 as i32
    }

    fn height(&self) -> i32 {
        self.grid.rows.len() as i32 * self.cell.1 as i32
    }

    /// Returns the space above the cells of a panel. It contains the heading and, above a tall
    /// panel, a time axis.
    fn above(&self) -> i32 {
        HEADING + if self.height() >= TALL { AXIS } else { 0 }
    }

    fn top(&self, panel: usize) -> i32 {
        TOP + panel as i32 * (self.above() + self.height() + AXIS) + self.above()
    }

    fn bottom(&self) -> i32 {
        TOP + self.grid.panels.len() as i32 * (self.above() + self.height() + AXIS)
    }

    fn end_ns(&self) -> u64 {
        self.grid.end_ns()
    }

    /// Returns the two lines below the title: the time range, and the rows and columns.
    fn subtitle(&self) -> [String; 2] {
        let day = |ns| self.zone.format(ns, "%Y-%m-%d %H:%M:%S");
        let (start, zone) = (self.grid.start_ns, self.zone.name(self.grid.start_ns));
        let kind = row_kind(self.grid.by);
        let rows = if self.joined > 1 {
            format!("{} rows, each with the largest value of {} {kind}s", self.grid.rows.len(), self.joined)
        } else {
            count(self.grid.rows.len(), kind)
        };
        let rows = if self.grid.by.is_element() { format!("{rows}, each the sum of all ports") } else { rows };
        let step = axis::nanos(self.grid.step_ns as f64);
        [format!("{} to {} ({zone})", day(start), day(self.end_ns())), format!("{rows}, {step} per column")]
    }

    /// Returns the two lines of the heading of a panel: the metric, and its colours.
    fn heading(&self, number: usize) -> [String; 2] {
        let panel = &self.grid.panels[number];
        let unit = panel.metric.unit();
        let largest = panel.largest().map(|(value, row, column)| {
            let when = self.zone.format(self.grid.start_ns + column as u64 * self.grid.step_ns, "%H:%M:%S");
            format!("; largest: {} at {}, {when}", axis::quantity(value, unit), self.grid.rows[row].row)
        });
        let what = format!("{}{}{}", panel.metric.name(), summed(panel), largest.unwrap_or_else(|| "; no value".to_owned()));
        [what, axis::colours(&self.ranges[number], unit)]
    }

    /// Draws the colour bar of a panel.
    fn bar<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, panel: usize) -> Drawn<DB> {
        let (range, unit) = (&self.ranges[panel], self.grid.panels[panel].metric.unit());
        let (x, top) = (self.left + self.width() + GAP, self.top(panel));
        let height = self.height().clamp(60, 240).min(self.height().max(24));
        let last = f64::from((height - 1).max(1));
        let colors = (0..height).flat_map(|y| {
            let (red, green, blue) = palette::color(1.0 - f64::from(y) / last);
            [red, green, blue].repeat(BAR as usize)
        });
        draw::image(area, &Image { at: (x, top), size: (BAR as u32, height as u32), rgb: colors.collect() })?;
        for (value, text) in axis::color_marks(range, unit, (height / 24).max(1) as usize) {
            let y = top + height - 1 - (range.share(value) * last).round() as i32;
            draw::line(area, (x + BAR, y), (x + BAR + 4, y), &GREY)?;
            draw::write(area, &text, SMALL, (x + BAR + 7, y), (HPos::Left, VPos::Center), &BLACK)?;
        }
        let is_beyond = self.grid.panels[panel].values().any(|value| value > range.high);
        let upper = if is_beyond { format!("and more: ≥ {}", axis::quantity(range.high, unit)) } else { String::new() };
        draw::write(area, &upper, SMALL, (x, top - 6), (HPos::Left, VPos::Bottom), &BLACK)
    }

    /// Draws the time axes of a panel.
    fn times<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, panel: usize) -> Drawn<DB> {
        let (top, span) = (self.top(panel), (self.end_ns() - self.grid.start_ns).max(1) as f64);
        let bottom = top + self.height();
        for (ns, text) in axis::times(&self.zone, self.grid.start_ns, self.end_ns(), (self.width() / 90).max(1) as usize) {
            let x = self.left + ((ns - self.grid.start_ns) as f64 / span * f64::from(self.width())) as i32;
            draw::line(area, (x, bottom), (x, bottom + 5), &GREY)?;
            draw::write(area, &text, SMALL, (x, bottom + 7), (HPos::Center, VPos::Top), &BLACK)?;
            if self.height() >= TALL {
                draw::line(area, (x, top - 6), (x, top - 2), &GREY)?;
                draw::write(area, &text, SMALL, (x, top - 7), (HPos::Center, VPos::Bottom), &BLACK)?;
            }
        }
        Ok(())
    }

    /// Returns the position, the text and a sample cell of each entry of the legend.
    fn legend(&self) -> [(i32, &'static str, Cell); 4] {
        let at = |x: i32| self.left + x;
        [
            (at(0), "no answer", Cell::NoAnswer),
            (at(110), "link down", Cell::Down),
            (at(220), "value unknown", Cell::Unknown),
            (at(360), "no record", Cell::NoRecord),
        ]
    }

    /// Returns the pixel in the middle of a cell.
    pub fn pixel(&self, panel: usize, row: usize, column: usize) -> (u32, u32) {
        let (wide, high) = self.cell;
        ((self.left as u32) + column as u32 * wide + wide / 2, self.top(panel) as u32 + row as u32 * high + high / 2)
    }
}

/// Returns the word that the subtitle uses for a row.
fn row_kind(by: RowKind) -> &'static str {
    match by {
        RowKind::Port => "port",
        RowKind::Link => "link",
        RowKind::Switch => "switch",
        RowKind::Host => "host",
        RowKind::Sl => "service level",
        RowKind::Vl => "virtual lane",
    }
}

/// Returns the note of a panel that shows the sum of an array.
pub(crate) fn summed(panel: &Panel) -> String {
    if panel.summed > 1 { format!(", sum of {} {}s", panel.summed, panel.metric.elements()) } else { String::new() }
}

/// Returns the space for the colour bars and their marks.
fn right(ranges: &[ColorRange], grid: &Grid) -> i32 {
    let marks = ranges.iter().zip(&grid.panels).flat_map(|(range, panel)| axis::color_marks(range, panel.metric.unit(), 10));
    let widest = marks.map(|(_, text)| font::width(&text, SMALL)).fold(60.0, f64::max);
    GAP + BAR + 7 + widest.ceil() as i32 + 12
}

/// Draws cells into an image and returns it.
fn image(at: (i32, i32), cells: &[Vec<Cell>], range: &ColorRange, (wide, high): (u32, u32)) -> Image {
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
        let headings = (0..self.grid.panels.len()).flat_map(|panel| self.heading(panel)).map(|text| (self.left, font::width(&text, 13)));
        let subtitle = self.subtitle().into_iter().map(|text| (12, font::width(&text, 13)));
        let texts = headings.chain(subtitle).chain([(12, font::width(&self.title(), 20)), (self.left, 450.0)]);
        let text = texts.map(|(x, width)| x + width.ceil() as i32 + 12).max().unwrap_or(0);
        ((self.left + self.width() + right(&self.ranges, &self.grid)).max(text) as u32, (self.bottom() + BOTTOM) as u32)
    }

    fn title(&self) -> String {
        let metrics: Vec<_> = self.grid.panels.iter().map(|panel| panel.metric.title()).collect();
        format!("{}, by {}", metrics.join(" / "), row_kind(self.grid.by))
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        draw::write(area, &self.title(), 20, (12, 8), (HPos::Left, VPos::Top), &BLACK)?;
        for (line, text) in self.subtitle().iter().enumerate() {
            draw::write(area, text, 13, (12, 32 + 16 * line as i32), (HPos::Left, VPos::Top), &GREY)?;
        }
        for (number, panel) in self.grid.panels.iter().enumerate() {
            let (top, heading) = (self.top(number), self.top(number) - self.above() + 12);
            for (line, text) in self.heading(number).iter().enumerate() {
                let color = if line == 0 { &BLACK } else { &GREY };
                draw::write(area, text, 13, (self.left, heading + 15 * line as i32), (HPos::Left, VPos::Top), color)?;
            }
            self.labels.draw(area, &self.grid, (self.left, top), self.cell.1 as i32)?;
            self.bar(area, number)?;
            draw::image(area, &image((self.left, top), &panel.cells, &self.ranges[number], self.cell))?;
            let corner = (self.left + self.width(), top + self.height());
            area.draw(&Rectangle::new([(self.left - 1, top - 1), corner], GREY))?;
            self.times(area, number)?;
            outlines::draw(area, &self.jobs, (self.left, top), self.cell)?;
        }
        let y = self.bottom() + 12;
        let Some(range) = self.ranges.first() else { return Ok(()) };
        for (x, text, cell) in self.legend() {
            draw::image(area, &image((x, y), &[vec![cell]], range, (18, 12)))?;
            area.draw(&Rectangle::new([(x - 1, y - 1), (x + 18, y + 12)], GREY))?;
            draw::write(area, text, SMALL, (x + 24, y + 6), (HPos::Left, VPos::Center), &BLACK)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
