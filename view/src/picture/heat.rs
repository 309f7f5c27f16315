//! Draws heat maps as pictures. Each metric has a panel with a colour bar. All panels have the same
//! time axis.

use ibnet_analysis::heat::grid::{Cell, Grid, Panel, Range};
use ibnet_analysis::when::Zone;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use crate::draw::{self, Drawing, Drawn, Image, axis, palette};
use crate::text::count;

/// A heat map with its layout.
#[derive(Clone, Debug)]
pub struct HeatPicture {
    grid: Grid,
    ranges: Vec<(f64, f64)>,
    how: String,
    zone: Zone,
    /// Number of rows that are merged into one row, because the picture has fewer pixels than rows.
    joined: usize,
    /// Width and height of a cell in pixels.
    cell: (u32, u32),
    left: i32,
}

/// Space above the first panel, between panels, to the right of the panels, and below the last
/// panel, in pixels.
const TOP: i32 = 58;
const BETWEEN: i32 = 40;
const RIGHT: i32 = 110;
const BOTTOM: i32 = 64;

/// Font size of labels.
const SMALL: u32 = 12;

/// Largest number of rows in all panels together.
const MOST_ROWS: usize = 6000;

const GREY: RGBColor = RGBColor(90, 90, 90);

/// Colours of the stripes of a cell without an answer.
const STRIPES: (palette::Rgb, palette::Rgb) = ((70, 70, 70), (235, 235, 235));
/// Colour of an unknown value.
const UNKNOWN: palette::Rgb = (190, 190, 190);
/// Colour of a cell without a record.
const NO_RECORD: palette::Rgb = (255, 255, 255);

/// Returns the colour of a cell at a pixel. `low` and `high` are the values of the first and the
/// last colour.
pub(crate) fn cell_color(cell: Cell, (low, high): (f64, f64), (x, y): (u32, u32)) -> palette::Rgb {
    match cell {
        Cell::Value(value) => palette::color((value - low) / (high - low)),
        Cell::NoAnswer if (x + y) % 6 < 3 => STRIPES.0,
        Cell::NoAnswer => STRIPES.1,
        Cell::Unknown => UNKNOWN,
        Cell::NoRecord => NO_RECORD,
    }
}

impl HeatPicture {
    /// Lays out the picture.
    pub fn new(grid: &Grid, range: &Range, zone: Zone) -> Self {
        let ranges = grid.panels.iter().map(|panel| range.of(panel)).collect();
        let panels = grid.panels.len().max(1);
        let most = MOST_ROWS / panels;
        let joined = grid.rows.len().div_ceil(most).max(1);
        let grid = if joined > 1 { grid.at_most(most, grid.columns) } else { grid.clone() };
        let height = (1000 / panels / grid.rows.len().max(1)).clamp(1, 20) as u32;
        let width = (1000 / grid.columns.max(1)).clamp(1, 60) as u32;
        let labels = grid.rows.iter().map(|name| if height >= SMALL - 1 { &name.row } else { &name.block });
        let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
        Self { ranges, how: range.title(), zone, joined, cell: (width, height), left: 24 + 7 * longest as i32, grid }
    }

    /// Returns the width of a panel in pixels: wide enough for the titles.
    fn width(&self) -> i32 {
        (self.grid.columns as i32 * self.cell.0 as i32).max(640)
    }

    fn height(&self) -> i32 {
        self.grid.rows.len() as i32 * self.cell.1 as i32
    }

    fn top(&self, panel: usize) -> i32 {
        TOP + BETWEEN / 2 + panel as i32 * (self.height() + BETWEEN)
    }

    fn bottom(&self) -> i32 {
        self.top(self.grid.panels.len().saturating_sub(1)) + self.height()
    }

    fn end_ns(&self) -> u64 {
        self.grid.end_ns()
    }

    fn title(&self) -> String {
        let metrics: Vec<_> = self.grid.panels.iter().map(|panel| panel.metric.title()).collect();
        format!("{}, by {}", metrics.join(" / "), self.grid.by)
    }

    fn subtitle(&self) -> String {
        let day = |ns| self.zone.format(ns, "%Y-%m-%d %H:%M:%S");
        let step = axis::nanos(self.grid.step_ns as f64);
        let rows = if self.joined > 1 {
            format!("{} rows of {} {}s", self.grid.rows.len(), self.joined, self.grid.by)
        } else {
            count(self.grid.rows.len(), &self.grid.by.to_string())
        };
        format!(
            "{} to {} ({}), {step} per column, {rows}, colours {}",
            day(self.grid.start_ns),
            day(self.end_ns()),
            self.zone.name(self.grid.start_ns),
            self.how
        )
    }

