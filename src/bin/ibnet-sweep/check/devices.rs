//! Queries each device of a share once, and groups the faults by kind.

use std::collections::BTreeMap;

use ibnet::assignments::AssignedDevice;
use ibnet::cli::Progress;
use ibnet::mad::header::MadStatus;
use ibnet::mad::pma::{self, CLASS_PORT_INFO};
use ibnet::mad::query::Query;
use ibnet::mad::smp::{self, NodeInfo};
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::mad::vendor::NVIDIA;
use ibnet::sweep::driver::DeviceClient;
use ibnet::sweep::query::{Client, NoAnswer, planes as planes_of};
use ibnet_record::types::{Guid, Lid};

use super::report::{Report, Verdict};
use crate::failure::Failure;
use crate::workers::Share;

/// Max number of devices with the same fault that are listed. The others are only counted.
const MAX_NAMED: usize = 10;

/// Result of the queries of a device.
enum Found {
    /// The expected device of this vendor answers, and so does its performance management.
    Good(u32),
    /// Performance management answers, but the device does not answer NodeInfo.
    NoNodeInfo,
    /// The device reports another LID.
    Moved(Lid),
    /// Another device answers, with this GUID and name.
    Other(Guid, String),
    /// The device has fewer ports (this number) than are assigned.
    FewerPorts(u8),
    /// The device answers NodeInfo, but performance management does not answer.
    NoAgent(NoAnswer),
    /// The device answers neither NodeInfo nor performance management.
    Silent(NoAnswer),
}

/// Kinds of faults, in the order of the report, each with its verdict and remedy.
const FAULTS: [(Verdict, &str); 5] = [
    (
        Verdict::Fail,
        "the assignments are older than the fabric: run `ibnet-gen discover` and `ibnet-gen` again",
    ),
    (
        Verdict::Fail,
        "check that it is up (`ibnet-gen discover` lists it); if it is, its LID may have changed: run `ibnet-gen discover` and `ibnet-gen` again; a sweep reports its ports as `timeout` or `unreachable`",
    ),
    (
        Verdict::Fail,
        "performance management needs a P_Key of the device's partition (--pkey) and a service level that reaches it (--sl); or the device requires a PM_Key",
    ),
    (
        Verdict::Fail,
        "the assignments and the device differ: run `ibnet-gen discover` and `ibnet-gen` again",
    ),
    (
        Verdict::Warn,
        "it may require an M_Key: its counters are swept, but its records are `unverified`, and its links are those of the net file",
    ),
];

impl Found {
    /// Returns the index of the fault in [`FAULTS`] and a description, or `None` if there is no
    /// fault.
    fn fault(&self) -> Option<(usize, String)> {
        match self {
            Self::Good(_) => None,
            Self::Moved(lid) => Some((0, format!("has LID {lid} now"))),
            Self::Other(guid, name) => Some((
                0,
                format!("another device answers at this LID: {guid} `{name}`"),
            )),
            Self::Silent(NoAnswer::NotSent(errno)) => {
                Some((1, NoAnswer::NotSent(*errno).to_string()))
            }
            Self::Silent(_) => Some((1, "does not answer".to_owned())),
            Self::NoAgent(reason) => Some((
                2,
                format!(
                    "answers NodeInfo, but not ClassPortInfo of performance management: {reason}"
                ),
            )),
            Self::FewerPorts(ports) => {
                Some((3, format!("has {ports} ports, fewer than are assigned")))
            }
            Self::NoNodeInfo => Some((4, "does not answer NodeInfo".to_owned())),
        }
    }
}

