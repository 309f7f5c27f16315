//! `verify --vendor`: reads every register of one device of each model and firmware once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use ibnet::cli::{self, Progress, Staged};
use ibnet::config::Config;
use ibnet::mad::query::Query;
use ibnet::mad::smp::{self, NodeInfo};
use ibnet::mad::transport::Transport;
use ibnet::mad::transport::sim::SimTransport;
use ibnet::mad::transport::umad::UmadTransport;
use ibnet::mad::vendor::NVIDIA;
use ibnet::sweep::driver::{Address, Clock, DeviceClient, SystemClock};
use ibnet::sweep::query::Client;
use ibnet::time::Instant;
use ibnet::verify::models::{self, Model};
use ibnet::verify::vendor::{self, VendorDevice, VendorReport};
use ibnet_record::types::Lid;

use super::fabric::{self, Fabric};
use super::run::client;
use crate::check::report::{Report, Verdict};
use crate::failure::Failure;
use crate::{simulation, workers};

/// Max number of devices that are asked for their model and firmware.
const MAX_IDENTIFIED: usize = 1000;

/// Max number of MADs, time between two of them, and longest time: 50 a second, for a minute.
const MAX_MADS: u32 = 2900;
const SPACING: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(60);
/// Longest time to find models and firmwares: 1,000 devices with two MADs each. The rest is for
/// registers.
const LONGEST_SEARCH: Duration = Duration::from_secs(45);

/// An odd number whose multiples are far from each other.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Max wait for the reply to one MAD. Firmware is slow.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Sends MADs at a limited rate.
struct Pace {
    clock: SystemClock,
    started: Instant,
    sent: u32,
}

impl Pace {
    /// Counts MADs and waits until the next one may be sent. Returns false if none may.
    fn sent(&mut self, mads: u32) -> bool {
        self.sent += mads;
        std::thread::sleep(wait(self.sent, self.clock.now() - self.started));
        self.may_send()
    }

    fn may_send(&self) -> bool {
        is_within(self.sent, self.clock.now() - self.started, LONGEST)
    }

    fn may_search(&self) -> bool {
        is_within(self.sent, self.clock.now() - self.started, LONGEST_SEARCH)
    }
}

/// Returns how long the next MAD has to wait after a number of MADs and a time.
fn wait(sent: u32, passed: Duration) -> Duration {
    (SPACING * sent).saturating_sub(passed)
}

/// Returns whether a MAD may be sent after a number of MADs and a time. A device that does not
/// answer takes more time than MADs.
fn is_within(sent: u32, passed: Duration, longest: Duration) -> bool {
    sent < MAX_MADS && passed < longest
}

/// Reads the registers, prints a line for each device, and writes the report.
pub(super) fn run(
    config: &Config,
    per_model: usize,
    shows_octets: bool,
    report: Option<&Path>,
) -> Result<u8, Failure> {
    let fabric = Fabric::load(config)?;
    let address = |pkey_index, pkey_table| Address {
        lid: Lid(0),
        sl: config.engine.sl,
        pkey_index,
        pkey_table,
        timeout: TIMEOUT,
    };
    let document = if let Some(simulated) = simulation::build(config)? {
        let transport = SimTransport::new(simulated);
        let client = client(transport, address(0, Vec::new()), (config, &fabric));
        read(client, &fabric, per_model)?
    } else {
        let (port, pkey_index) = workers::hca_port(config, &fabric.ca)?;
        let transport = UmadTransport::open(&port)?;
        let address = address(pkey_index, port.pkeys);
        read(
            client(transport, address, (config, &fabric)),
            &fabric,
            per_model,
        )?
    };
    if shows_octets {
        for reply in document.devices.iter().flat_map(|device| &device.replies) {
            let found = reply.missing.as_deref().unwrap_or(&reply.octets);
            cli::print(format!("{} {} {found}\n", reply.page, reply.block).as_bytes())
                .map_err(Failure::Stdout)?;
        }
    }
    if let Some(path) = report {
        Staged::new(path, document.to_json().as_bytes())?.commit()?;
    }
    let next = match report {
        _ if document.devices.is_empty() => "no device has registers, so there is nothing to send\n".to_owned(),
        Some(path) => format!("attach {} to an issue of the project\n", path.display()),
        None => "run the command again with --report vendor.json, and attach the file to an issue of the project\n".to_owned(),
    };
    let (devices, mads) = (document.devices.len(), document.mads_sent);
    cli::print(format!("\n{devices} devices, {mads} MADs sent\n{next}").as_bytes())
        .map_err(Failure::Stdout)?;
    Ok(0)
}