    /// Returns the heading of a panel.
    fn heading(&self, panel: &Panel) -> String {
        let metric = &panel.metric;
        let largest = panel.largest().map(|(value, row, column)| {
            let when = self.zone.format(self.grid.start_ns + column as u64 * self.grid.step_ns, "%H:%M:%S");
            format!("; largest: {} at {}, {when}", axis::number(value), self.grid.rows[row].row)
        });
        format!("{} in {}{}", metric.name(), metric.unit(), largest.unwrap_or_else(|| "; no value".to_owned()))
    }

    /// Draws the labels of the rows, or of blocks of rows if the rows are too low for text.
    fn labels<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, top: i32) -> Drawn<DB> {
        let height = self.cell.1 as i32;
        let by_row = self.cell.1 >= SMALL - 1;
        let mut free = i32::MIN;
        let mut before = None;
        for (row, name) in self.grid.rows.iter().enumerate() {
            let begins = by_row || before.replace(&name.block) != Some(&name.block);
            let y = top + row as i32 * height;
            if !begins || y < free {
                continue;
            }
            let (label, y) = if by_row { (&name.row, y + height / 2) } else { (&name.block, y) };
            if !by_row {
                draw::line(area, (self.left - 10, y), (self.left - 1, y), &GREY)?;
            }
            let v = if by_row { VPos::Center } else { VPos::Top };
            draw::write(area, label, SMALL, (self.left - 12, y), (HPos::Right, v), &BLACK)?;
            free = if by_row { i32::MIN } else { y + SMALL as i32 + 1 };
        }
        Ok(())
    }

    /// Draws the colour bar of a panel.
    fn bar<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>, panel: usize) -> Drawn<DB> {
        let (low, high) = self.ranges[panel];
        let (x, top) = (self.left + self.width() + 14, self.top(panel));
        let height = self.height().clamp(60, 240).min(self.height().max(24));
        for y in 0..height {
            let (red, green, blue) = palette::color(1.0 - f64::from(y) / f64::from(height - 1).max(1.0));
            draw::line(area, (x, top + y), (x + 14, top + y), &RGBColor(red, green, blue))?;
        }
        let most = (height / 24).max(1) as usize;
        let beyond = self.grid.panels[panel].values().any(|value| value > high);
        for mark in axis::marks(low, high, most) {
            let y = top + height - 1 - ((mark - low) / (high - low) * f64::from(height - 1)) as i32;
            draw::line(area, (x + 14, y), (x + 18, y), &GREY)?;
            draw::write(area, &axis::number(mark), SMALL, (x + 21, y), (HPos::Left, VPos::Center), &BLACK)?;
        }
        let upper = if beyond { format!("≥ {}", axis::number(high)) } else { String::new() };
        draw::write(area, &upper, SMALL, (x, top - 3), (HPos::Left, VPos::Bottom), &BLACK)
    }

    fn times<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let width = self.grid.columns as i32 * self.cell.0 as i32;
        let y = self.bottom();
        for (ns, text) in axis::times(&self.zone, self.grid.start_ns, self.end_ns(), (width / 90).max(1) as usize) {
            let share = (ns - self.grid.start_ns) as f64 / (self.end_ns() - self.grid.start_ns) as f64;
            let x = self.left + (share * f64::from(width)) as i32;
            draw::line(area, (x, y), (x, y + 5), &GREY)?;
            draw::write(area, &text, SMALL, (x, y + 8), (HPos::Center, VPos::Top), &BLACK)?;
        }
        Ok(())
    }

    /// Returns position, text and sample of each entry of the legend.
    fn legend(&self) -> [(i32, &'static str, Cell); 3] {
        let left = self.left;
        [(left, "no answer", Cell::NoAnswer), (left + 110, "value unknown", Cell::Unknown), (left + 260, "no record", Cell::NoRecord)]
    }

    /// Returns the image of the cells of a panel.
    fn image(&self, at: (i32, i32), cells: &[Vec<Cell>], range: (f64, f64), (wide, high): (u32, u32)) -> Image {
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

    /// Returns the pixel in the middle of a cell.
    pub fn pixel(&self, panel: usize, row: usize, column: usize) -> (u32, u32) {
        let (wide, high) = self.cell;
        ((self.left as u32) + column as u32 * wide + wide / 2, self.top(panel) as u32 + row as u32 * high + high / 2)
    }
}

impl Drawing for HeatPicture {
    fn size(&self) -> (u32, u32) {
        ((self.left + self.width() + RIGHT) as u32, (self.bottom() + BOTTOM) as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        draw::write(area, &self.title(), 20, (12, 10), (HPos::Left, VPos::Top), &BLACK)?;
        draw::write(area, &self.subtitle(), 13, (12, 36), (HPos::Left, VPos::Top), &GREY)?;
        for (number, panel) in self.grid.panels.iter().enumerate() {
            let top = self.top(number);
            draw::write(area, &self.heading(panel), 13, (self.left, top - 4), (HPos::Left, VPos::Bottom), &BLACK)?;
            self.labels(area, top)?;
            self.bar(area, number)?;
            let corner = (self.left + self.grid.columns as i32 * self.cell.0 as i32, top + self.height());
            area.draw(&Rectangle::new([(self.left - 1, top - 1), corner], GREY))?;
        }
        self.times(area)?;
        let y = self.bottom() + 34;
        for (x, text, _) in self.legend() {
            area.draw(&Rectangle::new([(x - 1, y - 1), (x + 18, y + 12)], GREY))?;
            draw::write(area, text, SMALL, (x + 24, y + 6), (HPos::Left, VPos::Center), &BLACK)?;
        }
        Ok(())
    }

    fn images(&self) -> Vec<Image> {
        let panels = self.grid.panels.iter().enumerate();
        let mut images: Vec<Image> =
            panels.map(|(number, panel)| self.image((self.left, self.top(number)), &panel.cells, self.ranges[number], self.cell)).collect();
        let y = self.bottom() + 34;
        images.extend(self.legend().map(|(x, _, cell)| self.image((x, y), &[vec![cell]], (0.0, 1.0), (18, 12))));
        images
    }
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::heat::HeatMap;
    use ibnet_analysis::heat::order::{RowKind, RowLabel};

    use super::*;
    use crate::draw::{Format, render};
    use crate::fixtures::fold;

    fn grid() -> Grid {
        let name = |row: &str| RowLabel { row: row.to_owned(), block: "leaf".to_owned() };
        let cells =
            vec![vec![Cell::Value(0.0), Cell::Value(1.0), Cell::NoAnswer], vec![Cell::Value(2.0), Cell::Value(40.0), Cell::NoRecord]];
        Grid {
            start_ns: 1_795_262_400_000_000_000,
            step_ns: 1_000_000_000,
            columns: 3,
            by: RowKind::Port,
            rows: vec![name("a</text>&/1"), name("b/1")],
            panels: vec![Panel { metric: "xmit_gbps".parse().unwrap(), cells }],
        }
    }

    #[test]
    fn largest_value_has_the_last_colour_and_no_answer_is_striped() {
        let picture = HeatPicture::new(&grid(), &Range::Fixed(0.0, 40.0), Zone::utc());
        let file = render(&picture, Format::Png).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), picture.size());
        let at = |row, column| {
            let (x, y) = picture.pixel(0, row, column);
            let at = ((y * info.width + x) * 3) as usize;
            (pixels[at], pixels[at + 1], pixels[at + 2])
        };
        assert_eq!((at(1, 1), at(0, 0)), (palette::color(1.0), palette::color(0.0)));
        assert_eq!(at(1, 2), NO_RECORD);
        assert!([STRIPES.0, STRIPES.1].contains(&at(0, 2)));
        let drawn = pixels.chunks(3).filter(|pixel| *pixel != [255, 255, 255]).count();
        assert!(drawn > 5000, "only {drawn} pixels are not white");
    }

    #[test]
    fn largest_possible_time_can_be_drawn() {
        let late = format!(
            r#"{{"type":"port","ts":{},"slot":1795262400,"sampler":"s","guid":"0x0000000000000001","port":2,"node":"leaf1","kind":"switch","status":"ok","xmit_gbps":1.0}}"#,
            u64::MAX
        );
        let early = late.replace(&u64::MAX.to_string(), "1020000000").replace("1795262400", "1");
        for lines in [vec![late.clone()], vec![early, late]] {
            let heat = fold(HeatMap::new(vec!["xmit_gbps".parse().unwrap()], None), &lines);
            let grid = heat.finish(RowKind::Port).unwrap();
            assert!(render(&HeatPicture::new(&grid, &Range::default(), Zone::utc()), Format::Svg).is_ok());
        }
    }

    #[test]
    fn picture_has_title_time_range_and_legend() {
        let picture = HeatPicture::new(&grid(), &Range::default(), Zone::utc());
        let text = String::from_utf8(render(&picture, Format::Svg).unwrap()).unwrap();
        for expected in [
            "data sent, by port",
            "2026-11-21 12:00:00 to 2026-11-21 12:00:03 (UTC), 1 s per column, 2 ports, colours up to mean + mean absolute deviation",
            "xmit_gbps in Gb/s; largest: 40 at b/1, 12:00:01",
            "no answer",
            "a&lt;/text&gt;&amp;/1",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
    }
}
