//! Checks an HCA port: link layer, state, permissions, subnet manager, P_Key.

use std::fs;
use std::os::unix::fs::MetadataExt;

use ibnet::config::Config;
use ibnet::mad::transport::umad::{HcaPort, UmadError, UmadTransport, ports};
use ibnet_record::types::HcaName;

use super::report::{Report, Verdict};
use crate::failure::Failure;

/// The bit of a P_Key that marks a full member.
const FULL: u16 = 0x8000;

impl Report {
    /// Checks an HCA port. If nothing failed, returns an open transport, the index of the P_Key,
    /// and the P_Key table.
    pub(super) fn hca(
        &mut self,
        config: &Config,
        ca: &HcaName,
    ) -> Result<Option<(UmadTransport, u16, Vec<u16>)>, Failure> {
        let port = match ports::find(ca) {
            Ok(port) => port,
            Err(error) => {
                let what = match error {
                    UmadError::NotInfiniband { .. } => "link layer",
                    UmadError::NotActive { .. } | UmadError::NoneActive { .. } => "port state",
                    _ => "HCA",
                };
                return self.fail(what, &error).map(|()| None);
            }
        };
        self.line(Verdict::Ok, "HCA", &port.to_string(), None)?;
        self.line(Verdict::Ok, "link layer", &port.link_layer, None)?;
        self.line(
            Verdict::Ok,
            "port state",
            &format!("active, LID {}", port.lid),
            None,
        )?;
        if !port.smi.is_empty() {
            let (ca, num) = port.of_smps();
            let found = format!("{ca}:{num}, the device of the same port for SMPs");
            self.line(Verdict::Ok, "SMI", &found, None)?;
        }
        let transport = self.step("permissions", UmadTransport::open(&port), |_| {
            format!("{port} can be opened")
        })?;
        self.check_modes()?;
        let prefix = format!("prefix {:#018x}", port.gid.prefix);
        if port.sm_lid.0 == 0 {
            let remedy =
                "packets may not reach their LIDs; check that a subnet manager runs (`sminfo`)";
            self.line(
                Verdict::Fail,
                "subnet",
                &format!("{prefix}, no subnet manager is known"),
                Some(remedy),
            )?;
        } else {
            self.line(
                Verdict::Ok,
                "subnet",
                &format!("{prefix}, subnet manager at LID {}", port.sm_lid),
                None,
            )?;
        }
        let pkey_index = self.pkey(&port, config.pkey)?;
        Ok(transport
            .zip(pkey_index)
            .map(|(transport, pkey_index)| (transport, pkey_index, port.pkeys)))
    }

    fn pkey(&mut self, port: &HcaPort, pkey: u16) -> Result<Option<u16>, Failure> {
        match membership(port, pkey) {
            Ok(Membership {
                verdict,
                found,
                remedy,
                index,
            }) => self.line(verdict, "P_Key", &found, remedy).map(|()| index),
            Err(error) => self.fail("P_Key", &error).map(|()| None),
        }
    }

    /// Warns if every user may open a umad device, because every user could then send any MAD.
    fn check_modes(&mut self) -> Result<(), Failure> {
        let nodes = fs::read_dir("/dev/infiniband")
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let mut open: Vec<String> = nodes
            .filter(|node| node.file_name().to_string_lossy().starts_with("umad"))
            .filter(|node| node.metadata().is_ok_and(|found| found.mode() & 0o006 != 0))
            .map(|node| node.path().display().to_string())
            .collect();
        open.sort();
        if open.is_empty() {
            return Ok(());
        }
        let remedy = "a process that opens one can send any management packet: give the devices to a group with this udev rule:\n\
                      SUBSYSTEM==\"infiniband_mad\", KERNEL==\"umad*\", GROUP=\"ibnet\", MODE=\"0660\"";
        self.warn(
            "permissions",
            &format!("every user of this host may open {}", open.join(" ")),
            remedy,
        )
    }
}

/// Membership of this port in the partition of a P_Key.
struct Membership {
    verdict: Verdict,
    found: String,
    remedy: Option<&'static str>,
    /// Index of the P_Key in the port's table.
    index: Option<u16>,
}

fn membership(port: &HcaPort, pkey: u16) -> Result<Membership, UmadError> {
    const LIMITED: &str = "a limited member cannot reach another limited member, and most devices are limited members: make this host a full member in the subnet manager, or give another P_Key with --pkey";
    const FULL_NEEDED: &str = "only full members answer a limited member: give the P_Key of a full member with --pkey, such as 0xffff";
    match port.pkey_index(pkey) {
        Ok(index) if pkey & FULL == 0 => Ok(Membership {
            verdict: Verdict::Warn,
            found: format!("{pkey:#06x} is that of a limited member, at index {index}"),
            remedy: Some(FULL_NEEDED),
            index: Some(index),
        }),
        Ok(index) => Ok(Membership {
            verdict: Verdict::Ok,
            found: format!("{pkey:#06x}, full member, at index {index}"),
            remedy: None,
            index: Some(index),
        }),
        Err(_) if pkey & FULL != 0 && port.pkeys.contains(&(pkey & !FULL)) => Ok(Membership {
            verdict: Verdict::Fail,
            found: format!(
                "{pkey:#06x}: this host is only a limited member ({:#06x})",
                pkey & !FULL
            ),
            remedy: Some(LIMITED),
            index: None,
        }),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use ibnet::mad::sa::Gid;
    use ibnet_record::types::{Lid, PortNum};

    use super::*;

    #[test]
    fn limited_membership_is_reported() {
        let port = |pkeys: &[u16]| HcaPort {
            ca: "mlx5_0".to_owned(),
            port: PortNum(1),
            lid: Lid(7),
            sm_lid: Lid(1),
            sm_sl: 0,
            gid: Gid::default(),
            state: 4,
            link_layer: "InfiniBand".to_owned(),
            pkeys: pkeys.to_vec(),
            ..HcaPort::default()
        };
        let found = |pkeys: &[u16], pkey| {
            membership(&port(pkeys), pkey).map(|membership| {
                (
                    membership.verdict.word(),
                    membership.found,
                    membership.index,
                )
            })
        };
        let full = found(&[0x7fff, 0xffff], 0xffff).expect("it is in the table");
        assert_eq!(
            full,
            ("ok", "0xffff, full member, at index 1".to_owned(), Some(1))
        );
        let limited = found(&[0x7fff], 0x7fff).expect("it is in the table");
        assert_eq!(
            limited,
            (
                "warn",
                "0x7fff is that of a limited member, at index 0".to_owned(),
                Some(0)
            )
        );
        let only_limited = found(&[0x7fff], 0xffff).expect("the limited one is in the table");
        assert_eq!(
            only_limited,
            (
                "fail",
                "0xffff: this host is only a limited member (0x7fff)".to_owned(),
                None
            )
        );
        assert!(matches!(
            found(&[0x7fff], 0x8001),
            Err(UmadError::NoPkey { .. })
        ));
    }
}
