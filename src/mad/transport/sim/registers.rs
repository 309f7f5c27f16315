//! The registers of simulated devices: the answers of their firmware to requests of class 0x0A.

use std::time::Duration;

use ibnet_record::registers::{Page, Select, link_down};
use ibnet_record::types::{NodeKind, PortNum};

use super::page_image::PageImage;
use super::physical::{BITS_OF_LOST_BLOCK, Cable, Receiver, UP_BEFORE};
use super::{SimFabric, planes};
use crate::mad::header::{Header, METHOD_GET, METHOD_GET_RESP, MadStatus};
use crate::mad::vendor::register::{Image, Query};
use crate::mad::vendor::{self, GeneralInfo, general_info};
use crate::mad::{MAD_LEN, Mad};
use crate::time::Instant;
use crate::topology::DeviceId;

/// How firmware answers requests for registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Firmware {
    /// It answers 99 of 100 requests.
    #[default]
    Usual,
    /// It answers every request.
    Reliable,
    /// It has no registers for these requests.
    WithoutRegisters,
    /// It does not have one page.
    Without(Page),
    /// It does not have one sensor or fan that it lists.
    WithoutItem(Page, u16),
    /// It requires a key for registers, so it drops requests for them.
    WithKey,
    /// It drops all requests of this class.
    Silent,
}

/// Share of the requests that firmware does not answer.
const UNANSWERED: f64 = 0.01;

/// Time in which firmware answers, from and to.
const SLOWNESS: [f64; 2] = [0.002, 0.02];

/// Returns the reply of a device's firmware and its time, or `None` if none will come.
pub(super) fn answer(
    fabric: &mut SimFabric,
    id: DeviceId,
    request: &Mad,
    arrival: Instant,
) -> Option<(Instant, Mad)> {
    let [least, most] = SLOWNESS;
    let (luck, time) = (fabric.rng.f64(), least + (most - least) * fabric.rng.f64());
    let header = Header::parse(request);
    let is_valid = (header.class_version, header.method) == (vendor::CLASS_VERSION, METHOD_GET);
    let is_general = header.attribute == general_info::GENERAL_INFO;
    let firmware = fabric.agents[id.0 as usize].firmware;
    let answers = match firmware {
        Firmware::Usual => luck >= UNANSWERED,
        Firmware::WithKey => is_general,
        Firmware::Silent => false,
        _ => true,
    };
    if !(is_valid && answers) {
        return None;
    }
    let at = arrival + Duration::from_secs_f64(time);
    let mut reply = [0; MAD_LEN];
    let mut header = Header {
        method: METHOD_GET_RESP,
        ..header
    };
    header.emit(&mut reply);
    if is_general {
        let info = general_info(fabric, id, at);
        match firmware {
            Firmware::WithoutRegisters => info,
            _ => info.with_registers(),
        }
        .emit(&mut reply);
        return Some((at, reply));
    }
    reply = *request;
    header.status = match Query::parse(request) {
        Some(query) if firmware == Firmware::Without(query.page) => MadStatus::UNSUPPORTED_REGISTER,
        Some(query) if firmware == Firmware::WithoutItem(query.page, query.index.item) => {
            MadStatus::UNSUPPORTED_REGISTER
        }
        Some(query) => match image(fabric, id, &query, at) {
            Ok(image) => {
                query.answer(&image, &mut reply);
                MadStatus::OK
            }
            Err(status) => status,
        },
        None => MadStatus::UNSUPPORTED_REGISTER,
    };
    reply[3] = METHOD_GET_RESP;
    reply[4..6].copy_from_slice(&header.status.0.to_be_bytes());
    Some((at, reply))
}

/// Returns GeneralInfo. Firmware and PSID are no real ones.
fn general_info(fabric: &SimFabric, id: DeviceId, at: Instant) -> GeneralInfo {
    let info = super::management::node_info(fabric, id);
    GeneralInfo {
        device_id: info.device_id,
        uptime_s: (UP_BEFORE.as_secs_f64() + at.as_secs_f64()) as u32,
        firmware: (99, 2000, 1),
        psid: *b"SIM_000000000001",
        ..GeneralInfo::default()
    }
}