fn read<T: Transport>(
    mut client: DeviceClient<T, SystemClock>,
    fabric: &Fabric,
    per_model: usize,
) -> Result<VendorReport, Failure> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut document = VendorReport::new(format!("Linux {}", release.trim()));
    let mut lines = Report::default();
    let clock = SystemClock::start();
    let mut pace = Pace {
        started: clock.now(),
        clock,
        sent: 0,
    };
    let mut asked = models::spread(fabric.devices.len(), MAX_IDENTIFIED);
    // Devices that are down are often neighbours, and each takes the time of a hundred others.
    asked.sort_by_key(|place| (*place as u64).wrapping_mul(SCATTER));
    let bar = Progress::new(asked.len() as u64, "devices");
    let (mut found, mut tried, mut without_reply, mut silent) = (BTreeMap::new(), 0, 0, 0);
    for place in &asked {
        let device = &fabric.devices[*place];
        client.turn_to(device.lid);
        let node_info = Query::Smp(smp::Query {
            attribute: smp::NODE_INFO,
            modifier: 0,
        });
        let response = client.request(&node_info).map_err(Failure::TransportLost)?;
        let info = response.answer.ok().map(|(_, data)| NodeInfo::parse(&data));
        tried += 1;
        without_reply += usize::from(info.is_none());
        let may_send = pace.sent(response.mads);
        if let Some(info) = info.filter(|info| info.vendor_id == NVIDIA && may_send) {
            let (general, mads) =
                vendor::general_info(&mut client).map_err(Failure::TransportLost)?;
            pace.sent(mads);
            match general {
                Some(general) => found
                    .entry((Model::of(&info), general.firmware_version()))
                    .or_insert_with(Vec::new)
                    .push((device, general)),
                None => silent += 1,
            }
        }
        bar.advance();
        if !pace.may_search() {
            break;
        }
    }
    bar.finish();
    let left = match asked.len() - tried {
        0 => String::new(),
        left => format!("; {left} devices were not asked in time"),
    };
    let what = format!(
        "{} models and firmwares of NVIDIA; no reply to NodeInfo from {without_reply} devices, to GeneralInfo from {silent}{left}",
        found.len()
    );
    lines.line(Verdict::Ok, "fabric", &what, None)?;
    let mut unread = 0;
    for ((model, firmware), devices) in &found {
        for place in models::spread(devices.len(), per_model) {
            let (device, general) = &devices[place];
            let Some(subject) = fabric::subject(device) else {
                continue;
            };
            if !pace.may_send() {
                unread += 1;
                continue;
            }
            client.turn_to(subject.lid);
            let mut result = VendorDevice::new(model, general);
            if general.has_registers() {
                let read = result.read(device.kind, subject.port, &mut client, |mads| {
                    pace.sent(mads)
                });
                read.map_err(Failure::TransportLost)?;
            }
            let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for reply in &result.replies {
                if let Some(reason) = &reply.missing {
                    missing.entry(reason).or_default().push(&reply.page);
                }
            }
            let all = result.replies.len();
            let answered = all - missing.values().map(Vec::len).sum::<usize>();
            let mut reasons: String = missing
                .iter()
                .map(|(reason, pages)| format!("; {reason}: {}", pages.join(" ")))
                .collect();
            if !pace.may_send() {
                reasons.push_str("; the others were not sent in time");
            }
            let verdict = if answered > 0 {
                Verdict::Ok
            } else {
                Verdict::Warn
            };
            let found = format!(
                "{}, firmware {firmware}: {answered} of {all} requests answered{reasons}",
                fabric::describe(device, subject.port)
            );
            lines.line(verdict, "device", &found, None)?;
            document.devices.push(result);
        }
    }
    if unread > 0 {
        lines.line(
            Verdict::Warn,
            "device",
            &format!("{unread} devices were not read in time"),
            Some("run it again when fewer devices of the plan are down, or with a plan of these devices"),
        )?;
    }
    document.mads_sent = pace.sent.into();
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mads_are_50_a_second_and_end_after_a_minute() {
        assert_eq!(wait(50, Duration::ZERO), Duration::from_secs(1));
        assert_eq!(wait(50, Duration::from_secs(2)), Duration::ZERO);
        assert!(is_within(2899, Duration::from_secs(59), LONGEST));
        assert!(!is_within(2900, Duration::from_secs(59), LONGEST));
        // Devices that do not answer use the time, not the MADs.
        assert!(!is_within(100, Duration::from_secs(60), LONGEST));
        assert!(!is_within(100, Duration::from_secs(45), LONGEST_SEARCH));
        assert!(is_within(100, Duration::from_secs(45), LONGEST));
    }
}
