//! Basic types of InfiniBand: GUIDs, LIDs, port numbers, kinds of nodes, widths and speeds of
//! links.
//!
//! Each type is a newtype instead of a plain integer. Its text form is the form that the tools of
//! rdma-core print. This module imports no other module of this crate, except a macro.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A 64-bit globally unique identifier (IBA vol. 1, 4.1.1). Its text form is `0x` and 16 digits, as
/// in the output of `ibnetdiscover -p`.
///
/// ```
/// # use ibnet_record::types::Guid;
/// let guid: Guid = "0x0002c9030045fd01".parse()?;
/// assert_eq!(guid.to_string(), "0x0002c9030045fd01");
/// # Ok::<(), ibnet_record::types::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid(pub u64);

/// A local identifier of 16 bits: the address of a device in its subnet (IBA vol. 1, 4.1.3).
/// Unicast LIDs are 1 to 49151. The value 0 means "not assigned".
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Lid(pub u16);

/// A port number of a node: 1 to 254. Port 0 is the management port of a switch.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PortNum(pub u8);

/// The low 32 bits of a MAD's transaction identifier. The kernel overwrites the high 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tid(pub u32);

words! {
    /// Kind of a node.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum NodeKind {
        /// A switch. It has one LID, and one agent that answers for all of its ports.
        Switch = "switch",
        /// A port of a host channel adapter (HCA). Each port has its own LID.
        Hca = "hca",
        /// A port of a router.
        Router = "router",
    }
}

/// Error for a text that does not have the expected form.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{found:?} is not {expected}")]
pub struct ParseError {
    /// The text.
    pub found: String,
    /// Description of the expected form.
    pub expected: &'static str,
}

impl ParseError {
    /// Creates an error for a text and the expected form.
    pub fn new(found: impl Into<String>, expected: &'static str) -> Self {
        Self {
            found: found.into(),
            expected,
        }
    }
}

impl Lid {
    /// The greatest unicast LID (IBA vol. 1, 4.1.3).
    pub const MAX_UNICAST: Self = Self(0xbfff);

    /// Returns whether the LID is unicast: neither 0, nor multicast, nor the permissive LID.
    pub const fn is_unicast(self) -> bool {
        self.0 >= 1 && self.0 <= Self::MAX_UNICAST.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Each record has two GUIDs, and a plan four for each port: `{:#018x}` takes ten times as
        // long.
        let mut text = *b"0x0000000000000000";
        for (place, digit) in text[2..].iter_mut().zip((0..16).rev()) {
            *place = b"0123456789abcdef"[(self.0 >> (4 * digit)) as usize & 0xf];
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Guid {
    type Err = ParseError;

    /// Parses `0x` and exactly 16 hexadecimal digits. Rejects a shorter number, because a truncated
    /// line can contain one.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new(text, "a GUID (0x and 16 hexadecimal digits)");
        let digits = text.strip_prefix("0x").ok_or_else(wrong)?;
        if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u64::from_str_radix(digits, 16)
            .map(Self)
            .map_err(|_| wrong())
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

/// The MTUs of a link in octets, in the order of their codes (IBA vol. 1, 14.2.5.6).
pub const MTUS: [u16; 5] = [256, 512, 1024, 2048, 4096];

/// The numbers of data VLs of a link, in the order of their codes: VL0, VL0-1, VL0-3, VL0-7, VL0-14
/// (IBA vol. 1, 14.2.5.6).
pub const DATA_VLS: [u8; 5] = [1, 2, 4, 8, 15];

/// Width and speed of a link, in the words of `ibnetdiscover`. Unknown words are kept.
///
/// ```
/// # use ibnet_record::types::LinkRate;
/// assert_eq!(LinkRate::new("4x", "EDR").data_gbps(), Some(100.0));
/// assert_eq!(LinkRate::new("4x", "???").data_gbps(), None);
/// assert_eq!(LinkRate::new("2x", "HDR").to_string(), "2xHDR");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkRate {
    /// `1x`, `2x`, `4x`, `8x`, `12x`, or `??` if the device did not answer PortInfo.
    pub width: Box<str>,
    /// `SDR` to `XDR`, or `???`.
    pub speed: Box<str>,
}

/// Data rate and signalling rate of one lane in Gb/s (IBA vol. 2). The key is the name that
/// `ibnetdiscover` prints. The data rate does not include the overhead of the line code. For
/// example, the data rate of an FDR lane is 14.0625 x 64/66, and of an HDR lane 53.125 x 514/544 x
/// 256/257.
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

/// What PortInfo reports about a port besides its link (IBA vol. 1, 14.2.5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortLimits {
    /// MTUCap in bytes. `None` for a reserved code.
    pub mtu_cap: Option<u16>,
    /// Number of data VLs of VLCap. `None` for a reserved code.
    pub vl_cap: Option<u8>,
    /// VLHighLimit.
    pub vl_high_limit: u8,
    /// VLStallCount.
    pub vl_stall_count: u8,
    /// HOQLife.
    pub hoq_life: u8,
    /// M_KeyViolations, P_KeyViolations and Q_KeyViolations.
    pub key_violations: [u16; 3],
}

impl LinkRate {
    /// Creates a rate from the words for width and speed. Does not check the words.
    pub fn new(width: &str, speed: &str) -> Self {
        Self {
            width: width.into(),
            speed: speed.into(),
        }
    }

    /// Data rate of the widest and fastest link (12x XDR), in Gb/s.
    pub const FASTEST_GBPS: f64 = 12.0 * 200.0;

    /// Returns the signalling rate of the link in Gb/s. It includes the line code. Returns `None`
    /// if a word is unknown.
    pub fn signal_gbps(&self) -> Option<f64> {
        let lanes = self.lanes()?;
        LANE_GBPS
            .iter()
            .find(|(name, ..)| *name == &*self.speed)
            .map(|(_, _, lane)| lanes * lane)
    }

    /// Returns the number of lanes, or `None` if the word is unknown.
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

    /// Returns the data rate of the link in Gb/s, or `None` if a word is unknown.
    pub fn data_gbps(&self) -> Option<f64> {
        let lanes = self.lanes()?;
        LANE_GBPS
            .iter()
            .find(|(name, ..)| *name == &*self.speed)
            .map(|(_, lane, _)| lanes * lane)
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.width, self.speed)
    }
}

/// The HCA port of this host that sends MADs, as the user writes it: `mlx5_0` or `mlx5_0:1`. An
/// empty text means the only active port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HcaName {
    /// Name of the HCA.
    pub ca: Option<String>,
    /// Port number.
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
            Some((ca, port)) => (
                ca,
                Some(PortNum(
                    port.parse()
                        .ok()
                        .filter(|port| *port > 0)
                        .ok_or_else(wrong)?,
                )),
            ),
            None => (text, None),
        };
        match (ca, port) {
            ("", None) => Ok(Self::default()),
            ("", Some(_)) => Err(wrong()),
            (ca, port) => Ok(Self {
                ca: Some(ca.to_owned()),
                port,
            }),
        }
    }
}

