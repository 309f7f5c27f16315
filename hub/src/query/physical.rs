//! Returns the physical layer of a port: newest values, bit error ratios and short series.

use std::collections::BTreeMap;
use std::sync::Arc;

use ibnet_analysis::ports::PortKey;
use ibnet_record::physical::Value;
use ibnet_record::registers::link_down::LinkDown;
use ibnet_record::registers::{Page, ber};
use ibnet_record::types::{Guid, PortNum};
use serde::Serialize;

use super::error::ApiError;
use super::port::{CounterValue, no_port};
use crate::events::{EventRow, Filter};
use crate::state::Hub;
use crate::store::physical::{Errors, Join, PageValues, Series, Subject};

/// Time over which errors are added up, in seconds: the time for which NVIDIA's procedure waits
/// before it judges a link.
const RATIO_S: u32 = 125 * 60;

/// Names of the events about a device that returns no registers.
const REFUSALS: [&str; 2] = ["physical_unsupported", "key_demanded"];

/// The physical layer of a port and of its device.
#[derive(Debug, Serialize)]
pub(crate) struct PhysicalAnswer {
    #[serde(flatten)]
    key: Key,
    /// The newest values of each page that was read. Those of a switch as a whole come last.
    pages: Vec<PageRow>,
    /// Why the link went down last. Null if it was not read.
    link_down: Option<String>,
    /// The last event about registers that the device does not return. Null without one.
    refusal: Option<EventRow>,
    ratios: Vec<RatioRow>,
    errors: ErrorColumns,
    module: ModuleColumns,
}

#[derive(Debug, Serialize)]
struct Key {
    guid: Guid,
    port: PortNum,
    node: Option<String>,
}

/// The newest values of a page of a register.
#[derive(Debug, Serialize)]
struct PageRow {
    page: &'static str,
    #[serde(serialize_with = "crate::shared::text")]
    sampler: Arc<str>,
    /// Time of the reading in nanoseconds since 1970.
    ts: u64,
    values: BTreeMap<&'static str, Shown>,
    /// Units of the values that have one.
    units: BTreeMap<&'static str, String>,
}

/// A value of a register.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Shown {
    Counter(CounterValue),
    Measured(f64),
    Text(String),
}

/// A bit error ratio: that of the device, and that of the differences of counters.
#[derive(Debug, Serialize)]
struct RatioRow {
    /// `raw` before error correction, `effective` after it, `symbol` after retransmission too.
    ratio: &'static str,
    /// Ratio that the device computes, with one digit. Null if it was not read.
    of_device: Option<f64>,
    /// Wrong bits and received bits in the time of the series, at most 125 minutes.
    errors: u64,
    bits: f64,
    /// Wrong bits divided by received bits. Null without received bits.
    measured: Option<f64>,
    /// Time in seconds over which the bits were counted.
    seconds: u32,
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
    drop(state);
    let (port, device) = (port.unwrap_or_default(), device.unwrap_or_default());
    let pages = port.pages().chain(device.pages());
    let pages: Vec<PageRow> = pages.map(PageRow::of).collect();
    Ok(PhysicalAnswer {
        key: Key {
            guid: key.0,
            port: key.1,
            node,
        },
        ratios: ratios(&pages, &port.errors),
        link_down: link_down(&pages),
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
            };
            values.insert(column.name, shown);
        }
        Self {
            page: page.page.as_str(),
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

/// Returns why the link went down last, as text.
fn link_down(pages: &[PageRow]) -> Option<String> {
    let page = page_of(pages, Page::LinkDown)?;
    LinkDown::of(|name| page.integer(name)).map(|down| down.to_string())
}

fn page_of(pages: &[PageRow], page: Page) -> Option<&PageRow> {
    pages.iter().find(|found| found.page == page.as_str())
}

/// Returns the sum of the newest points within [`RATIO_S`], and their time in seconds.
fn sum(series: &Series<Errors>) -> (Errors, u32) {
    let last = series.0.last().map_or(0, |point| point.to_s);
    let recent = series
        .0
        .iter()
        .filter(|point| point.from_s >= last.saturating_sub(RATIO_S));
    recent.fold((Errors::default(), 0), |(errors, seconds), point| {
        (errors.join(point.of), seconds + (point.to_s - point.from_s))
    })
}

fn ratios(pages: &[PageRow], series: &Series<Errors>) -> Vec<RatioRow> {
    let (sum, seconds) = sum(series);
    let page = page_of(pages, Page::Ber);
    let row = |ratio: &'static str, errors: u64| {
        let part = |part: &str| page?.integer(&format!("{ratio}_ber_{part}"));
        let of_device = part("coef").zip(part("magnitude"));
        let bits = sum.bits as f64;
        RatioRow {
            ratio,
            of_device: of_device.map(|(coefficient, magnitude)| ber(coefficient, magnitude)),
            errors,
            bits,
            measured: (sum.bits > 0).then(|| errors as f64 / bits),
            seconds,
        }
    };
    if page.is_none() {
        return Vec::new();
    }
    vec![
        row("raw", sum.raw),
        row("effective", sum.effective),
        row("symbol", sum.symbol),
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
