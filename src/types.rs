//! The vocabulary of the house: GUIDs, LIDs, port numbers, kinds of nodes, widths and speeds of links.
//!
//! Newtypes instead of bare integers, each with the textual form that rdma-core's tools print. Imports nothing of this crate.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A 64-bit globally unique identifier (IBA vol. 1, 4.1.1), printed as `0x` and 16 digits, as `ibnetdiscover -p` does.
///
/// ```
/// # use ibnet::types::Guid;
/// let guid: Guid = "0x0002c9030045fd01".parse()?;
/// assert_eq!(guid.to_string(), "0x0002c9030045fd01");
/// # Ok::<(), ibnet::types::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid(pub u64);

/// A local identifier, 16 bits (IBA vol. 1, 4.1.3). Unicast LIDs are 1 to 49151; 0 means that none is assigned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lid(pub u16);

/// A port number of a node: 1 to 254; 0 is a switch's management port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortNum(pub u8);

/// The low 32 bits of a MAD's transaction identifier: the half that is ours (the kernel writes the upper one).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tid(pub u32);

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A switch: one LID, one agent that answers for all of its ports.
    Switch,
    /// A port of a host channel adapter: each has a LID of its own.
    Hca,
    /// A port of a router.
    Router,
}

/// A text that is not what it should be; says what was found and what was expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{found:?} is not {expected}")]
pub struct ParseError {
    /// The text, as it stood there.
    pub found: String,
    /// What should have stood there.
    pub expected: &'static str,
}

impl ParseError {
    /// Says that `found` should have been `expected`.
    pub fn new(found: impl Into<String>, expected: &'static str) -> Self {
        Self { found: found.into(), expected }
    }
}

impl Lid {
    /// The greatest unicast LID (IBA vol. 1, 4.1.3).
    pub const MAX_UNICAST: Self = Self(0xbfff);

    /// Whether a packet can be addressed to it: neither 0 nor a multicast or the permissive LID.
    pub const fn is_unicast(self) -> bool {
        self.0 >= 1 && self.0 <= Self::MAX_UNICAST.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Guid {
    type Err = ParseError;

    /// Reads `0x` and exactly 16 hexadecimal digits: a shorter number is a line that was cut.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new(text, "a GUID (0x and 16 hexadecimal digits)");
        let digits = text.strip_prefix("0x").ok_or_else(wrong)?;
        if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u64::from_str_radix(digits, 16).map(Self).map_err(|_| wrong())
    }
}

impl Serialize for Guid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Guid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PortNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl NodeKind {
    /// The word of the records: `switch`, `hca`, `router`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Hca => "hca",
            Self::Router => "router",
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Width and speed of a link as `ibnetdiscover` prints them. A text that this version does not know is kept and breaks nothing.
///
/// ```
/// # use ibnet::types::LinkRate;
/// assert_eq!(LinkRate::new("4x", "EDR").data_gbps(), Some(100.0));
/// assert_eq!(LinkRate::new("4x", "???").data_gbps(), None);
/// assert_eq!(LinkRate::new("2x", "HDR").to_string(), "2xHDR");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkRate {
    /// `1x`, `2x`, `4x`, `8x`, `12x`, or `??` where PortInfo was not answered.
    pub width: Box<str>,
    /// `SDR` to `XDR`, or `???`.
    pub speed: Box<str>,
}

/// Data rate of one lane in Gb/s after the line code, and what goes over the wire, by the name that `ibnetdiscover` prints (IBA vol. 2; a lane
/// of FDR carries 14.0625 x 64/66, of HDR 53.125 x 514/544 x 256/257).
const LANE_GBPS: [(&str, f64, f64); 9] = [
    ("SDR", 2.0, 2.5),
    ("DDR", 4.0, 5.0),
    ("QDR", 8.0, 10.0),
    ("FDR10", 10.0, 10.3125),
    ("FDR", 14.0625 * 64.0 / 66.0, 14.0625),
    ("EDR", 25.0, 25.78125),
    ("HDR", 50.0, 53.125),
    ("NDR", 100.0, 106.25),
    ("XDR", 200.0, 212.5),
];

impl LinkRate {
    /// Takes both words as they stand.
    pub fn new(width: &str, speed: &str) -> Self {
        Self { width: width.into(), speed: speed.into() }
    }

    /// What goes over the wire, line code and all, in Gb/s; `None` where either word is unknown.
    pub fn signal_gbps(&self) -> Option<f64> {
        let lanes = self.lanes()?;
        LANE_GBPS.iter().find(|(name, ..)| *name == &*self.speed).map(|(_, _, lane)| lanes * lane)
    }

    /// How many lanes; `None` where the word is unknown.
    pub fn lanes(&self) -> Option<f64> {
        match &*self.width {
            "1x" => Some(1.0),
            "2x" => Some(2.0),
            "4x" => Some(4.0),
            "8x" => Some(8.0),
            "12x" => Some(12.0),
            _ => None,
        }
    }

