//! Why a link went down: page [`LinkDown`](super::Page::LinkDown) as text.

use std::fmt::{self, Display, Formatter};

/// The number from which [`e2e_reason_opcode`](super::pddr::LINK_DOWN) is a reason of the other
/// end.
const REMOTE: u64 = 100;

/// A reason for which a link goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reason {
    /// Number in the register.
    pub number: u8,
    /// What it means.
    pub text: &'static str,
    /// Whether it is the work of an administrator or of a host that restarts. It counts only if the
    /// device does not report the intention.
    pub is_command: bool,
}

const fn fault(number: u8, text: &'static str) -> Reason {
    Reason {
        number,
        text,
        is_command: false,
    }
}

const fn command(number: u8, text: &'static str) -> Reason {
    Reason {
        number,
        text,
        is_command: true,
    }
}

/// The reasons whose meaning is public, by number.
pub static REASONS: &[Reason] = &[
    fault(0, "none"),
    fault(1, "unknown to the device"),
    fault(2, "high bit error ratio"),
    fault(3, "block lock lost"),
    fault(4, "alignment lost"),
    fault(5, "FEC synchronization lost"),
    fault(6, "PLL lock lost"),
    fault(7, "FIFO overflow"),
    fault(8, "false SKIP"),
    fault(9, "minor error threshold"),
    fault(10, "PLR timeout"),
    fault(11, "heartbeat errors"),
    fault(12, "credit watchdog"),
    fault(13, "link integrity threshold"),
    fault(14, "buffer overrun"),
    command(15, "out-of-band command, link healthy"),
    fault(16, "out-of-band command, high bit error ratio"),
    command(17, "in-band command, link healthy"),
    fault(18, "in-band command, high bit error ratio"),
    fault(19, "verification gateway"),
    fault(20, "remote fault"),
    fault(21, "training (TS1)"),
    command(22, "management command"),
    fault(23, "cable unplugged"),
    fault(24, "cable cannot be accessed"),
    fault(25, "thermal shutdown"),
    fault(26, "current"),
    fault(27, "power budget"),
    fault(28, "fast recovery: raw bit error ratio"),
    fault(29, "fast recovery: effective bit error ratio"),
    fault(30, "fast recovery: symbol bit error ratio"),
    fault(31, "fast recovery: credit watchdog"),
    command(32, "the peer sleeps"),
    command(33, "the peer was disabled"),
    command(34, "the peer was disabled and locked"),
    fault(35, "thermal event of the peer"),
    fault(36, "the peer was forced down"),
    command(37, "the peer was reset"),
    command(38, "reset without power cycle"),
    fault(39, "fast recovery: PLR"),
    fault(40, "forced down by the hardware"),
    fault(42, "exit from L1"),
    fault(43, "too many recoveries"),
    fault(44, "contain mode"),
    fault(45, "bandwidth lost"),
    fault(46, "external laser (ELS)"),
    fault(47, "high symbol error ratio (SER)"),
    command(48, "command of NMX"),
    fault(50, "local fault"),
    fault(51, "interruption"),
    fault(58, "bandwidth lost in a recovery"),
    fault(59, "contain mode of the peer"),
    fault(60, "unexpected reset of the module"),
    fault(61, "contain mode, receiver"),
    fault(62, "contain mode, transmitter"),
];

/// Returns the reason with this number, if its meaning is public.
pub fn reason(number: u8) -> Option<&'static Reason> {
    REASONS.iter().find(|reason| reason.number == number)
}

/// Returns the rows of all reasons for `docs/inside/registers.md`.
pub fn markdown() -> String {
    let row = |reason: &Reason| {
        let mark = if reason.is_command { "yes" } else { "" };
        format!("| {} | {} | {mark} |\n", reason.number, reason.text)
    };
    let rows: String = REASONS.iter().map(row).collect();
    format!("| number | reason | command |\n|---|---|---|\n{rows}")
}

words! {
    /// The end of a link that a device blames.
    pub enum Blame {
        /// The device does not know it.
        Unknown = "unknown",
        /// The end whose device reports.
        Local = "this end",
        /// The other end.
        Remote = "the other end",
    }
}

/// Why a link went down, as the device at one end reports it. It prints as one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkDown {
    /// Number of the reason: see [`REASONS`].
    pub reason: u8,
    /// Whether it is the reason of the other end.
    pub is_remote: bool,
    /// The end that the device blames.
    pub blame: Blame,
    /// Whether it was intended. `None` if the device does not report it and the reason is no
    /// command.
    pub is_intended: Option<bool>,
    /// State of the last recovery, and the reason for which it began. 0 means none.
    pub recovery: (u64, u64),
}

