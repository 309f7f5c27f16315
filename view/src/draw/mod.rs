//! Writes picture files, PNG or SVG, with the crate plotters.
//!
//! The font is DejaVu Sans from the crate `dejavu`. So pictures are equal on all machines, also on
//! machines without fonts. A large area of cells is drawn as an image. A PNG contains a copy of
//! this image, and an SVG contains it as one element.

use std::path::Path;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use miette::Diagnostic;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, register_font};

pub mod axis;
pub mod palette;

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

/// Pixels that are drawn above all else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// Upper left corner in pixels.
    pub at: (i32, i32),
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// Red, green and blue of each pixel, row by row.
    pub rgb: Vec<u8>,
}

/// A picture that could not be drawn.
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

    /// Draws everything but the images on a white background.
    ///
    /// # Errors
    /// Returns the errors of the backend.
    fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB>;

    /// Returns the images.
    fn images(&self) -> Vec<Image> {
        Vec::new()
    }
}

/// Returns the contents of the picture file.
///
/// # Errors
/// Returns an error if the picture is too large.
pub fn render(drawing: &impl Drawing, format: Format) -> Result<Vec<u8>, DrawError> {
    static FONT: LazyLock<bool> = LazyLock::new(|| register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular()).is_ok());
    if !*FONT {
        return Err(failed("the font is not readable"));
    }
    match format {
        Format::Png => png(drawing),
        Format::Svg => svg(drawing).map(String::into_bytes),
    }
}

fn failed(error: impl std::fmt::Display) -> DrawError {
    DrawError { why: error.to_string() }
}

fn png(drawing: &impl Drawing) -> Result<Vec<u8>, DrawError> {
    let (width, height) = drawing.size();
    let mut pixels = vec![255; width as usize * height as usize * 3];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        drawing.draw(&area).and_then(|()| area.present()).map_err(failed)?;
    }
    for Image { at: (left, top), size, rgb } in drawing.images() {
        for (row, line) in rgb.chunks_exact(size.0 as usize * 3).enumerate() {
            let start = ((top as usize + row) * width as usize + left as usize) * 3;
            if let Some(room) = pixels.get_mut(start..start + line.len()) {
                room.copy_from_slice(line);
            }
        }
    }
    encode((width, height), &pixels)
}

fn encode((width, height): (u32, u32), pixels: &[u8]) -> Result<Vec<u8>, DrawError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels)).map_err(failed)?;
    Ok(file)
}

fn svg(drawing: &impl Drawing) -> Result<String, DrawError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, drawing.size()).into_drawing_area();
        drawing.draw(&area).and_then(|()| area.present()).map_err(failed)?;
    }
    let images = drawing.images().into_iter().map(|Image { at: (x, y), size, rgb }| {
        let data = STANDARD.encode(encode(size, &rgb)?);
        let (width, height) = size;
        Ok(format!(
            "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{data}\"/>\n"
        ))
    });
    let images = images.collect::<Result<String, DrawError>>()?;
    let end = text.rfind("</svg>").unwrap_or(text.len());
    text.insert_str(end, &images);
    Ok(text)
}

/// Returns the font. Capital letters are about a fifth smaller than `size` pixels.
pub fn font(size: u32) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, f64::from(size), FontStyle::Normal)
}

/// Writes a text. `at` is the point of the text that `h` and `v` select.
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
    area.draw_text(text, &font(size).color(color).pos(Pos::new(h, v)), at)
}

/// Draws a line of one pixel width.
///
/// # Errors
/// Returns the errors of the backend.
pub fn line<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, from: (i32, i32), to: (i32, i32), color: &RGBColor) -> Drawn<DB> {
    area.draw(&PathElement::new(vec![from, to], color))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hostile;

    impl Drawing for Hostile {
        fn size(&self) -> (u32, u32) {
            (200, 50)
        }

        fn draw<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn<DB> {
            write(area, "</text><script>\"&'", 14, (5, 5), (HPos::Left, VPos::Top), &BLACK)
        }

        fn images(&self) -> Vec<Image> {
            vec![Image { at: (100, 10), size: (2, 1), rgb: vec![1, 2, 3, 4, 5, 6] }]
        }
    }

    #[test]
    fn names_are_escaped_in_svg() {
        let text = String::from_utf8(render(&Hostile, Format::Svg).unwrap()).unwrap();
        assert!(text.contains("&lt;/text&gt;&lt;script&gt;") && !text.contains("<script"), "{text}");
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut images = 0;
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Empty(element) => images += usize::from(element.name().as_ref() == "image"),
                _ => {}
            }
        }
        assert_eq!(images, 1);
    }

    #[test]
    fn png_has_text_and_images() {
        let file = render(&Hostile, Format::Png).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (200, 50));
        let at = (10 * 200 + 100) * 3;
        assert_eq!(pixels[at..at + 6], [1, 2, 3, 4, 5, 6]);
        let dark = pixels[..at].chunks(3).filter(|pixel| pixel[0] < 100).count();
        assert!(dark > 20, "a text of 18 letters has {dark} dark pixels");
    }

    #[test]
    fn extension_selects_the_format() {
        assert_eq!(Format::of(Path::new("a/b.PNG")), Some(Format::Png));
        assert_eq!(Format::of(Path::new("b.svg")), Some(Format::Svg));
        assert_eq!((Format::of(Path::new("png")), Format::of(Path::new("a.pdf"))), (None, None));
    }
}