impl Report {
    /// Queries each device of a share.
    pub(super) fn devices<T: Transport>(
        &mut self,
        share: &Share,
        mut client: DeviceClient<T>,
        (verbose, has_registers): (bool, bool),
    ) -> Result<(), Failure> {
        let devices = &share.block.devices;
        let bar = Progress::new(devices.len() as u64, "devices");
        let mut faults: [Vec<(&AssignedDevice, String)>; FAULTS.len()] = Default::default();
        let (mut good, mut ways) = (Vec::new(), [0; 2]);
        // Number of devices and of their ports, by the number of planes of each port.
        let mut planes: BTreeMap<u64, [usize; 2]> = BTreeMap::new();
        for device in devices {
            let found = query(&mut client, device).map_err(Failure::TransportLost)?;
            match found.fault() {
                Some((kind, description)) => faults[kind].push((device, description)),
                None => {
                    good.push(device);
                    if let Some(port) = device
                        .ports
                        .first()
                        .filter(|_| has_registers && matches!(found, Found::Good(NVIDIA)))
                        && let Some(number @ 2..) =
                            planes_of(port.num, &mut client).map_err(Failure::TransportLost)?
                    {
                        let [devices, ports] = planes.entry(number).or_default();
                        (*devices, *ports) = (*devices + 1, *ports + device.ports.len());
                    }
                }
            }
            ways[usize::from(client.route().is_some())] += 1;
            bar.advance();
        }
        bar.finish();
        let [by_lid, by_route] = ways;
        let found = format!("{by_lid} devices are asked by LID, {by_route} by a directed route");
        self.line(Verdict::Ok, "SMPs", &found, None)?;
        for (planes, [devices, ports]) in planes {
            let found = format!(
                "{ports} ports of {devices} devices have {planes} planes each, which count as one port; \
                 assumed of all ports of a device by its first one; not seen on hardware"
            );
            self.line(Verdict::Ok, "planes", &found, None)?;
        }
        let name = |device: &AssignedDevice| {
            format!("{} (LID {}, {})", device.name, device.lid, device.guid)
        };
        for device in good.iter().filter(|_| verbose) {
            self.line(Verdict::Ok, "device", &name(device), None)?;
        }
        for ((verdict, remedy), of_kind) in FAULTS.into_iter().zip(&faults) {
            for (place, (device, description)) in of_kind.iter().take(MAX_NAMED).enumerate() {
                // The remedy is printed once, after the last device with this fault.
                let is_last = place + 1 == of_kind.len();
                self.line(
                    verdict,
                    "device",
                    &format!("{}: {description}", name(device)),
                    is_last.then_some(remedy),
                )?;
            }
            if let Some(more) = of_kind
                .len()
                .checked_sub(MAX_NAMED)
                .filter(|more| *more > 0)
            {
                self.line(
                    verdict,
                    "devices",
                    &format!("{more} more with this fault"),
                    Some(remedy),
                )?;
            }
        }
        let found = format!(
            "{} of {} answer NodeInfo and performance management",
            good.len(),
            devices.len()
        );
        let has_failed = faults
            .iter()
            .zip(FAULTS)
            .any(|(of_kind, (verdict, _))| verdict == Verdict::Fail && !of_kind.is_empty());
        if good.is_empty() && has_failed {
            let remedy = "no device answers: check that this HCA port belongs to the fabric (--ca), and check --pkey and --sl";
            return self.line(Verdict::Fail, "devices", &found, Some(remedy));
        }
        // The lines above have reported the devices with faults.
        self.line(Verdict::Ok, "devices", &found, None)
    }
}

/// Queries NodeInfo and ClassPortInfo of a device.
fn query<T: Transport>(
    client: &mut DeviceClient<T>,
    device: &AssignedDevice,
) -> Result<Found, TransportError> {
    client.turn_to(device.lid);
    let subnet = |attribute| {
        Query::Smp(smp::Query {
            attribute,
            modifier: 0,
        })
    };
    let info = client
        .request(&subnet(smp::NODE_INFO))?
        .answer
        .map(|(_, data)| NodeInfo::parse(&data));
    // By a route, the device itself reports its LID.
    if let (Ok(info), Some(_)) = (info, client.route())
        && info.port_guid == device.guid
    {
        let query = Query::Smp(smp::Query {
            attribute: smp::PORT_INFO,
            modifier: info.base_port().0.into(),
        });
        if let Ok((_, data)) = client.request(&query)?.answer
            && let lid = smp::base_lid(&data)
            && lid != device.lid
        {
            return Ok(Found::Moved(lid));
        }
    }
    if let Ok(info) = info
        && info.port_guid != device.guid
    {
        let name = client.request(&subnet(smp::NODE_DESCRIPTION))?.answer;
        return Ok(Found::Other(
            info.port_guid,
            name.map(|(_, data)| smp::node_description(&data))
                .unwrap_or_default(),
        ));
    }
    let agent = client
        .request(&Query::Pma(pma::Query {
            attribute: CLASS_PORT_INFO.id,
            port: None,
        }))?
        .answer;
    let last = device
        .ports
        .iter()
        .map(|port| port.num.0)
        .max()
        .unwrap_or(0);
    Ok(match (info, agent) {
        // An agent that reports "busy" exists.
        (Ok(info), Ok(_) | Err(NoAnswer::Refused(MadStatus::BUSY))) if info.ports < last => {
            Found::FewerPorts(info.ports)
        }
        (Ok(info), Ok(_) | Err(NoAnswer::Refused(MadStatus::BUSY))) => Found::Good(info.vendor_id),
        (Ok(_), Err(reason)) => Found::NoAgent(reason),
        (Err(_), Ok(_)) => Found::NoNodeInfo,
        (Err(reason), Err(_)) => Found::Silent(reason),
    })
}