/// Returns the octets of a page.
fn image(
    fabric: &mut SimFabric,
    id: DeviceId,
    query: &Query,
    at: Instant,
) -> Result<Image, MadStatus> {
    let port = query.index.port;
    let is_of_port = query.page.register().selector(Select::Port).is_some();
    if !is_of_port {
        let mut page = PageImage::new(query.page);
        return of_device(fabric, (id, query), &mut page, at).map(|()| page.image);
    }
    let cable = fabric.cable(id, port).ok_or(MadStatus::INVALID_VALUE)?;
    if matches!(
        query.page,
        Page::Planes | Page::PlaneCounters | Page::Operation
    ) {
        let mut page = PageImage::new(query.page);
        return planes::write(fabric, (id, query), &mut page, at).map(|()| page.image);
    }
    let downs = fabric.downed.get(&(id, port)).copied().unwrap_or(0);
    let receiver = fabric.physical.receiver((id, port), &cable, at);
    of_port(query.page, &cable, receiver, downs, at)
}

/// Returns the octets of a page about a port.
pub(super) fn of_port(
    of: Page,
    cable: &Cable,
    receiver: &Receiver,
    downs: u64,
    at: Instant,
) -> Result<Image, MadStatus> {
    let mut page = PageImage::new(of);
    match of {
        Page::Ber => ber(&mut page, cable, receiver, at),
        Page::Fec => fec(&mut page, (cable, receiver), downs, at),
        Page::FecHistogram => page.set("hist", &receiver.histogram),
        Page::Plr if cable.has_four_levels => plr(&mut page, receiver),
        Page::LinkDown if downs > 0 => link_down(&mut page, cable.down_reason(downs)),
        Page::LinkDown => {}
        Page::Module => module(&mut page, cable, at),
        Page::FecMode => page.set("fec_mode_active", &[1 << cable.fec()]),
        Page::Latency => latency(&mut page, cable),
        _ => return Err(MadStatus::UNSUPPORTED_REGISTER),
    }
    Ok(page.image)
}

/// Writes a page about a whole device.
fn of_device(
    fabric: &SimFabric,
    (id, query): (DeviceId, &Query),
    page: &mut PageImage,
    at: Instant,
) -> Result<(), MadStatus> {
    let device = fabric.fabric.device(id);
    let info = general_info(fabric, id, at);
    // One fan of some switches has failed. The switch is warmer then.
    let has_failed = device.guid.0.is_multiple_of(FAILED_FAN_ONE_OF);
    let celsius = CHIP_CELSIUS + if has_failed { FAILED_FAN_CELSIUS } else { 0.0 };
    let (major, minor, sub_minor) = info.firmware;
    let is_switch = device.kind == NodeKind::Switch;
    if !is_switch && !matches!(query.page, Page::Sensor | Page::Device) {
        return Err(MadStatus::UNSUPPORTED_REGISTER);
    }
    let item = usize::from(query.index.item);
    let items = match query.page {
        Page::Sensor if is_switch => SENSORS.len(),
        Page::Sensor => 1,
        _ => FANS,
    };
    if item >= items {
        return Err(MadStatus::INVALID_VALUE);
    }
    let (name, below) = SENSORS.get(item).copied().unwrap_or_default();
    let celsius = celsius - below;
    // The failed fan is the first one. The others turn faster.
    let rpm = match (has_failed, item) {
        (true, 0) => 0,
        (true, _) => 9000,
        (false, _) => 7000 + 50 * item as u64,
    };
    page.set_text("sensor_name", name);
    page.set_text("psid", "SIM_000000000001");
    page.set_text(
        "serial_number",
        &format!("SIM{:012X}", device.guid.0 & 0xffff_ffff_ffff),
    );
    page.set_text("part_number", "SIM-SWITCH");
    page.set_text("product_name", "Simulated switch");
    for (name, value) in [
        ("temperature", (celsius * 8.0) as u64),
        ("max_temperature", ((celsius + 4.0) * 8.0) as u64),
        ("temperature_threshold_hi", 105 * 8),
        ("sensor_count", SENSORS.len() as u64),
        ("sensor_map", (1 << SENSORS.len()) - 1),
        ("tacho_active", (1 << FANS) - 1),
        ("rpm", rpm),
        ("fan_under_limit", u64::from(has_failed)),
        ("device_id", info.device_id.into()),
        ("num_ports", device.ports.len() as u64),
        ("uptime", info.uptime_s.into()),
        ("extended_major", major.into()),
        ("extended_minor", minor.into()),
        ("extended_sub_minor", sub_minor.into()),
    ] {
        page.set(name, &[value]);
    }
    Ok(())
}

