//! Draws the traffic between hosts: a square of cells, senders from top to bottom.

use ibnet::drawing::canvas::shortened;
use ibnet_analysis::heat::range::{ColorRange, Origin};
use ibnet_analysis::job::sharing::{Matrix, Square};
use ibnet_analysis::metric::Unit;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use crate::draw::{self, Drawing, Drawn, Image, axis, font, palette};

/// Width of the square in pixels, if its cells are not as small as [`SMALL`]. The next constants
/// are the upper edge of the square, and the sizes of the colour bar.
const SIDE: i32 = 640;
const TOP: i32 = 106;
const GAP: i32 = 16;
const BAR: i32 = 16;
const HIGH: i32 = 180;

/// Size of names, and smallest size of a cell.
const SMALL: i32 = 12;

const GREY: RGBColor = RGBColor(90, 90, 90);

/// Colour of traffic among hosts that are not nodes of the job.
const UNKNOWN: palette::Rgb = (205, 205, 205);

/// Largest length of a name in characters.
const NAME: usize = 24;

/// The traffic between hosts.
#[derive(Clone, Debug)]
pub struct MatrixPicture {
    title: String,
    time: String,
    square: Square,
    /// Width of a cell in pixels.
    cell: i32,
    left: i32,
    range: ColorRange,
}

impl MatrixPicture {
    /// Lays out the picture. `time` is the text of the time range. A job with many hosts is drawn
    /// by leaf switch.
    pub fn new(matrix: &Matrix, title: &str, time: &str) -> Self {
        let (cells, what) = matrix.brief();
        let square = cells.square();
        let widest = square
            .names
            .iter()
            .map(|name| font::width(&shortened(name, NAME), SMALL as u32))
            .fold(0.0, f64::max);
        let high = square.bytes.iter().flatten().copied().fold(1.0, f64::max);
        Self {
            title: title.to_owned(),
            time: format!("{time}; estimated bytes between {what}"),
            cell: (SIDE / square.names.len().max(1) as i32).clamp(SMALL, 48),
            left: 46 + widest.ceil() as i32,
            range: ColorRange {
                low: 0.0,
                high,
                is_log: false,
                origin: Origin::Largest,
            },
            square,
        }
    }

    fn side(&self) -> i32 {
        self.cell * self.square.names.len() as i32
    }
}

impl Drawing for MatrixPicture {
    fn size(&self) -> (u32, u32) {
        let texts = [(&self.title, 20), (&self.time, 13)];
        let widest = texts.map(|(text, size)| 24 + font::width(text, size).ceil() as i32);
        let right = self.left + self.side() + GAP + BAR + 90;
        (
            widest.into_iter().chain([right]).max().unwrap_or(right) as u32,
            (TOP + self.side().max(HIGH) + 16) as u32,
        )
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        area.fill(&WHITE)?;
        let Self { square, left, .. } = self;
        let (start, small) = ((HPos::Left, VPos::Top), SMALL as u32);
        draw::write(area, &self.title, 20, (12, 8), start, &BLACK)?;
        draw::write(area, &self.time, 13, (12, 34), start, &GREY)?;
        let colours = axis::colours(&self.range, Unit::Octets);
        draw::write(area, &colours, 13, (12, 52), start, &GREY)?;
        draw::write(
            area,
            "receivers, in the same order",
            small,
            (*left, TOP - 30),
            start,
            &GREY,
        )?;
        for (index, name) in square.names.iter().enumerate() {
            let middle = index as i32 * self.cell + self.cell / 2;
            let number = (index + 1).to_string();
            let end = (HPos::Right, VPos::Center);
            let label = format!("{} ({number})", shortened(name, NAME));
            draw::write(area, &label, small, (left - 6, TOP + middle), end, &BLACK)?;
            let above = (left + middle, TOP - 4);
            if self.cell > SMALL + 4 || index % 2 == 0 {
                draw::write(
                    area,
                    &number,
                    small,
                    above,
                    (HPos::Center, VPos::Bottom),
                    &BLACK,
                )?;
            }
        }
        let side = self.side();
        let mut rgb = Vec::with_capacity((side * side) as usize * 3);
        for y in 0..side {
            let row = &square.bytes[(y / self.cell) as usize];
            for x in 0..side {
                let bytes = row[(x / self.cell) as usize];
                let (red, green, blue) = match bytes.is_nan() {
                    true => UNKNOWN,
                    false => palette::color(self.range.share(bytes)),
                };
                rgb.extend([red, green, blue]);
            }
        }
        let size = (side as u32, side as u32);
        draw::image(
            area,
            &Image {
                at: (*left, TOP),
                size,
                rgb,
            },
        )?;
        let corner = (left + side, TOP + side);
        area.draw(&Rectangle::new([(left - 1, TOP - 1), corner], GREY))?;
        let bar = (left + side + GAP, TOP);
        draw::color_bar(area, bar, (BAR, HIGH), &self.range, Unit::Octets)
    }
}
