//! Colours as readers with each kind of colour vision see them.

use super::*;

/// Linear red, green and blue, 0 to 1.
type Linear = [f64; 3];

/// What a reader without one kind of cones sees: matrices of severity 1.0 by G. Machado, M.
/// Oliveira and L. Fernandes, *A Physiologically-based Model for Simulation of Color Vision
/// Deficiency* (IEEE TVCG 15, 2009), for linear colours.
const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
    (
        "all cones",
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ),
    (
        "protanopia",
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ),
];

fn linear((red, green, blue): Rgb) -> Linear {
    [red, green, blue].map(|channel| {
        let share = f64::from(channel) / 255.0;
        if share <= 0.04045 {
            share / 12.92
        } else {
            ((share + 0.055) / 1.055).powf(2.4)
        }
    })
}

fn times(matrix: &[[f64; 3]; 3], vector: Linear) -> Linear {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum::<f64>())
}

/// Returns lightness, a and b of CIE 1976 for the white of sRGB.
fn lab(color: Linear) -> [f64; 3] {
    const XYZ: [[f64; 3]; 3] = [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ];
    const WHITE: [f64; 3] = [0.9505, 1.0, 1.0890];
    let xyz = times(&XYZ, color.map(|channel| channel.clamp(0.0, 1.0)));
    let root = |value: f64| {
        if value > 0.008856 {
            value.cbrt()
        } else {
            7.787 * value + 16.0 / 116.0
        }
    };
    let [x, y, z] = [0, 1, 2].map(|axis| root(xyz[axis] / WHITE[axis]));
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn seen(matrix: &[[f64; 3]; 3], color: Rgb) -> [f64; 3] {
    lab(times(matrix, linear(color)))
}

/// Difference of two colours (CIE 1976); about 2.3 is just noticeable.
fn difference(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).powi(2))
        .sum::<f64>()
        .sqrt()
}

#[test]
fn colors_cover_the_range() {
    assert_eq!(
        [-1.0, 0.0, 0.1, 1.0, 9.0].map(color),
        [VIRIDIS[0], VIRIDIS[0], VIRIDIS[1], VIRIDIS[10], VIRIDIS[10]]
    );
    assert_eq!(
        (color(0.05), color(f64::NAN)),
        ((0x46, 0x13, 0x65), VIRIDIS[0])
    );
}

#[test]
fn lightness_increases_for_every_kind_of_colour_vision() {
    for (vision, matrix) in VISIONS {
        let colors: Vec<_> = (0..=100)
            .map(|share| seen(&matrix, color(f64::from(share) / 100.0)))
            .collect();
        assert!(
            colors.windows(2).all(|pair| pair[1][0] > pair[0][0]),
            "{vision}"
        );
        let least = colors
            .windows(11)
            .map(|part| difference(part[0], part[10]))
            .fold(f64::INFINITY, f64::min);
        assert!(
            least > 5.0,
            "{vision}: a tenth of the range differs by {least}"
        );
    }
}

#[test]
fn curves_differ_for_every_kind_of_colour_vision() {
    for (vision, matrix) in VISIONS {
        for (index, first) in LINES.iter().enumerate() {
            for second in &LINES[index + 1..] {
                let difference = difference(seen(&matrix, *first), seen(&matrix, *second));
                assert!(
                    difference > 10.0,
                    "{vision}: {first:?} and {second:?} differ by {difference}"
                );
            }
        }
    }
}

#[test]
fn neighbouring_series_differ_for_every_kind_of_colour_vision() {
    let colors: Vec<Rgb> = (0..SERIES).map(series).collect();
    assert_eq!(colors[..LINES.len()], LINES);
    for (vision, matrix) in VISIONS {
        for (index, first) in colors.iter().enumerate() {
            for (other, second) in colors.iter().enumerate().skip(index + 1) {
                let difference = difference(seen(&matrix, *first), seen(&matrix, *second));
                // Series that are not neighbours are found by their order in the legend.
                let least = if other == index + 1 { 9.0 } else { 2.3 };
                assert!(
                    difference > least,
                    "{vision}: {index} {first:?} and {other} {second:?} differ by {difference}"
                );
            }
        }
    }
}
