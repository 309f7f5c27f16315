//! Returns the physical layer of a port: newest values, bit error ratios and short series.

use std::collections::BTreeMap;
use std::sync::Arc;

use ibnet_analysis::health::planes::PlaneReading;
use ibnet_analysis::health::verdict::{Applied, End, Ratio};
use ibnet_analysis::ports::PortKey;
use ibnet_record::physical::Value;
use ibnet_record::registers::{Page, ber};
use ibnet_record::types::{Guid, PortNum};
use serde::Serialize;

use super::error::ApiError;
use super::health::{self, HealthLink};
use super::port::{CounterValue, no_port};
use crate::events::{EventRow, Filter};
use crate::state::Hub;
use crate::store::physical::{PageValues, Subject};

/// Names of the events about a device that returns no registers.
const REFUSALS: [&str; 2] = ["physical_unsupported", "key_demanded"];

/// The physical layer of a port and of its device.
#[derive(Debug, Serialize)]
pub(crate) struct PhysicalAnswer {
    guid: Guid,
    port: PortNum,
    /// Null if the topology does not have the device.
    node: Option<String>,
    /// The verdict on this end of the link. Null if bit errors were not read.
    health: Option<HealthLink>,
    /// The newest values of each page that was read. Those of a switch as a whole come last.
    pages: Vec<PageRow>,
    /// The last event about registers that the device does not return. Null without one.
    refusal: Option<EventRow>,
    /// The planes of the port (XDR). Empty if it has none.
    planes: Vec<PlaneRow>,
    ratios: Vec<RatioRow>,
    /// Length of the time that the ratios describe, in seconds.
    ratios_seconds: u64,
    errors: ErrorColumns,
    module: ModuleColumns,
}

/// The newest values of a page of a register.
#[derive(Debug, Serialize)]
struct PageRow {
    page: &'static str,
    /// Number of the plane, for a page about one plane.
    plane: Option<u64>,
    #[serde(serialize_with = "crate::shared::text")]
    sampler: Arc<str>,
    /// Time of the reading in nanoseconds since 1970.
    ts: u64,
    values: BTreeMap<&'static str, Shown>,
    /// Units of the values that have one.
    units: BTreeMap<&'static str, String>,
}

/// A plane of a port.
#[derive(Debug, Serialize)]
struct PlaneRow {
    plane: u64,
    /// Time of the last reading in nanoseconds since 1970.
    ts: u64,
    /// Value `phy_mngr_fsm_state` of the device. Null if it was not read.
    state: Option<u64>,
    is_up: Option<bool>,
    /// Means between the last two readings in Gb/s. Null before the second one.
    xmit_gbps: Option<f64>,
    rcv_gbps: Option<f64>,
    /// What is wrong with the plane, as text. Null if nothing is.
    finding: Option<String>,
}

/// A value of a register.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Shown {
    Counter(CounterValue),
    Measured(f64),
    Text(String),
    Texts(Vec<String>),
}

/// A bit error ratio: that of the device, and that of the differences of counters.
#[derive(Debug, Serialize)]
struct RatioRow {
    /// `raw` before error correction, `effective` after it, `symbol` after retransmission too.
    ratio: &'static str,
    /// Ratio that the device computes, with one digit. Null if it was not read.
    of_device: Option<f64>,
    /// Ratio by the differences of counters in the time that the verdict judges. Null before the
    /// second reading.
    measured: Option<Ratio>,
}

/// Points of the series of bit errors.
#[derive(Debug, Default, Serialize)]
struct ErrorColumns {
    from_ns: Vec<u64>,
    to_ns: Vec<u64>,
    bits: Vec<f64>,
    raw: Vec<u64>,
    effective: Vec<u64>,
    symbol: Vec<u64>,
}

/// Points of the series of the module.
#[derive(Debug, Default, Serialize)]
struct ModuleColumns {
    ts: Vec<u64>,
    temperature_c: Vec<Option<f32>>,
    rx_power_uw: Vec<Option<f32>>,
}

fn ns(seconds: u32) -> u64 {
    u64::from(seconds) * 1_000_000_000
}