/// One switch of this number has a failed fan, and is warmer by this.
const FAILED_FAN_ONE_OF: u64 = 20;
const FAILED_FAN_CELSIUS: f64 = 12.0;
const CHIP_CELSIUS: f64 = 55.0;

/// Names of the temperature sensors of a switch, and by how much they are cooler than the chip.
const SENSORS: [(&str, f64); 4] = [
    ("asic", 0.0),
    ("port_amb", 19.0),
    ("board", 12.5),
    ("fan_amb", 24.0),
];

/// Number of fans of a switch.
const FANS: usize = 8;

fn fec(page: &mut PageImage, (cable, receiver): (&Cable, &Receiver), downs: u64, at: Instant) {
    let [right, corrected, lost] = receiver.blocks;
    page.set("time_since_last_clear", &[milliseconds(at)]);
    page.set("symbol_errors", &[receiver.effective]);
    page.set("rs_fec_no_errors_blocks", &[right]);
    page.set("rs_fec_corrected_blocks", &[corrected]);
    page.set("rs_fec_uncorrectable_blocks", &[lost]);
    page.set(
        "rs_fec_corrected_symbols_total",
        &[receiver.raw.iter().sum()],
    );
    page.set("rs_fec_corrected_symbols_lane", &receiver.raw[..4]);
    page.set("rs_fec_corrected_symbols_lane4", &receiver.raw[4..]);
    let is_intended = |count: &u64| is_command(cable.down_reason(*count).0);
    let intended = (1..=downs).filter(is_intended).count() as u64;
    page.set("link_down_events", &[downs - intended]);
    page.set("unintentional_link_down_events", &[downs - intended]);
    page.set("intentional_link_down_events", &[intended]);
}

fn plr(page: &mut PageImage, receiver: &Receiver) {
    let codes: u64 = receiver.blocks.iter().sum();
    page.set("plr_rcv_codes", &[codes]);
    page.set("plr_rcv_good_codes", &[codes - receiver.retried]);
    page.set("plr_rcv_code_err", &[receiver.retried]);
    page.set(
        "plr_rcv_uncorrectable_code",
        &[receiver.symbols / BITS_OF_LOST_BLOCK],
    );
    page.set("plr_xmit_codes", &[codes]);
    // The loss of bandwidth in units of 1e-10.
    let loss = receiver.retried as f64 / codes.max(1) as f64 * 1e10;
    page.set("plr_codes_loss", &[loss as u64]);
}

fn is_command(reason: u8) -> bool {
    link_down::reason(reason).is_some_and(|reason| reason.is_command)
}

fn link_down(page: &mut PageImage, (reason, is_local): (u8, bool)) {
    page.set("down_intent", &[if is_command(reason) { 1 } else { 2 }]);
    let (reason, names) = (
        u64::from(reason),
        ["local_reason_opcode", "remote_reason_opcode"],
    );
    page.set("down_blame", &[if is_local { 1 } else { 2 }]);
    page.set(names[usize::from(!is_local)], &[reason]);
    page.set(
        "e2e_reason_opcode",
        &[reason + if is_local { 0 } else { 100 }],
    );
}

