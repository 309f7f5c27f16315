//! Draws the shapes of plotters and the glyphs of [`font`] as pixels in memory, and encodes them
//! as PNG.

use std::convert::Infallible;

use plotters::backend::BitMapBackend;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

use super::font;

/// A [`DrawingBackend`] that draws RGB pixels.
pub(super) struct PixelBackend<'a> {
    shapes: BitMapBackend<'a>,
}

type Done = Result<(), DrawingErrorKind<Infallible>>;

impl<'a> PixelBackend<'a> {
    pub(super) fn new(pixels: &'a mut [u8], size: (u32, u32)) -> Self {
        Self {
            shapes: BitMapBackend::with_buffer(pixels, size),
        }
    }
}

/// Drawing into memory does not fail.
fn done<E: std::error::Error + Send + Sync>(_: Result<(), DrawingErrorKind<E>>) -> Done {
    Ok(())
}

impl DrawingBackend for PixelBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.shapes.get_size()
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        done(self.shapes.present())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Done {
        done(self.shapes.draw_pixel(point, color))
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Done {
        done(self.shapes.draw_line(from, to, style))
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done {
        done(self.shapes.draw_rect(from, to, style, fill))
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, pos: BackendCoord) -> Done {
        let ((width, height), color, turn) = (self.get_size(), style.color(), style.transform());
        font::rasterize(text, style.size(), &style.anchor(), |x, y, covered| {
            let (x, y) = turn.transform(x, y);
            let (x, y) = (pos.0 + x, pos.1 + y);
            if (0..width as i32).contains(&x) && (0..height as i32).contains(&y) {
                let _ = self.shapes.draw_pixel(
                    (x, y),
                    BackendColor {
                        alpha: color.alpha * covered,
                        ..color
                    },
                );
            }
        });
        Ok(())
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok(size_of(text, style.size()))
    }

    fn blit_bitmap(&mut self, pos: BackendCoord, size: (u32, u32), rgb: &[u8]) -> Done {
        done(self.shapes.blit_bitmap(pos, size, rgb))
    }
}

pub(super) fn size_of(text: &str, size: f64) -> (u32, u32) {
    (
        font::width(text, size.round() as u32).ceil() as u32,
        size.ceil() as u32,
    )
}

/// Encodes RGB pixels as PNG.
pub(super) fn encode(
    (width, height): (u32, u32),
    pixels: &[u8],
) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(file)
}