/// Returns the physical layer of a port. A port without readings has no pages.
pub(crate) fn find(hub: &Hub, key: PortKey) -> Result<PhysicalAnswer, ApiError> {
    let frame = hub.frame();
    let state = hub.read();
    let of = |port| state.store.physical.get((key.0, port)).cloned();
    let (port, device) = (of(Some(key.1)), of(None));
    if port.is_none() && state.topology.find(key).is_none() {
        return Err(no_port(key));
    }
    let node = state.topology.node(key.0).map(str::to_owned);
    let filter = Filter {
        from: 0,
        to: u64::MAX,
        names: REFUSALS.map(str::to_owned).to_vec(),
        guid: Some(key.0),
        port: None,
        limit: 1,
    };
    let refusal = state.events(&filter).pop();
    let health = health::of_port(&state, frame.as_deref(), key);
    drop(state);
    let (port, device) = (port.unwrap_or_default(), device.unwrap_or_default());
    let pages = port.pages().chain(device.pages());
    let pages: Vec<PageRow> = pages.map(PageRow::of).collect();
    Ok(PhysicalAnswer {
        guid: key.0,
        port: key.1,
        node,
        health,
        planes: planes(&port),
        ratios: ratios(&pages, &port.end),
        ratios_seconds: port.end.window().map_or(0, |window| window.length_ns()) / 1_000_000_000,
        pages,
        refusal,
        errors: ErrorColumns::of(&port),
        module: ModuleColumns::of(&port),
    })
}

impl PageRow {
    fn of(page: PageValues) -> Self {
        let mut units = BTreeMap::new();
        let mut values = BTreeMap::new();
        for (column, value) in page.values {
            units.extend(column.unit().map(|unit| (column.name, unit)));
            let shown = match value {
                Value::Integer(value) => Shown::Counter(CounterValue::one(value)),
                Value::Integers(values) => Shown::Counter(CounterValue::many(&values)),
                Value::Float(value) => Shown::Measured(value),
                Value::Text(text) => Shown::Text(text),
                Value::Texts(texts) => Shown::Texts(texts),
            };
            values.insert(column.name, shown);
        }
        Self {
            page: page.page.as_str(),
            plane: Some(page.plane).filter(|plane| *plane > 0),
            sampler: page.sampler,
            ts: page.ts,
            values,
            units,
        }
    }

    fn integer(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(Shown::Counter(CounterValue::One(value))) => Some(*value),
            _ => None,
        }
    }
}

/// Returns the planes of a port.
fn planes(subject: &Subject) -> Vec<PlaneRow> {
    let row = |(now, before): &(PlaneReading, Option<PlaneReading>)| {
        let rates = before.and_then(|before| now.rates_since(&before));
        let gbps = |place: usize| rates.map(|rates| rates[place] * 8.0 / 1e9);
        let mut findings = subject.end.of_planes();
        let finding = findings.find(|applied| applied.lane == usize::try_from(now.plane).ok());
        PlaneRow {
            plane: now.plane,
            ts: now.ts,
            state: now.state,
            is_up: now.is_up(),
            xmit_gbps: gbps(0),
            rcv_gbps: gbps(1),
            finding: finding.map(Applied::to_string),
        }
    };
    let mut rows: Vec<PlaneRow> = subject.planes.iter().map(row).collect();
    rows.sort_unstable_by_key(|row| row.plane);
    rows
}

/// Returns the ratios of a port whose bit errors were read.
fn ratios(pages: &[PageRow], end: &End) -> Vec<RatioRow> {
    let Some(page) = pages.iter().find(|page| page.page == Page::Ber.as_str()) else {
        return Vec::new();
    };
    let row = |ratio, measured| {
        let part = |part: &str| page.integer(&format!("{ratio}_ber_{part}"));
        let of_device = part("coef").zip(part("magnitude"));
        RatioRow {
            ratio,
            of_device: of_device.map(|(coefficient, magnitude)| ber(coefficient, magnitude)),
            measured,
        }
    };
    vec![
        row("raw", end.raw()),
        row("effective", end.effective()),
        row("symbol", end.symbol()),
    ]
}

impl ErrorColumns {
    fn of(subject: &Subject) -> Self {
        let mut columns = Self::default();
        for point in &subject.errors.0 {
            columns.from_ns.push(ns(point.from_s));
            columns.to_ns.push(ns(point.to_s));
            columns.bits.push(point.of.bits as f64);
            columns.raw.push(point.of.raw);
            columns.effective.push(point.of.effective);
            columns.symbol.push(point.of.symbol);
        }
        columns
    }
}

impl ModuleColumns {
    fn of(subject: &Subject) -> Self {
        let mut columns = Self::default();
        for point in &subject.module.0 {
            columns.ts.push(ns(point.to_s));
            columns.temperature_c.push(point.of.temperature_c);
            columns.rx_power_uw.push(point.of.rx_power_uw);
        }
        columns
    }
}
