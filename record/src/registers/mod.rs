//! The registers of NVIDIA devices that ibnet reads: the physical layer of a link, the module in
//! its cage, and the condition of a switch.
//!
//! A device returns a register as the data of the vendor-specific attribute AccessRegisterGMP
//! (module `mad::vendor` of `ibnet`). A [`Register`] is declared once, as a table of [`Field`]s.
//! Some registers have several *pages*: layouts, of which a request selects one. Each page is a
//! table of its own, and [`Page`] has their names.
//!
//! - The tables state positions as the register database of mstflint does: the octet of a dword of
//!   32 bits, the lowest bit in this dword, and the width. The database is the file
//!   `register_access_table.adb` of mstflint (BSD or GPL).
//! - A test compares every position with the database of Debian's package `mstflint` (4.21). A
//!   field that this database lacks is marked with [`Field::not_compared`]; its position is from
//!   the database of mstflint 4.36.
//! - No value was compared with hardware yet.
//! - MSPS (power supplies) is left out, because no public source has its layout.
//!
//! **A request selects and never acts.** [`Register::request`] lists the only fields of a request:
//! the port, sensor or fan, and the page. It has no field that clears a counter or changes a
//! setting.
//!
//! | module | registers |
//! |---|---|
//! | [`ppcnt`] | PPCNT: counters of the physical layer |
//! | [`pddr`] | PDDR: states, reasons of a link that went down, and the module |
//! | [`port`] | PRTL, PPLM, PPCR, PMAOS: latency, error correction, planes and module of a port |
//! | [`device`] | MTMP, MTCAP, MTBR, MFCR, MFSM, FORE, MGIR, MSGI, MVCR: sensors, fans, firmware |
//! | [`link_down`] | the reasons of a link that went down, as text |
//! | [`tables`] | all fields as text: a section of `docs/inside/registers.md` |

use crate::attributes::{Field, Unit};

pub mod device;
pub mod link_down;
pub mod pddr;
pub mod port;
pub mod ppcnt;
pub mod tables;

/// A register, or one page of it: a table of fields.
#[derive(Debug)]
pub struct Register {
    /// Register ID.
    pub id: u16,
    /// Name of the register.
    pub name: &'static str,
    /// Name of this layout in the register database.
    pub layout: &'static str,
    /// The fields of a request, and what each of them selects. No other bit of a request is set.
    pub request: &'static [(Field, Select)],
    /// The fields of a reply, by position.
    pub fields: &'static [Field],
}

/// What a field of a request selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Select {
    /// Number of the port, as in InfiniBand.
    Port,
    /// Plane of a port with several planes (XDR). 0 is the port as a whole.
    Plane,
    /// Slot of a modular switch. 0 is the main board.
    Slot,
    /// Number of the sensor, module or fan; of several, the first one.
    Item,
    /// Number of sensors.
    Count,
    /// A constant of the page.
    Constant(u8),
}

words! {
    /// A page: one layout of one register.
    pub enum Page {
        /// PPCNT group 0x16: bit errors and bit error ratios.
        Ber = "ber",
        /// PPCNT group 0x12: forward error correction (FEC), and how often the link went down.
        Fec = "fec",
        /// PPCNT group 0x1A: recoveries of the link.
        Recovery = "recovery",
        /// PPCNT group 0x22: retransmission by the physical layer (PLR).
        Plr = "plr",
        /// PPCNT group 0x23: number of FEC blocks by number of wrong symbols.
        FecHistogram = "fec_histogram",
        /// PPCNT group 0x21: traffic and errors of a plane, or of the whole port.
        PlaneCounters = "plane_counters",
        /// PDDR page 0: state of the port.
        Operation = "operation",
        /// PDDR page 1: what prevents the link, as a code and a text.
        Troubleshooting = "troubleshooting",
        /// PDDR page 2: negotiation with the other end.
        Phy = "phy",
        /// PDDR page 3: the module in the cage.
        Module = "module",
        /// PDDR page 6: why the link went down.
        LinkDown = "link_down",
        /// PDDR page 8: how long the link took to come up.
        LinkUp = "link_up",
        /// PDDR page 11: the port at the other end.
        Partner = "partner",
        /// PRTL: round-trip latency of the cable.
        Latency = "latency",
        /// PPLM: FEC of the link.
        FecMode = "fec_mode",
        /// PPCR: number of planes of a port.
        Planes = "planes",
        /// PMAOS: state of a module.
        ModuleState = "module_state",
        /// MTMP: one temperature sensor.
        Sensor = "sensor",
        /// MTCAP: list of the temperature sensors.
        Sensors = "sensors",
        /// MTBR: several temperature sensors.
        Temperatures = "temperatures",
        /// MFCR: list of the fans.
        Fans = "fans",
        /// MFSM: speed of a fan.
        FanSpeed = "fan_speed",
        /// FORE: fans outside of their limits.
        FanLimits = "fan_limits",
        /// MGIR: chip and firmware.
        Device = "device",
        /// MSGI: serial number and product of the system.
        System = "system",
        /// MVCR: voltage and current of a sensor.
        Power = "power",
    }
}