/// Prints an untrusted name. Escapes control characters, so that a terminal does not interpret
/// them.
///
/// ```
/// # use ibnet_record::types::Printable;
/// assert_eq!(Printable("node1\u{1b}[2J").to_string(), "node1\\u{1b}[2J");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

/// Characters that are not control characters but can mislead a reader. They change the direction
/// of the line, break the line, or have no width. So two different names can look alike. The last
/// two ranges are noncharacters: XML forbids U+FFFE and U+FFFF.
const MISLEADING: [RangeInclusive<char>; 11] = [
    '\u{ad}'..='\u{ad}',
    '\u{61c}'..='\u{61c}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{e0000}'..='\u{e007f}',
    '\u{fdd0}'..='\u{fdef}',
    '\u{fffe}'..='\u{ffff}',
];

/// Returns whether a character is invisible, or changes how other characters are displayed. Such a
/// character must not reach a terminal or a line of text.
pub fn misleads(c: char) -> bool {
    // Fast path for printable ASCII.
    !matches!(c, ' '..='~') && (c.is_control() || MISLEADING.iter().any(|range| range.contains(&c)))
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.contains(misleads) {
            return f.pad(self.0);
        }
        let mut shown = String::with_capacity(self.0.len() + 16);
        for c in self.0.chars() {
            if misleads(c) {
                shown.extend(c.escape_unicode());
            } else {
                shown.push(c);
            }
        }
        f.pad(&shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guid_needs_sixteen_digits() {
        assert_eq!(
            "0x7cfe9003003b4bde".parse(),
            Ok(Guid(0x7cfe_9003_003b_4bde))
        );
        for cut in [
            "0x7cfe9003003b4bd",
            "7cfe9003003b4bde",
            "0x",
            "",
            "0x7cfe9003003b4bdef",
            "0x+cfe9003003b4bde",
        ] {
            assert!(cut.parse::<Guid>().is_err(), "{cut:?} was parsed");
        }
    }

    #[test]
    fn guid_is_written_with_sixteen_digits() {
        for guid in [0, 1, 0xdead_beef, 0x7cfe_9003_003b_4bde, u64::MAX] {
            assert_eq!(Guid(guid).to_string(), format!("{guid:#018x}"));
        }
    }

    #[test]
    fn hca_is_named_with_or_without_its_port() {
        for text in ["mlx5_0", "mlx5_0:1"] {
            assert_eq!(
                text.parse::<HcaName>().map(|name| name.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!("".parse(), Ok(HcaName::default()));
        for text in ["mlx5_0:", "mlx5_0:x", ":1", "mlx5_0:0", "mlx5_0:300"] {
            assert!(text.parse::<HcaName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn misleading_characters_are_escaped_and_others_stay() {
        for c in "\0\r\n\t\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{202e}\u{2028}\u{2060}\u{2069}\u{feff}\u{fff9}\u{e0041}\u{fdd0}\u{fffe}\u{ffff}".chars() {
            assert_eq!(Printable(&format!("a{c}")).to_string(), format!("a{}", c.escape_unicode()));
        }
        for shown in [
            "leaf (rack 3) - 'A' \"1\" \\",
            "Zürich-ノード-\u{1f409}",
            "\u{fffd}",
            "",
        ] {
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
    fn data_rates_exclude_the_line_code() {
        let four = |speed| {
            LinkRate::new("4x", speed)
                .data_gbps()
                .expect("a known speed")
        };
        for (speed, gbps) in [
            ("SDR", 8.0),
            ("DDR", 16.0),
            ("QDR", 32.0),
            ("FDR10", 40.0),
            ("EDR", 100.0),
            ("HDR", 200.0),
            ("NDR", 400.0),
            ("XDR", 800.0),
        ] {
            assert_eq!(four(speed), gbps, "{speed}");
        }
        assert!((four("FDR") - 54.5455).abs() < 1e-4);
        assert_eq!(LinkRate::new("??", "EDR").data_gbps(), None);
        assert_eq!(LinkRate::new("4x", "GDR").data_gbps(), None);
    }
}
