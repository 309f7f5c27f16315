//! The writer of the records of the physical layer: it turns the registers of a reading into
//! values. It also has those values that are in the metrics.

use std::sync::Arc;

use ibnet_record::attributes::Field;
use ibnet_record::physical::{LISTED, PhysicalKind, TX_BIAS, Value, Values, column};
use ibnet_record::registers::{self, Page};
use ibnet_record::schema::Kind;
use ibnet_record::words;

use crate::mad::vendor::register::Image;
use crate::sweep::engine::Items;

/// Returns the values of these pages. If several of them have a field of the same name, the first
/// one gives the value. A field whose block was not received is left out.
pub fn values<'a>(images: impl IntoIterator<Item = (Page, &'a Image)>) -> Values {
    let mut values = Values::default();
    for (page, image) in images {
        for field in page.register().fields {
            let (name, kind) = column(field);
            if values.get(name).is_none()
                && let Some(value) = value(page, field, image, kind)
            {
                values.0.push((name, value));
            }
        }
    }
    values
}

/// Returns the arrays of [`LISTED`] of a switch that lists its sensors and fans.
pub fn listed<'a>(
    images: impl IntoIterator<Item = (Page, &'a Image)>,
    items: &Items,
) -> Vec<(&'static str, Value)> {
    let (mut chip, mut has_list) = (None, false);
    for (page, image) in images {
        if page == Page::Sensor {
            chip = Some((0, *image));
        }
        has_list |= page == Page::Sensors;
    }
    let chip = chip.filter(|_| has_list);
    let of_kind = |is_fan| {
        let items = items.iter().filter(move |item| item.is_fan == is_fan);
        items.map(|item| (u64::from(item.number), Image::of_head(&item.octets)))
    };
    let number = |page: Page, name, image: &Image| {
        let field = page.register().field(name)?;
        Some(field.number(image.raw(field, 0)?))
    };
    let sensors = chip
        .into_iter()
        .chain(of_kind(false))
        .filter_map(|(sensor, image)| {
            let of = |name| number(Page::Sensor, name, &image);
            let [now, most] = [of("temperature")?, of("max_temperature")?];
            let name = Page::Sensor.register().field("sensor_name")?;
            let milli = |celsius: f64| (celsius.max(0.0) * 1000.0) as u64;
            // A sensor that is not connected has -4096 degrees.
            (now >= 0.0).then(|| (sensor, image.text(name), milli(now), milli(most)))
        });
    let fans = of_kind(true)
        .filter_map(|(fan, image)| Some((fan, number(Page::FanSpeed, "rpm", &image)? as u64)));
    let (sensors, fans): (Vec<_>, (Vec<u64>, Vec<u64>)) = (sensors.collect(), fans.unzip());
    let integers =
        |of: fn(&(u64, String, u64, u64)) -> u64| Value::Integers(sensors.iter().map(of).collect());
    let values = [
        integers(|sensor| sensor.0),
        Value::Texts(sensors.iter().map(|sensor| sensor.1.clone()).collect()),
        integers(|sensor| sensor.2),
        integers(|sensor| sensor.3),
        Value::Integers(fans.0),
        Value::Integers(fans.1),
    ];
    let named = LISTED.iter().map(|column| column.name).zip(values);
    let is_known = |(_, value): &(_, Value)| match value {
        Value::Integers(values) => !values.is_empty(),
        value => value.texts().is_some_and(|texts| !texts.is_empty()),
    };
    named.filter(is_known).collect()
}

words! {
    /// A value of the physical layer in the metrics, by the name of its family without prefix.
    pub enum Gauge {
        /// Bit error ratio before error correction, as the device computes it.
        RawBer = "port_raw_bit_error_ratio",
        /// Bit error ratio after error correction.
        EffectiveBer = "port_effective_bit_error_ratio",
        /// Bit error ratio after retransmission.
        SymbolBer = "port_symbol_bit_error_ratio",
        /// Bit error ratio of a lane before error correction.
        LaneBer = "port_lane_raw_bit_error_ratio",
        /// Temperature of the module of a port in degrees Celsius.
        ModuleTemperature = "port_module_temperature_celsius",
        /// Received optical power of a lane in watts.
        ReceivePower = "port_module_receive_power_watts",
        /// Transmitted optical power of a lane in watts.
        TransmitPower = "port_module_transmit_power_watts",
        /// Temperature of the chip of a switch or an HCA in degrees Celsius.
        Temperature = "temperature_celsius",
        /// Time since a switch or an HCA was started in seconds.
        Uptime = "uptime_seconds",
        /// Temperature of a sensor of a switch in degrees Celsius.
        SensorTemperature = "sensor_temperature_celsius",
        /// Speed of a fan of a switch in rotations per minute.
        FanSpeed = "fan_rpm",
        /// Whether a fan of a switch is slower or faster than its limits: 0 or 1.
        FanFault = "fan_out_of_limits",
    }
}

/// A value of a gauge, and the lane that it is about.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// The gauge.
    pub gauge: Gauge,
    /// The lane, sensor or fan, if the gauge has one value for each.
    pub item: Option<u8>,
    /// The value.
    pub value: f64,
}

/// The values of the newest record of each type of a port.
#[derive(Clone, Debug, Default)]
pub struct Newest([(u64, Arc<[Measured]>); PhysicalKind::ALL.len()]);

impl Newest {
    /// Takes the values of a record. They are old at a time in nanoseconds since 1970.
    pub(super) fn take(&mut self, kind: PhysicalKind, values: &Values, old_at: u64) {
        self.0[kind as usize] = (old_at, measured(kind, values).into());
    }

