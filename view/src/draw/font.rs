//! The font of all pictures: DejaVu Sans from the crate `dejavu`.
//!
//! Because the font is embedded, pictures are the same on all machines, even on those without
//! fonts. The size of a font is the height of a line in pixels, from the top of the highest letter
//! to the bottom of the lowest one.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, Glyph, GlyphId, PxScale, PxScaleFont, ScaleFont, point};
use plotters::style::text_anchor::{HPos, Pos, VPos};

static FONT: LazyLock<Option<FontRef<'static>>> =
    LazyLock::new(|| FontRef::try_from_slice(dejavu::sans::regular()).ok());

/// Height of a capital letter as a share of the line height.
const CAPITAL: f32 = 0.626;

/// Share of the line height that is above the baseline.
const ASCENT: f32 = 0.797;

/// Line height as a multiple of the `font-size` of CSS.
pub const LINE: f64 = 1.164;

fn font(size: f64) -> Option<PxScaleFont<&'static FontRef<'static>>> {
    FONT.as_ref()
        .map(|font| font.as_scaled(PxScale::from(size as f32)))
}

/// Returns the width of a text in pixels.
pub fn width(text: &str, size: u32) -> f64 {
    f64::from(layout(text, f64::from(size)).1)
}

/// Returns the glyphs of a text and its width. Positions are not rounded to pixels, because that
/// would make the spaces between letters uneven.
fn layout(text: &str, size: f64) -> (Vec<Glyph>, f32) {
    let Some(font) = font(size) else {
        return (Vec::new(), 0.0);
    };
    let (mut at, mut before): (f32, Option<GlyphId>) = (0.0, None);
    let glyph = |c| {
        let mut glyph = font.scaled_glyph(c);
        at += before.map_or(0.0, |before| font.kern(before, glyph.id));
        glyph.position = point(at, 0.0);
        at += font.h_advance(glyph.id);
        before = Some(glyph.id);
        glyph
    };
    let glyphs = text.chars().map(glyph).collect();
    (glyphs, at)
}

/// Returns the distance from the anchor point down to the baseline.
pub(super) fn baseline(size: f64, anchor: &Pos) -> f64 {
    size * f64::from(match anchor.v_pos {
        VPos::Top => ASCENT,
        // Capital letters and digits are centred at the anchor point, not the whole line.
        VPos::Center => CAPITAL / 2.0,
        VPos::Bottom => ASCENT - 1.0,
    })
}

/// Calls `pixel` with the position of each pixel of a text, relative to its anchor point, and with
/// the covered part of the pixel, 0 to 1.
pub(super) fn rasterize(text: &str, size: f64, anchor: &Pos, mut pixel: impl FnMut(i32, i32, f64)) {
    let Some(font) = font(size) else { return };
    let (glyphs, width) = layout(text, size);
    let left = match anchor.h_pos {
        HPos::Left => 0.0,
        HPos::Center => -width / 2.0,
        HPos::Right => -width,
    };
    // Horizontal strokes are sharp if the baseline is between two rows of pixels.
    let baseline = baseline(size, anchor).round() as f32;
    for mut glyph in glyphs {
        glyph.position.x += left;
        glyph.position.y = baseline;
        let Some(outline) = font.outline_glyph(glyph) else {
            continue;
        };
        let corner = outline.px_bounds().min;
        outline.draw(|x, y, covered| {
            pixel(
                corner.x as i32 + x as i32,
                corner.y as i32 + y as i32,
                f64::from(covered.clamp(0.0, 1.0)),
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_grows_with_the_text_and_the_size() {
        assert_eq!(width("", 12), 0.0);
        assert!((width("node00001", 24) - 2.0 * width("node00001", 12)).abs() < 1e-3);
        assert!(
            (width("iiii", 12) - 4.0 * width("i", 12)).abs() < 1e-3
                && width("W", 12) > 2.0 * width("i", 12)
        );
    }

    /// At all sizes, the distances between equal letters differ by less than a pixel.
    #[test]
    fn letters_have_even_distances() {
        for size in 9..=20 {
            let mut columns = vec![0.0; 200];
            rasterize(
                "llllllll",
                f64::from(size),
                &Pos::new(HPos::Left, VPos::Top),
                |x, _, covered| columns[x as usize] += covered,
            );
            let whole: f64 = columns.iter().sum();
            let centre = |letter: usize| {
                let advance = width("l", size);
                let range = (letter as f64 * advance) as usize
                    ..((letter + 1) as f64 * advance).ceil() as usize;
                let sum: f64 = columns[range.clone()].iter().sum();
                assert!(
                    (sum - whole / 8.0).abs() < whole / 8.0,
                    "letter {letter}, size {size}"
                );
                range.map(|x| x as f64 * columns[x]).sum::<f64>() / sum
            };
            let distances: Vec<f64> = (1..8)
                .map(|letter| centre(letter) - centre(letter - 1))
                .collect();
            let advance = width("l", size);
            assert!(
                distances
                    .iter()
                    .all(|distance| (distance - advance).abs() < 0.75),
                "size {size}: {distances:?} for {advance}"
            );
        }
    }
}
