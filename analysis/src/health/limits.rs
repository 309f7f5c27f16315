//! The limits of bit errors of a link, and what they follow from.
//!
//! NVIDIA's InfiniBand Cluster Bring-up Procedure has limits for two kinds of error correction
//! (FEC): low latency with PLR, and standard (KP4). The active FEC decides which of them hold. If
//! it was not read, or if the table lacks it, the medium decides: the table names optical cables of
//! more than 100 m for the standard FEC. A text states which of these it was.

use std::fmt;

use ibnet_record::registers::port::fec_name;
use serde::{Deserialize, Serialize};

use super::inventory::{ACTIVE, Module, OPTICAL};

/// Length in meters from which on optical cables have the limits of the standard FEC.
const LONG_M: f64 = 100.0;

/// Numbers of the FECs in the table: low latency with PLR, and standard.
const LOW_LATENCY: [u32; 3] = [13, 14, 15];
const STANDARD: [u32; 1] = [7];

/// Limits of the ratios of bit errors: for a warning and for a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    is_standard: bool,
    basis: Basis,
}

/// What limits follow from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
enum Basis {
    /// Neither the FEC nor the medium was read.
    #[default]
    Nothing,
    /// The medium, because the FEC was not read.
    Medium,
    /// The medium, because the table does not have the active FEC.
    OtherFec(u32),
    /// The active FEC.
    Fec(u32),
}

impl Limits {
    /// Returns the limits of a link. Those of a link without a `module` record are the higher ones.
    pub fn of(module: &Module) -> Self {
        let is_optical = matches!(module.cable_type, Some(ACTIVE | OPTICAL));
        let is_long = is_optical && module.length_m.is_some_and(|length| length > LONG_M);
        let (is_standard, basis) = match module.fec {
            Some(fec) if LOW_LATENCY.contains(&fec) => (false, Basis::Fec(fec)),
            Some(fec) if STANDARD.contains(&fec) => (true, Basis::Fec(fec)),
            Some(fec) => (is_long, Basis::OtherFec(fec)),
            None if module.cable_type.is_some() => (is_long, Basis::Medium),
            None => (false, Basis::Nothing),
        };
        Self { is_standard, basis }
    }

    /// Returns the limits of the errors that the FEC left.
    pub const fn effective(&self) -> [f64; 2] {
        if self.is_standard {
            [5e-15, 1e-14]
        } else {
            [5e-12, 1e-11]
        }
    }

    /// Returns the limits of the errors that PLR left too.
    pub const fn symbol(&self) -> [f64; 2] {
        [5e-15, 1e-14]
    }

    /// Returns whether the limits do not follow from the active FEC.
    pub const fn is_assumed(&self) -> bool {
        !matches!(self.basis, Basis::Fec(_))
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.basis {
            Basis::Fec(fec) => write!(f, "active FEC {}", fec_name(fec)),
            Basis::OtherFec(fec) => write!(f, "medium, no limit for FEC {}", fec_name(fec)),
            Basis::Medium => f.write_str("medium, FEC not read"),
            Basis::Nothing => f.write_str("assumed short cable, FEC and module not read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_fec_decides_before_the_medium() {
        let of = |fec, cable_type, length_m| {
            let limits = Limits::of(&Module {
                fec,
                cable_type,
                length_m,
                ..Module::default()
            });
            (limits.effective()[1], limits.to_string())
        };
        let (short, long) = ((Some(ACTIVE), Some(30.0)), (Some(ACTIVE), Some(120.0)));
        for (fec, (cable, length), limit, text) in [
            (Some(13), long, 1e-11, "active FEC RS(271,257) with PLR"),
            (Some(7), short, 1e-14, "active FEC RS(544,514)"),
            (
                Some(2),
                short,
                1e-11,
                "medium, no limit for FEC RS(528,514)",
            ),
            (Some(2), long, 1e-14, "medium, no limit for FEC RS(528,514)"),
            (Some(23), short, 1e-11, "medium, no limit for FEC number 23"),
            (None, long, 1e-14, "medium, FEC not read"),
            (
                None,
                (None, None),
                1e-11,
                "assumed short cable, FEC and module not read",
            ),
        ] {
            assert_eq!(of(fec, cable, length), (limit, text.to_owned()));
        }
    }
}