    /// Iterates over the values that are not old at a time in nanoseconds since 1970.
    pub fn at(&self, ts: u64) -> impl Iterator<Item = &Measured> {
        let valid = self.0.iter().filter(move |(old_at, _)| ts < *old_at);
        valid.flat_map(|(_, measured)| measured.iter())
    }
}

/// Devices report this magnitude if there were no errors.
const NO_ERRORS: u64 = 255;

/// Number of lanes of most links. A link without light on the lanes behind them does not have
/// these.
const USUAL_LANES: usize = 4;

/// Returns the values of a record that are in the metrics.
fn measured(kind: PhysicalKind, values: &Values) -> Vec<Measured> {
    let array = |name| match values.get(name) {
        Some(Value::Integers(array)) => array.as_slice(),
        _ => &[],
    };
    let float = |name| match values.get(name) {
        Some(Value::Float(value)) => Some(*value),
        _ => None,
    };
    let ratio = |coefficient: u64, magnitude: u64| match magnitude {
        NO_ERRORS => 0.0,
        _ => registers::ber(coefficient, magnitude),
    };
    let of_link = |prefix| {
        let part = |part| values.integer(&format!("{prefix}_{part}"));
        Some(ratio(part("coef")?, part("magnitude")?))
    };
    let ratios = array("raw_ber_coef_lane")
        .iter()
        .zip(array("raw_ber_magnitude_lane"));
    // Firmware that does not compute the ratio of a lane leaves both parts 0.
    let ratios = ratios.map(|parts| (parts != (&0, &0)).then(|| ratio(*parts.0, *parts.1)));
    let has_light = |lanes: &[u64]| lanes.iter().skip(USUAL_LANES).any(|power| *power > 0);
    let (received, sent) = (array("rx_power_uw"), array("tx_power_uw"));
    let lanes = if has_light(received) || has_light(sent) {
        received.len()
    } else {
        USUAL_LANES
    };
    let watts = |power: &u64| Some(*power as f64 / 1e6);
    let one = |value| (None, value);
    let of_lanes = |lane: usize, value| (Some(lane as u8), value);
    let of_list = |numbers, list: &[u64], value: &dyn Fn(u64) -> f64| {
        let pairs = array(numbers).iter().zip(list);
        pairs
            .map(|(number, of)| (Some(*number as u8), Some(value(*of))))
            .collect()
    };
    let of_gauge = |gauge| -> Vec<(Option<u8>, Option<f64>)> {
        match (kind, gauge) {
            (PhysicalKind::Phy, Gauge::RawBer) => vec![one(of_link("raw_ber"))],
            (PhysicalKind::Phy, Gauge::EffectiveBer) => vec![one(of_link("effective_ber"))],
            (PhysicalKind::Phy, Gauge::SymbolBer) => vec![one(of_link("symbol_ber"))],
            (PhysicalKind::Phy, Gauge::LaneBer) => {
                let lanes = ratios.clone().enumerate();
                lanes.map(|(lane, value)| of_lanes(lane, value)).collect()
            }
            (PhysicalKind::Module, Gauge::ModuleTemperature) => vec![one(float("temperature_c"))],
            (PhysicalKind::Module, Gauge::ReceivePower | Gauge::TransmitPower) => {
                let power = if gauge == Gauge::ReceivePower {
                    received
                } else {
                    sent
                };
                let lanes = power.iter().take(lanes).enumerate();
                lanes
                    .map(|(lane, value)| of_lanes(lane, watts(value)))
                    .collect()
            }
            (PhysicalKind::Sensors, Gauge::SensorTemperature) => {
                let celsius = |milli: u64| milli as f64 / 1000.0;
                of_list("sensor_numbers", array("sensor_temperatures_mc"), &celsius)
            }
            (PhysicalKind::Sensors, Gauge::FanSpeed) => {
                of_list("fan_numbers", array("fan_rpm"), &|rpm| rpm as f64)
            }
            (PhysicalKind::Sensors, Gauge::FanFault) => {
                let limits = ["fan_under_limit", "fan_over_limit"].map(|name| values.integer(name));
                let [Some(under), Some(over)] = limits else {
                    return Vec::new();
                };
                let fans = array("fan_numbers");
                of_list("fan_numbers", fans, &|fan| {
                    ((under | over) >> fan & 1) as f64
                })
            }
            (PhysicalKind::Sensors, Gauge::Temperature) => vec![one(float("temperature_c"))],
            (PhysicalKind::Sensors, Gauge::Uptime) => {
                vec![one(values.integer("uptime_s").map(|time| time as f64))]
            }
            _ => Vec::new(),
        }
    };
    let all = Gauge::ALL.into_iter().flat_map(|gauge| {
        let values = of_gauge(gauge).into_iter();
        values.filter_map(move |(item, value)| {
            let value = value?;
            Some(Measured { gauge, item, value })
        })
    });
    all.collect()
}

/// Returns the value of a field.
fn value(page: Page, field: &'static Field, image: &Image, kind: Kind) -> Option<Value> {
    let first = image.raw(field, 0)?;
    let all = |of: &dyn Fn(u64) -> u64| {
        let values = (0..field.len).map(|index| image.raw(field, index).map(of));
        values.collect::<Option<Vec<_>>>().map(Value::Integers)
    };
    match kind {
        Kind::Text => Some(Value::Text(image.text(field))),
        Kind::Float => Some(Value::Float((field.number(first) * 1e6).round() / 1e6)),
        Kind::Integers if column(field).0 == TX_BIAS => {
            let scaling = page.register().field("tx_bias_scaling_factor");
            let scaling = scaling.and_then(|field| image.raw(field, 0)).unwrap_or(0);
            all(&|raw| (field.number(raw) * 1000.0).round() as u64 * (1 << scaling))
        }
        Kind::Integers => all(&|raw| field.number(raw) as u64),
        _ => Some(Value::Integer(field.value(first))),
    }
}
