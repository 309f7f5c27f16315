//! The palette viridis, which colour-blind readers can distinguish. Each colour is lighter than the
//! one before, so a greyscale print is readable too.

/// Red, green and blue.
pub type Rgb = (u8, u8, u8);

/// Viridis by S. van der Walt, N. Smith and E. Firing (CC0), in steps of a tenth.
const VIRIDIS: [Rgb; 11] = [
    (0x44, 0x01, 0x54),
    (0x48, 0x24, 0x75),
    (0x41, 0x44, 0x87),
    (0x35, 0x5f, 0x8d),
    (0x2a, 0x78, 0x8e),
    (0x21, 0x91, 0x8c),
    (0x22, 0xa8, 0x84),
    (0x44, 0xbf, 0x70),
    (0x7a, 0xd1, 0x51),
    (0xbd, 0xdf, 0x26),
    (0xfd, 0xe7, 0x25),
];

/// Returns the colour of a share of the range, 0 to 1. Values outside this range get the colour of
/// the nearer end.
pub fn color(share: f64) -> Rgb {
    let last = VIRIDIS.len() - 1;
    // NaN becomes 0.
    let position = (share.max(0.0) * last as f64).min(last as f64);
    let below = (position as usize).min(last - 1);
    let part = position - below as f64;
    let mixed = |from: u8, to: u8| {
        (f64::from(from) + part * (f64::from(to) - f64::from(from))).round() as u8
    };
    let (from, to) = (VIRIDIS[below], VIRIDIS[below + 1]);
    (
        mixed(from.0, to.0),
        mixed(from.1, to.1),
        mixed(from.2, to.2),
    )
}

/// Colours of curves by Okabe and Ito (2008), without yellow and black.
pub const LINES: [Rgb; 6] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
];

/// Largest number of series that [`series`] distinguishes.
pub const SERIES: usize = 3 * LINES.len();

/// Returns the colour of a series: those of [`LINES`], then a lighter and a darker shade of each.
/// Neighbouring shades have different hues and differ in lightness.
pub fn series(index: usize) -> Rgb {
    let (red, green, blue) = LINES[index % LINES.len()];
    let (other, part) = match index / LINES.len() % 3 {
        0 => (0.0, 0.0),
        round if (round + index).is_multiple_of(2) => (255.0, 0.6),
        _ => (0.0, 0.5),
    };
    let mixed = |own: u8| (f64::from(own) + part * (other - f64::from(own))).round() as u8;
    (mixed(red), mixed(green), mixed(blue))
}

#[cfg(test)]
mod tests;
