//! Writes picture files as PNG or SVG.
//!
//! A picture consists of shapes of the crate plotters. `svg` writes them as vector graphics, on the
//! canvas that all pictures of the project use; `bitmap` draws them as pixels. Both use the glyphs
//! of `font`. A large area of cells is drawn as one image, so it is a single element in an SVG.

use std::path::Path;

use ibnet::drawing::canvas::Canvas;
use ibnet_analysis::heat::range::ColorRange;
use ibnet_analysis::metric::Unit;
use ibnet_record::types::Printable;
use miette::Diagnostic;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub mod axis;
mod bitmap;
pub mod font;
pub mod palette;
mod svg;

use self::bitmap::PixelBackend;
use self::svg::SvgBackend;

/// Colour of the marks of axes.
const MARK: RGBColor = RGBColor(90, 90, 90);

/// Format of a picture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Pixels.
    Png,
    /// Vector graphics.
    Svg,
}

impl Format {
    /// Returns the format by the extension of a file name, or `None` for other extensions.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        [("png", Self::Png), ("svg", Self::Svg)]
            .into_iter()
            .find(|(name, _)| extension.eq_ignore_ascii_case(name))
            .map(|(_, format)| format)
    }
}

/// Pixels of an area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// Upper left corner in pixels.
    pub at: (i32, i32),
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// Red, green and blue of each pixel, row by row.
    pub rgb: Vec<u8>,
}

/// Error for a picture that cannot be drawn.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("cannot draw the picture: {why}")]
#[diagnostic(help("give fewer ports with --nodes or a shorter time with --from and --to"))]
pub struct DrawError {
    /// The error of the backend or of the encoder.
    pub why: String,
}

/// Result of drawing.
pub type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// A picture that can be written in any format.
pub trait Drawing {
    /// Returns width and height in pixels.
    fn size(&self) -> (u32, u32);

    /// Returns the title, which browsers and screen readers show. Empty by default.
    fn title(&self) -> String {
        String::new()
    }

    /// Draws everything on a white background.
    ///
    /// # Errors
    /// Returns the errors of the backend.
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB>;
}

/// Returns the contents of the picture file.
///
/// # Errors
/// Returns an error if the picture is too large.
pub fn render(drawing: &impl Drawing, format: Format) -> Result<Vec<u8>, DrawError> {
    let size = drawing.size();
    match format {
        Format::Png => {
            let mut pixels = vec![255; size.0 as usize * size.1 as usize * 3];
            let area = PixelBackend::new(&mut pixels, size).into_drawing_area();
            drawing
                .draw(&area)
                .and_then(|()| area.present())
                .map_err(failed)?;
            drop(area);
            bitmap::encode(size, &pixels).map_err(failed)
        }
        Format::Svg => {
            let mut canvas = Canvas::new();
            svg::open(&mut canvas, size, &drawing.title());
            let area = SvgBackend::new(&mut canvas, size).into_drawing_area();
            drawing
                .draw(&area)
                .and_then(|()| area.present())
                .map_err(failed)?;
            drop(area);
            canvas.close("svg");
            Ok(canvas.finish().into_bytes())
        }
    }
}

fn failed(error: impl std::fmt::Display) -> DrawError {
    DrawError {
        why: error.to_string(),
    }
}

/// Returns the font. A line of text is `size` pixels high. The height of a capital letter is 0.63
/// of this height.
pub fn font(size: u32) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, f64::from(size), FontStyle::Normal)
}

/// Writes a text with control characters escaped. `h` and `v` select a point of the text, such as
/// its left end. This point is drawn at `at`.
///
/// # Errors
/// Returns the errors of the backend.
pub fn write<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    text: &str,
    size: u32,
    at: (i32, i32),
    (h, v): (HPos, VPos),
    color: &RGBColor,
) -> Drawn<DB> {
    // A node description can have any characters.
    area.draw_text(
        &Printable(text).to_string(),
        &font(size).color(color).pos(Pos::new(h, v)),
        at,
    )
}