impl LinkDown {
    /// Finds the reason in the values of a record. `integer` returns a value by its name. Returns
    /// `None` if the record does not have the page.
    pub fn of(integer: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        let [local, remote, e2e] = [
            "local_reason_opcode",
            "remote_reason_opcode",
            "e2e_reason_opcode",
        ]
        .map(&integer);
        let (local, remote, e2e) = (local?, remote?, e2e?);
        let or_zero = |name| integer(name).unwrap_or(0);
        let blame = match or_zero("down_blame") {
            1 => Blame::Local,
            2 => Blame::Remote,
            _ => Blame::Unknown,
        };
        let prefers_remote = blame == Blame::Remote && remote > 0 || local == 0;
        let (number, is_remote) = match e2e {
            0 if prefers_remote => (remote, remote > 0),
            0 => (local, false),
            REMOTE.. => (e2e - REMOTE, true),
            _ => (e2e, false),
        };
        let number = number as u8;
        let is_intended = match or_zero("down_intent") {
            1 => Some(true),
            2 => Some(false),
            _ => reason(number)
                .filter(|reason| reason.is_command)
                .map(|_| true),
        };
        Some(Self {
            reason: number,
            is_remote,
            blame,
            is_intended,
            recovery: (
                or_zero("last_recovery_state"),
                or_zero("recovery_entry_reason"),
            ),
        })
    }
}

/// Returns the number and the text of a reason.
pub fn named(number: u8) -> String {
    let text = reason(number).map_or("no public meaning", |reason| reason.text);
    format!("{number} ({text})")
}

/// Text between the reason and whether it was intended.
const INTENDED: &str = ", intended: ";

/// Returns whether a link went down on purpose, from the detail of the event `link_down_reason`,
/// which begins with a printed [`LinkDown`]. Returns `None` if the device does not report it.
pub fn intended(detail: &str) -> Option<bool> {
    match detail.split_once(INTENDED)?.1.split(',').next()? {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

impl Display for LinkDown {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let of = if self.is_remote {
            " of the other end"
        } else {
            ""
        };
        let intended = match self.is_intended {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        write!(
            f,
            "reason {}{of}{INTENDED}{intended}, blamed: {}",
            named(self.reason),
            self.blame
        )?;
        match self.recovery {
            (0, 0) => Ok(()),
            (state, entry) => write!(f, ", last recovery: state {state}, entered for {entry}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, u64)]) -> Option<LinkDown> {
        let known = |name: &str| values.iter().find(|(known, _)| *known == name);
        LinkDown::of(|name| known(name).map(|(_, value)| *value))
    }

    fn page(local: u64, remote: u64, e2e: u64, blame: u64, intent: u64) -> String {
        of(&[
            ("local_reason_opcode", local),
            ("remote_reason_opcode", remote),
            ("e2e_reason_opcode", e2e),
            ("down_blame", blame),
            ("down_intent", intent),
        ])
        .expect("the page is there")
        .to_string()
    }

    #[test]
    fn reason_is_that_of_the_end_which_the_device_names() {
        assert_eq!(
            page(23, 0, 23, 1, 2),
            "reason 23 (cable unplugged), intended: no, blamed: this end"
        );
        assert_eq!(
            page(20, 37, 137, 2, 1),
            "reason 37 (the peer was reset) of the other end, intended: yes, blamed: the other end"
        );
        // Firmware without the end-to-end reason and without the intention.
        assert_eq!(
            page(20, 22, 0, 2, 0),
            "reason 22 (management command) of the other end, intended: yes, blamed: the other end"
        );
        assert_eq!(
            page(2, 22, 0, 1, 0),
            "reason 2 (high bit error ratio), intended: unknown, blamed: this end"
        );
        assert_eq!(
            page(0, 0, 0, 0, 0),
            "reason 0 (none), intended: unknown, blamed: unknown"
        );
        assert_eq!(
            page(255, 0, 0, 0, 2),
            "reason 255 (no public meaning), intended: no, blamed: unknown"
        );
        assert_eq!(of(&[("down_blame", 1)]), None);
    }

    #[test]
    fn intention_is_read_from_the_text() {
        for (intent, expected) in [(0, None), (1, Some(true)), (2, Some(false))] {
            // Reasons 15 and 17 have a comma in their texts.
            let detail = page(2, 17, 0, 1, intent) + ", serial number SN7";
            assert_eq!(intended(&detail), expected, "{detail}");
        }
        assert_eq!(intended(&page(15, 0, 0, 1, 0)), Some(true));
        assert_eq!(intended("a text of another version"), None);
    }

    #[test]
    fn reasons_are_ordered_and_below_those_of_the_other_end() {
        assert!(REASONS.is_sorted_by(|a, b| a.number < b.number));
        assert!(
            REASONS
                .iter()
                .all(|reason| u64::from(reason.number) < REMOTE)
        );
    }
}
