//! Thresholds of error counters, and how users set them.

use ibnet_record::types::Printable;
use ibnet_record::{ERROR_COUNTERS, suggest};

/// Thresholds of the counters in [`ERROR_COUNTERS`]. Only increases above the threshold are
/// reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thresholds([u64; ERROR_COUNTERS.len()]);

/// Index of `port_rcv_switch_relay_errors` in [`ERROR_COUNTERS`].
const SWITCH_RELAY_ERRORS: usize = 13;

impl Default for Thresholds {
    /// Returns 0 for all counters except `port_rcv_switch_relay_errors`, which gets 100, because
    /// switches also count packets there that they discard by design, for example a multicast
    /// packet whose only output is the port at which it arrived.
    fn default() -> Self {
        let mut thresholds = Self([0; ERROR_COUNTERS.len()]);
        thresholds.0[SWITCH_RELAY_ERRORS] = 100;
        thresholds
    }
}

/// Reason why a threshold is rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, miette::Diagnostic)]
pub enum ThresholdError {
    /// The text is not `NAME=N`.
    #[error("cannot read the threshold `{}`: expected NAME=N", Printable(found))]
    #[diagnostic(help(
        "write a counter and a number, such as `symbol_error_counter=10`; larger increases are shown"
    ))]
    Form {
        /// The text.
        found: String,
    },
    /// No error counter has this name.
    #[error(
        "cannot set a threshold for `{}`: there is no error counter of this name",
        Printable(found)
    )]
    #[diagnostic(help("{}the counters are {}", nearest.map_or_else(String::new, |name| format!("did you mean `{name}`? ")), ERROR_COUNTERS.join(", ")))]
    Name {
        /// The name.
        found: String,
        /// The name that was probably meant.
        nearest: Option<&'static str>,
    },
}

impl Thresholds {
    /// Returns the threshold of the counter at this index of [`ERROR_COUNTERS`].
    pub(super) const fn of(&self, index: usize) -> u64 {
        self.0[index]
    }

    /// Sets a threshold from `NAME=N`, where the name is that of the records or of `perfquery`,
    /// or `all`.
    ///
    /// # Errors
    /// Returns an error if the text is malformed or names no error counter.
    pub fn set(&mut self, text: &str) -> Result<(), ThresholdError> {
        let (name, number) = text
            .split_once('=')
            .and_then(|(name, number)| Some((name.trim(), number.trim().parse().ok()?)))
            .ok_or_else(|| ThresholdError::Form {
                found: text.to_owned(),
            })?;
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let matches = |known: &str| {
            [plain(name), plain(name) + "counter", plain(name) + "errors"].contains(&plain(known))
        };
        if name == "all" {
            self.0 = [number; ERROR_COUNTERS.len()];
        } else if let Some(index) = ERROR_COUNTERS.iter().position(|known| matches(known)) {
            self.0[index] = number;
        } else {
            return Err(ThresholdError::Name {
                found: name.to_owned(),
                nearest: suggest::nearest(&snake_case(name), &ERROR_COUNTERS),
            });
        }
        Ok(())
    }
}

/// Converts a name of `perfquery`, such as `SymbolErrors`, to the form of the records.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut last = '_';
    for c in name.chars() {
        if c.is_uppercase() && (last.is_lowercase() || last.is_ascii_digit()) {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
        last = c;
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_accept_any_name_of_a_counter() {
        let mut thresholds = Thresholds::default();
        for (text, index) in [
            ("symbol_error_counter=30", 2),
            ("SymbolErrorCounter = 30", 2),
            ("PortXmitDiscards=1000", 14),
            ("port_sw_hoq_lifetime_limit_discards=500", 18),
        ] {
            thresholds.set(text).expect("a counter");
            assert!(thresholds.0[index] >= 30, "{text}");
        }
        thresholds.set("all=7").expect("all of them");
        assert_eq!(thresholds, Thresholds([7; ERROR_COUNTERS.len()]));
        for (found, nearest) in [
            ("symbols", Some("symbol_error_counter")),
            ("SymbolErrs", Some("symbol_error_counter")),
            ("crc", Some("symbol_error_counter")),
            ("XmitDrops", Some("port_xmit_discards")),
            ("flaps", Some("link_downed_counter")),
            ("RcvErr", Some("port_rcv_errors")),
            ("bogus", None),
        ] {
            let error = thresholds.set(&format!("{found}=1"));
            assert_eq!(
                error,
                Err(ThresholdError::Name {
                    found: found.to_owned(),
                    nearest
                })
            );
        }
        for text in ["symbol_error_counter", "symbol_error_counter=-1", "=", ""] {
            assert!(thresholds.set(text).is_err(), "{text}");
        }
    }
}
