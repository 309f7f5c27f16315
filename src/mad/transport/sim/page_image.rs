//! A page of a register that is written by the names of its fields.

use ibnet_record::registers::{Page, Register};

use crate::mad::vendor::register::Image;

/// A page that is written by the names of its fields.
pub(super) struct PageImage {
    register: &'static Register,
    pub(super) image: Image,
}

impl PageImage {
    pub(super) fn new(page: Page) -> Self {
        Self {
            register: page.register(),
            image: Image::default(),
        }
    }

    pub(super) fn set(&mut self, name: &str, values: &[u64]) {
        if let Some(field) = self.register.field(name) {
            for (index, value) in (0..field.len).zip(values) {
                self.image.set(field, index, *value);
            }
        }
    }

    pub(super) fn set_text(&mut self, name: &str, text: &str) {
        if let Some(field) = self.register.field(name) {
            self.image.set_text(field, text);
        }
    }

    /// Sets a bit error ratio: the coefficient and the magnitude with this prefix.
    pub(super) fn set_ber(&mut self, prefix: &str, ratio: f64) {
        // Devices report a ratio of 0 as 15e-255.
        let (coefficient, magnitude) = if ratio > 0.0 {
            let magnitude = -ratio.log10().floor();
            (
                (ratio * 10.0_f64.powf(magnitude)).round().min(15.0) as u64,
                magnitude as u64,
            )
        } else {
            (15, 255)
        };
        self.set(&format!("{prefix}_coef"), &[coefficient]);
        self.set(&format!("{prefix}_magnitude"), &[magnitude]);
    }
}
