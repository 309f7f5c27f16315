//! Thresholds of error counters, and their names in arguments.

use ibnet::types::Printable;

use crate::ports::ERRORS;

/// Thresholds of the counters in [`ERRORS`]: a larger increase is reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thresholds([u64; ERRORS.len()]);

/// Index of `port_rcv_switch_relay_errors` in [`ERRORS`].
const SWITCH_RELAY_ERRORS: usize = 13;

impl Default for Thresholds {
    /// Returns 0 for all counters except `port_rcv_switch_relay_errors`, which gets 100. Switches
    /// also count packets in this counter that they discard by design, such as a multicast packet
    /// whose only output is the port that received it.
    fn default() -> Self {
        let mut thresholds = Self([0; ERRORS.len()]);
        thresholds.0[SWITCH_RELAY_ERRORS] = 100;
        thresholds
    }
}

/// A malformed threshold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, miette::Diagnostic)]
pub enum ThresholdError {
    /// The text is not `NAME=N`.
    #[error("cannot read the threshold `{}`: expected NAME=N", Printable(found))]
    #[diagnostic(help("write a counter and a number, such as `symbol_error_counter=10`; larger increases are shown"))]
    Form {
        /// The text.
        found: String,
    },
    /// No error counter has this name.
    #[error("cannot set a threshold for `{}`: there is no error counter of this name", Printable(found))]
    #[diagnostic(help("the most similar name is `{}`; the counters are {}", nearest, ERRORS.join(", ")))]
    Name {
        /// The name.
        found: String,
        /// The counter with the most similar name.
        nearest: &'static str,
    },
}

impl Thresholds {
    /// Returns the threshold of the counter at this index of [`ERRORS`].
    pub(super) const fn of(&self, index: usize) -> u64 {
        self.0[index]
    }

    /// Sets a threshold from `NAME=N`. The name is that of the records or of `perfquery`, or `all`.
    ///
    /// # Errors
    /// Returns an error if the text is malformed or names no error counter.
    pub fn set(&mut self, text: &str) -> Result<(), ThresholdError> {
        let (name, number) = text
            .split_once('=')
            .and_then(|(name, number)| Some((name.trim(), number.trim().parse().ok()?)))
            .ok_or_else(|| ThresholdError::Form { found: text.to_owned() })?;
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let matches = |known: &str| [plain(name), plain(name) + "counter", plain(name) + "errors"].contains(&plain(known));
        if name == "all" {
            self.0 = [number; ERRORS.len()];
        } else if let Some(index) = ERRORS.iter().position(|known| matches(known)) {
            self.0[index] = number;
        } else {
            let similarity = |known: &str| strsim::jaro(&plain(name), &plain(known));
            let nearest = ERRORS.into_iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b))).unwrap_or(ERRORS[0]);
            return Err(ThresholdError::Name { found: name.to_owned(), nearest });
        }
        Ok(())
    }
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
        assert_eq!(thresholds, Thresholds([7; ERRORS.len()]));
        assert_eq!(thresholds.set("symbols=1"), Err(ThresholdError::Name { found: "symbols".to_owned(), nearest: "symbol_error_counter" }));
        for text in ["symbol_error_counter", "symbol_error_counter=-1", "=", ""] {
            assert!(thresholds.set(text).is_err(), "{text}");
        }
    }
}