    /// Lanes times the data rate of a lane, in Gb/s; `None` where either word is unknown.
    pub fn data_gbps(&self) -> Option<f64> {
        let lanes = self.lanes()?;
        LANE_GBPS.iter().find(|(name, ..)| *name == &*self.speed).map(|(_, lane, _)| lanes * lane)
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.width, self.speed)
    }
}

/// Which HCA port of this host to send from, as a person names it: nothing (the only active one), `mlx5_0` or `mlx5_0:1`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HcaName {
    /// The adapter.
    pub ca: Option<String>,
    /// Its port.
    pub port: Option<PortNum>,
}

impl fmt::Display for HcaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ca = self.ca.as_deref().unwrap_or("*");
        match self.port {
            Some(port) => write!(f, "{ca}:{port}"),
            None => f.write_str(ca),
        }
    }
}

impl FromStr for HcaName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new(text, "an HCA and its port, such as mlx5_0 or mlx5_0:1");
        let (ca, port) = match text.split_once(':') {
            Some((ca, port)) => (ca, Some(PortNum(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?))),
            None => (text, None),
        };
        match (ca, port) {
            ("", None) => Ok(Self::default()),
            ("", Some(_)) => Err(wrong()),
            (ca, port) => Ok(Self { ca: Some(ca.to_owned()), port }),
        }
    }
}

/// Shows a name that a stranger wrote: control characters are escaped, so that no terminal obeys a node description.
///
/// ```
/// # use ibnet::types::Printable;
/// assert_eq!(Printable("node1\u{1b}[2J").to_string(), "node1\\u{1b}[2J");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

/// No control characters, and yet no character that shows: marks that change the direction in which the rest of a line reads, that break it, or that
/// take no room, so that two names look alike.
const MISLEADING: [RangeInclusive<char>; 9] = [
    '\u{ad}'..='\u{ad}',
    '\u{61c}'..='\u{61c}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{e0000}'..='\u{e007f}',
];

/// Whether a character does not show as itself, or changes how others do: no line for people and no terminal should see it as it is.
pub fn misleads(c: char) -> bool {
    // Most are plain.
    !matches!(c, ' '..='~') && (c.is_control() || MISLEADING.iter().any(|range| range.contains(&c)))
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.contains(misleads) {
            return f.pad(self.0);
        }
        let mut shown = String::with_capacity(self.0.len() + 16);
        for c in self.0.chars() {
            if misleads(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
        }
        f.pad(&shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_has_sixteen_digits_or_is_refused() {
        assert_eq!("0x7cfe9003003b4bde".parse(), Ok(Guid(0x7cfe_9003_003b_4bde)));
        for cut in ["0x7cfe9003003b4bd", "7cfe9003003b4bde", "0x", "", "0x7cfe9003003b4bdef", "0x+cfe9003003b4bde"] {
            assert!(cut.parse::<Guid>().is_err(), "{cut:?} was taken for a GUID");
        }
    }

    #[test]
    fn an_hca_is_named_with_or_without_its_port() {
        for text in ["mlx5_0", "mlx5_0:1"] {
            assert_eq!(text.parse::<HcaName>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("".parse(), Ok(HcaName::default()));
        for text in ["mlx5_0:", "mlx5_0:x", ":1", "mlx5_0:0", "mlx5_0:300"] {
            assert!(text.parse::<HcaName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_does_not_show_is_escaped_and_what_does_stands() {
        for c in "\0\r\n\t\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{202e}\u{2028}\u{2060}\u{2069}\u{feff}\u{fff9}\u{e0041}".chars() {
            assert_eq!(Printable(&format!("a{c}")).to_string(), format!("a{}", c.escape_unicode()));
        }
        for shown in ["leaf (rack 3) - 'A' \"1\" \\", "Zürich-ノード-\u{1f409}", "\u{fffd}", ""] {
            assert_eq!(Printable(shown).to_string(), shown);
        }
    }

    #[test]
    fn unicast_lids_end_at_49151() {
        assert!(!Lid(0).is_unicast());
        assert!(Lid(1).is_unicast());
        assert!(Lid(49151).is_unicast());
        assert!(!Lid(49152).is_unicast());
    }

    #[test]
    fn data_rates_are_those_after_the_line_code() {
        let four = |speed| LinkRate::new("4x", speed).data_gbps().expect("a known speed");
        for (speed, gbps) in
            [("SDR", 8.0), ("DDR", 16.0), ("QDR", 32.0), ("FDR10", 40.0), ("EDR", 100.0), ("HDR", 200.0), ("NDR", 400.0), ("XDR", 800.0)]
        {
            assert_eq!(four(speed), gbps, "{speed}");
        }
        assert!((four("FDR") - 54.5455).abs() < 1e-4);
        assert_eq!(LinkRate::new("??", "EDR").data_gbps(), None);
        assert_eq!(LinkRate::new("4x", "GDR").data_gbps(), None);
    }
}