impl Page {
    /// Returns the table of the page.
    pub const fn register(self) -> &'static Register {
        match self {
            Self::Ber => &ppcnt::BER,
            Self::Fec => &ppcnt::FEC,
            Self::Recovery => &ppcnt::RECOVERY,
            Self::Plr => &ppcnt::PLR,
            Self::FecHistogram => &ppcnt::FEC_HISTOGRAM,
            Self::PlaneCounters => &ppcnt::PLANE_COUNTERS,
            Self::Operation => &pddr::OPERATION,
            Self::Troubleshooting => &pddr::TROUBLESHOOTING,
            Self::Phy => &pddr::PHY,
            Self::Module => &pddr::MODULE,
            Self::LinkDown => &pddr::LINK_DOWN,
            Self::LinkUp => &pddr::LINK_UP,
            Self::Partner => &pddr::PARTNER,
            Self::Latency => &port::PRTL,
            Self::FecMode => &port::PPLM,
            Self::Planes => &port::PPCR,
            Self::ModuleState => &port::PMAOS,
            Self::Sensor => &device::MTMP,
            Self::Sensors => &device::MTCAP,
            Self::Temperatures => &device::MTBR,
            Self::Fans => &device::MFCR,
            Self::FanSpeed => &device::MFSM,
            Self::FanLimits => &device::FORE,
            Self::Device => &device::MGIR,
            Self::System => &device::MSGI,
            Self::Power => &device::MVCR,
        }
    }
}

impl Register {
    /// Returns the field with this name in the register database.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the field of a request that selects this.
    pub fn selector(&self, select: Select) -> Option<&'static Field> {
        self.request
            .iter()
            .find(|(_, of)| *of == select)
            .map(|(field, _)| field)
    }

    /// Returns the number of octets up to the end of the last field. The register itself can be
    /// longer.
    pub fn octets(&self) -> usize {
        let last = self.fields.iter().map(Field::end_bit).max();
        usize::from(last.unwrap_or(0)).div_ceil(8)
    }
}

/// Returns the bit error ratio of a pair of fields, such as `raw_ber_coef` and
/// `raw_ber_magnitude`: coefficient x 10^-magnitude.
pub fn ber(coefficient: u64, magnitude: u64) -> f64 {
    let magnitude = i32::try_from(magnitude).unwrap_or(i32::MAX);
    coefficient as f64 / 10f64.powi(magnitude)
}

/// Units of times and of measured values.
const MILLISECONDS: Unit = Unit::Measure("ms", 1, 1);
const SECONDS: Unit = Unit::Measure("s", 1, 1);
const NANOSECONDS: Unit = Unit::Measure("ns", 1, 1);

/// A field of at most 32 bits, as the register database states its position: the octet of its
/// dword, its lowest bit in this dword, and its width.
const fn at(name: &'static str, json: &'static str, octet: u16, low: u16, width: u8) -> Field {
    Field::new(name, json, 8 * octet + 32 - low - width as u16, width)
}

/// A counter of 32 bits.
const fn count(name: &'static str, octet: u16, unit: Unit) -> Field {
    at(name, name, octet, 0, 32).counts(unit)
}

/// A counter of 64 bits.
const fn wide(name: &'static str, octet: u16, unit: Unit) -> Field {
    Field::new(name, name, 8 * octet, 64).counts(unit)
}

/// A state, a code or a set of bits.
const fn code(name: &'static str, octet: u16, low: u16, width: u8) -> Field {
    at(name, name, octet, low, width).setting()
}

/// A time of 32 bits.
const fn time(name: &'static str, json: &'static str, octet: u16, unit: Unit) -> Field {
    at(name, json, octet, 0, 32).counts(unit)
}

/// A text with this number of characters.
const fn text(name: &'static str, octet: u16, len: u8) -> Field {
    Field::new(name, name, 8 * octet, 8)
        .array(len)
        .counts(Unit::Text)
}

/// A field of a request.
const fn select(name: &'static str, octet: u16, low: u16, width: u8) -> Field {
    at(name, name, octet, low, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_page_are_unique_and_fields_do_not_overlap() {
        for page in Page::ALL {
            let register = page.register();
            let mut used = vec![None; 8 * 1024];
            for field in register.fields {
                for index in 0..u16::from(field.len) {
                    let first = field.first_bit + index * u16::from(field.stride);
                    for bit in first..first + u16::from(field.width) {
                        let other = used[usize::from(bit)].replace(field.name);
                        assert_eq!(other, None, "{page}: bit {bit} of {}", field.name);
                    }
                }
                let same = |other: &&Field| other.json == field.json || other.name == field.name;
                let twins = register.fields.iter().filter(same).count();
                assert_eq!(twins, 1, "{page}: {}", field.name);
                assert!(field.unit.is_some(), "{page}: {}", field.name);
            }
        }
    }

    #[test]
    fn pages_differ_in_register_or_constants() {
        let key = |page: Page| {
            let register = page.register();
            let constants = register.request.iter().map(|(field, of)| match of {
                Select::Constant(value) => (field.first_bit, *value),
                _ => (field.first_bit, 0),
            });
            (register.id, constants.collect::<Vec<_>>())
        };
        for (index, page) in Page::ALL.into_iter().enumerate() {
            let others = &Page::ALL[..index];
            assert!(
                others.iter().all(|other| key(*other) != key(page)),
                "{page}"
            );
        }
    }

    #[test]
    fn bit_error_ratio_is_coefficient_and_magnitude() {
        assert_eq!((ber(15, 8), ber(3, 0), ber(0, 0)), (1.5e-7, 3.0, 0.0));
        // A magnitude of 8 bits does not overflow.
        assert!(ber(15, 255) > 0.0);
    }

    #[test]
    fn numbers_have_the_sign_and_the_fraction_of_their_unit() {
        let sensor = device::MTMP.field("temperature").expect("declared");
        assert_eq!(
            [0, 0x148, 0xffff, 0x8000].map(|raw| sensor.number(raw)),
            [0.0, 41.0, -0.125, -4096.0]
        );
        let voltage = pddr::MODULE.field("voltage").expect("declared");
        assert_eq!(voltage.number(33_012), 3.3012);
    }
}
