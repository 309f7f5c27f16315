//! The devices that may be verified, and the substitutes of their names in a report.

use std::collections::BTreeSet;
use std::sync::Arc;

use ibnet::assignments::{AssignedDevice, Sampler};
use ibnet::config::Config;
use ibnet::sweep::routes::Cables;
use ibnet::topology::anonymise::StandIns;
use ibnet::verify::device::Subject;
use ibnet::verify::report::Identity;
use ibnet_record::types::{HcaName, Lid, NodeKind, PortNum};

use crate::failure::Failure;
use crate::watch::Reader;
use crate::workers::Work;

/// The devices of one HCA port.
pub(super) struct Fabric {
    /// Each device once, in the order of the plan.
    pub(super) devices: Vec<AssignedDevice>,
    /// The HCA port that reaches the devices.
    pub(super) ca: HcaName,
    /// Number of devices of other HCA ports of the plan, which are not verified.
    pub(super) elsewhere: usize,
    /// Cables of the plan, for directed routes.
    pub(super) cables: Arc<Cables>,
    /// Name of the first sampler, which the sweep of a slot needs.
    host: String,
    stand_ins: StandIns,
}

impl Fabric {
    /// Reads the plan or the net file, and takes the devices of the first HCA port.
    pub(super) fn load(config: &Config) -> Result<Self, Failure> {
        let shares = Work::load(config, &mut Reader::default())?
            .present()?
            .shares(config);
        let ca = shares
            .first()
            .map(|share| share.ca.clone())
            .unwrap_or_default();
        let (mut devices, mut elsewhere, mut seen) = (Vec::new(), 0, BTreeSet::new());
        for share in &shares {
            if share.ca != ca {
                elsewhere += share.block.devices.len();
                continue;
            }
            devices.extend(
                share
                    .block
                    .devices
                    .iter()
                    .filter(|device| seen.insert((device.guid, device.lid)))
                    .cloned(),
            );
        }
        let host = shares
            .first()
            .map(|share| share.block.host.clone())
            .unwrap_or_default();
        let cables = shares.first().map(|share| Arc::clone(share.cables()));
        // The assignments file does not contain the kind of a peer. HCAs and switches have
        // separate substitutes, and only those of the devices are needed.
        let stand_ins = StandIns::new(
            devices
                .iter()
                .map(|device| (device.kind, device.guid, &*device.name)),
        );
        Ok(Self {
            devices,
            ca,
            elsewhere,
            cables: cables.unwrap_or_default(),
            host,
            stand_ins,
        })
    }

    /// Returns a unicast LID that no device has. It is the largest one, because subnet managers
    /// assign LIDs from 1 upwards.
    pub(super) fn unused_lid(&self) -> Option<Lid> {
        let used: BTreeSet<Lid> = self.devices.iter().map(|device| device.lid).collect();
        (1..=u16::MAX)
            .rev()
            .map(Lid)
            .find(|lid| lid.is_unicast() && !used.contains(lid))
    }

    /// Returns a sampler block with one port of each of these devices.
    pub(super) fn block(&self, verified: &[Verified]) -> Sampler {
        let one_port = |Verified {
                            device, subject, ..
                        }: &Verified| {
            let ports = device
                .ports
                .iter()
                .filter(|port| port.num == subject.port)
                .cloned()
                .collect();
            AssignedDevice {
                ports,
                ..device.clone()
            }
        };
        let devices: Vec<_> = verified.iter().map(one_port).collect();
        let port_count = devices.iter().map(|device| device.ports.len() as u32).sum();
        Sampler {
            host: self.host.clone(),
            subnet: None,
            ca: None,
            ca_port: None,
            role: None,
            offset: None,
            port_count,
            devices,
        }
    }

    /// Returns what identifies a device in a report: its name and its GUID.
    pub(super) fn identity(&self, device: &AssignedDevice, port: PortNum) -> Identity {
        let AssignedDevice {
            guid,
            lid,
            kind,
            name,
            ..
        } = device;
        Identity {
            guid: self.stand_ins.guid(*guid),
            name: self.stand_ins.name(*kind, name),
            lid: *lid,
            port,
            kind: *kind,
        }
    }
}

/// A device that was verified.
pub(super) struct Verified {
    pub(super) device: AssignedDevice,
    pub(super) subject: Subject,
    /// Width and speed of the port, as a sweep reports them.
    pub(super) link: Option<String>,
}

/// Returns the port of a device that is verified: the first one in the plan.
pub(super) fn subject(device: &AssignedDevice) -> Option<Subject> {
    device.ports.first().map(|port| Subject {
        lid: device.lid,
        guid: device.guid,
        port: port.num,
    })
}

/// Describes a device with its LID and port, for a line.
pub(super) fn describe(device: &AssignedDevice, port: PortNum) -> String {
    let what = match device.kind {
        NodeKind::Switch => format!(", port {port}"),
        NodeKind::Hca | NodeKind::Router => String::new(),
    };
    format!("{} (LID {}{what})", device.name, device.lid)
}