impl SimFabric {
    /// Returns why the link of a port last went down: the number of the reason, and whether the
    /// device of the port caused it.
    pub fn link_down_reason(&self, id: DeviceId, port: PortNum) -> Option<(u8, bool)> {
        let downs = self.downed.get(&(id, port))?;
        Some(self.cable(id, port)?.down_reason(*downs))
    }
}

fn milliseconds(at: Instant) -> u64 {
    (UP_BEFORE.as_millis() + u128::from(at.as_nanos() / 1_000_000)) as u64
}

fn ber(page: &mut PageImage, cable: &Cable, receiver: &Receiver, at: Instant) {
    let bits = receiver.bits();
    let corrected: u64 = receiver.raw.iter().sum();
    page.set("time_since_last_clear", &[milliseconds(at)]);
    page.set("phy_received_bits", &[bits]);
    page.set("phy_corrected_bits", &[corrected]);
    page.set("phy_raw_errors_lane", &receiver.raw);
    page.set("phy_symbol_errors", &[receiver.symbols]);
    page.set("phy_effective_errors", &[receiver.effective]);
    page.set_ber("raw_ber", cable.mean_ratio(at));
    page.set_ber("effective_ber", receiver.effective as f64 / bits as f64);
    page.set_ber("symbol_ber", receiver.symbols as f64 / bits as f64);
    let first_empty = receiver.histogram.iter().position(|blocks| *blocks == 0);
    page.set(
        "fc_zero_hist",
        &[first_empty.unwrap_or(receiver.histogram.len()) as u64],
    );
}

/// Latency of a meter of cable, and of the electronics at one end, in nanoseconds.
const NS_PER_METER: u64 = 5;
const NS_OF_END: u64 = 50;

fn latency(page: &mut PageImage, cable: &Cable) {
    for (name, value) in [
        ("rtt_support", 1),
        ("latency_res", 1),
        ("latency_accuracy", 4),
        ("local_phy_latency", NS_OF_END),
        (
            "round_trip_latency",
            2 * (NS_PER_METER * cable.length() + NS_OF_END),
        ),
    ] {
        page.set(name, &[value]);
    }
}

/// Celsius and volts of the module's registers.
const PER_DEGREE: f64 = 256.0;
const PER_VOLT: f64 = 10_000.0;

fn module(page: &mut PageImage, cable: &Cable, at: Instant) {
    let lanes = |of: &dyn Fn(usize) -> f64| {
        (0..cable.lanes)
            .map(|lane| of(lane) as u64)
            .collect::<Vec<_>>()
    };
    // An active optical cable has the same names at both ends.
    page.set_text("vendor_name", "Simulated");
    page.set_text(
        "vendor_pn",
        &format!("SIM-{}X-{:03}M", cable.lanes, cable.length()),
    );
    page.set_text("vendor_rev", "A1");
    page.set_text("vendor_sn", &format!("SIM{:010X}", cable.id >> 24));
    page.set_text("date_code", "200101");
    for (name, value) in [
        ("cable_technology", 0),
        ("cable_type", 1),
        ("cable_length", cable.length()),
        ("cable_identifier", 0),
        ("module_st", 3),
        ("wavelength", 850),
        ("voltage", (3.3 * PER_VOLT) as u64),
        ("voltage_high_th", (3.63 * PER_VOLT) as u64),
        ("voltage_low_th", (2.97 * PER_VOLT) as u64),
        ("temperature", (cable.celsius(at) * PER_DEGREE) as u64),
        ("temperature_high_th", (75.0 * PER_DEGREE) as u64),
        ("temperature_low_th", 0),
    ] {
        page.set(name, &[value]);
    }
    page.set(
        "rx_power_lane",
        &lanes(&|lane| cable.received_microwatts(lane, at)),
    );
    page.set("tx_power_lane", &lanes(&|_| 1000.0));
    // In units of 2 uA.
    page.set("tx_bias_lane", &lanes(&|_| 3750.0));
}