/// Draws a line of one pixel width.
///
/// # Errors
/// Returns the errors of the backend.
pub fn line<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    from: (i32, i32),
    to: (i32, i32),
    color: &RGBColor,
) -> Drawn<DB> {
    area.draw(&PathElement::new(vec![from, to], color))
}

/// Draws an image.
///
/// # Errors
/// Returns the errors of the backend.
pub fn image<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, image: &Image) -> Drawn<DB> {
    match BitMapElement::with_ref(image.at, image.size, &image.rgb) {
        Some(element) => area.draw(&element),
        None => Ok(()),
    }
}

/// Draws a bar with the colours of a range, and marks with values beside it. `at` is its upper left
/// corner.
///
/// # Errors
/// Returns the errors of the backend.
pub fn color_bar<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    (x, top): (i32, i32),
    (width, height): (i32, i32),
    range: &ColorRange,
    unit: Unit,
) -> Drawn<DB> {
    let last = f64::from((height - 1).max(1));
    let colors = (0..height).flat_map(|y| {
        let (red, green, blue) = palette::color(1.0 - f64::from(y) / last);
        [red, green, blue].repeat(width as usize)
    });
    let bar = Image {
        at: (x, top),
        size: (width as u32, height as u32),
        rgb: colors.collect(),
    };
    image(area, &bar)?;
    for (value, text) in axis::color_marks(range, unit, (height / 24).max(1) as usize) {
        let y = top + height - 1 - (range.share(value) * last).round() as i32;
        line(area, (x + width, y), (x + width + 4, y), &MARK)?;
        let place = (HPos::Left, VPos::Center);
        write(area, &text, 12, (x + width + 7, y), place, &BLACK)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Markup, a terminal escape, a change of direction, and a character that XML forbids.
    const HOSTILE: &str = "</text><script>\"&'\u{1b}[2J\u{202e}\u{fffe}\0";

    struct Hostile;

    impl Drawing for Hostile {
        fn size(&self) -> (u32, u32) {
            (200, 50)
        }

        fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
            write(area, HOSTILE, 14, (5, 5), (HPos::Left, VPos::Top), &BLACK)?;
            image(
                area,
                &Image {
                    at: (100, 10),
                    size: (2, 1),
                    rgb: vec![1, 2, 3, 4, 5, 6],
                },
            )
        }
    }

    #[test]
    fn names_are_escaped_in_svg() {
        let text = String::from_utf8(render(&Hostile, Format::Svg).unwrap()).unwrap();
        assert!(
            text.contains("&lt;/text&gt;&lt;script&gt;") && !text.contains("<script"),
            "{text}"
        );
        assert!(
            !text.contains(['\u{1b}', '\u{202e}', '\u{fffe}', '\0']),
            "{text:?}"
        );
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut images = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Empty(element) => {
                    images += usize::from(element.name().as_ref() == "image");
                }
                _ => {}
            }
        }
        assert_eq!(images, 1);
    }

    #[test]
    fn png_has_text_and_images() {
        let file = render(&Hostile, Format::Png).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (200, 50));
        let at = (10 * 200 + 100) * 3;
        assert_eq!(pixels[at..at + 6], [1, 2, 3, 4, 5, 6]);
        let dark = pixels[..at]
            .chunks(3)
            .filter(|pixel| pixel[0] < 100)
            .count();
        assert!(dark > 20, "a text of 18 letters has {dark} dark pixels");
    }

    #[test]
    fn extension_selects_the_format() {
        assert_eq!(Format::of(Path::new("a/b.PNG")), Some(Format::Png));
        assert_eq!(Format::of(Path::new("b.svg")), Some(Format::Svg));
        assert_eq!(
            (Format::of(Path::new("png")), Format::of(Path::new("a.pdf"))),
            (None, None)
        );
    }
}
