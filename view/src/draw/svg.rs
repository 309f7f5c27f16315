//! Writes vector graphics: the shapes of plotters become elements of [`Canvas`], which escapes
//! all text.

use std::convert::Infallible;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ibnet::drawing::canvas::{Canvas, FONT, px};
use plotters_backend::text_anchor::HPos;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontTransform,
};

use super::{bitmap, font};

/// A [`DrawingBackend`] that writes SVG.
pub(super) struct SvgBackend<'a> {
    canvas: &'a mut Canvas,
    size: (u32, u32),
}

type Done = Result<(), DrawingErrorKind<Infallible>>;

impl<'a> SvgBackend<'a> {
    pub(super) const fn new(canvas: &'a mut Canvas, size: (u32, u32)) -> Self {
        Self { canvas, size }
    }

    /// Writes an element in a colour. The colour fills the shape or draws its outline.
    fn shape<S: BackendStyle>(
        &mut self,
        name: &str,
        place: &[(&str, &str)],
        style: &S,
        fill: bool,
    ) {
        let BackendColor { rgb, alpha } = style.color();
        if alpha <= 0.0 {
            return;
        }
        let (color, opacity, width) = (
            hex(rgb),
            format!("{alpha:.3}"),
            style.stroke_width().to_string(),
        );
        let mut all = place.to_vec();
        if fill {
            all.push(("fill", &color));
        } else {
            all.extend([("fill", "none"), ("stroke", &*color)]);
            if style.stroke_width() != 1 {
                all.push(("stroke-width", &width));
            }
        }
        if alpha < 1.0 {
            all.push(("opacity", &opacity));
        }
        self.canvas.empty(name, &all);
    }
}

fn hex((red, green, blue): (u8, u8, u8)) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn int(value: i32) -> String {
    value.to_string()
}

/// Returns the middle of a pixel. A line of one pixel width is sharp at this position.
fn middle(value: i32) -> String {
    format!("{value}.5")
}

fn points(path: impl IntoIterator<Item = BackendCoord>, coordinate: fn(i32) -> String) -> String {
    path.into_iter()
        .map(|(x, y)| format!("{},{}", coordinate(x), coordinate(y)))
        .collect::<Vec<_>>()
        .join(" ")
}

impl DrawingBackend for SvgBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Done {
        self.shape(
            "rect",
            &[
                ("x", &int(x)),
                ("y", &int(y)),
                ("width", "1"),
                ("height", "1"),
            ],
            &color,
            true,
        );
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Done {
        let place = [
            ("x1", middle(from.0)),
            ("y1", middle(from.1)),
            ("x2", middle(to.0)),
            ("y2", middle(to.1)),
        ];
        self.shape(
            "line",
            &place
                .each_ref()
                .map(|(name, value)| (*name, value.as_str())),
            style,
            false,
        );
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done {
        let (left, top) = (from.0.min(to.0), from.1.min(to.1));
        let (width, height) = (
            int(from.0.abs_diff(to.0) as i32 + i32::from(fill)),
            int(from.1.abs_diff(to.1) as i32 + i32::from(fill)),
        );
        let (x, y) = if fill {
            (int(left), int(top))
        } else {
            (middle(left), middle(top))
        };
        self.shape(
            "rect",
            &[("x", &x), ("y", &y), ("width", &width), ("height", &height)],
            style,
            fill,
        );
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done {
        self.shape(
            "polyline",
            &[("points", &points(path, middle))],
            style,
            false,
        );
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Done {
        self.shape(
            "circle",
            &[
                ("cx", &middle(x)),
                ("cy", &middle(y)),
                ("r", &radius.to_string()),
            ],
            style,
            fill,
        );
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done {
        self.shape("polygon", &[("points", &points(path, int))], style, true);
        Ok(())
    }

    fn draw_text<T: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &T,
        (x, y): BackendCoord,
    ) -> Done {
        let (anchor, turn) = (style.anchor(), turn(&style.transform()));
        let place = [
            ("x", int(x)),
            (
                "y",
                format!(
                    "{:.1}",
                    f64::from(y) + font::baseline(style.size(), &anchor).round()
                ),
            ),
        ];
        let size = format!("{:.2}", style.size() / font::LINE);
        let (color, around) = (hex(style.color().rgb), format!("rotate({turn} {x} {y})"));
        let mut all = place
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()))
            .to_vec();
        all.push(("font-size", &size));
        match anchor.h_pos {
            HPos::Left => {}
            HPos::Center => all.push(("text-anchor", "middle")),
            HPos::Right => all.push(("text-anchor", "end")),
        }
        if turn != 0 {
            all.push(("transform", &around));
        }
        all.push(("fill", &color));
        self.canvas.text("text", &all, text);
        Ok(())
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok(bitmap::size_of(text, style.size()))
    }

    fn blit_bitmap(&mut self, (x, y): BackendCoord, size: (u32, u32), rgb: &[u8]) -> Done {
        // Encoding into memory fails only for an empty image, which is not drawn.
        let Ok(file) = bitmap::encode(size, rgb) else {
            return Ok(());
        };
        let data = format!("data:image/png;base64,{}", STANDARD.encode(file));
        let place = [
            ("x", int(x)),
            ("y", int(y)),
            ("width", size.0.to_string()),
            ("height", size.1.to_string()),
        ];
        let mut all = place
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()))
            .to_vec();
        all.extend([("style", "image-rendering:pixelated"), ("href", &*data)]);
        self.canvas.empty("image", &all);
        Ok(())
    }
}

fn turn(transform: &FontTransform) -> u32 {
    match transform {
        FontTransform::None => 0,
        FontTransform::Rotate90 => 90,
        FontTransform::Rotate180 => 180,
        FontTransform::Rotate270 => 270,
    }
}

/// Writes the beginning of a picture with its title, which browsers and screen readers show.
pub(super) fn open(canvas: &mut Canvas, (width, height): (u32, u32), title: &str) {
    let (w, h) = (px(f64::from(width)), px(f64::from(height)));
    let view = format!("0 0 {w} {h}");
    canvas.open(
        "svg",
        &[
            ("xmlns", "http://www.w3.org/2000/svg"),
            ("viewBox", &view),
            ("width", &w),
            ("height", &h),
            ("style", FONT),
        ],
    );
    if !title.is_empty() {
        canvas.text("title", &[], title);
    }
}
