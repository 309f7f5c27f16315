//! The HCA ports of this host, and the choice of the port that sends.
//!
//! This module reads sysfs only with libibumad or with `open` of the C library, because ibsim
//! intercepts only these calls.

use std::ffi::{CStr, CString, c_int};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::FromRawFd as _;

use ibnet_record::types::{Guid, HcaName, Lid, PortNum};
use miette::Diagnostic;

use super::{Locator, c_name, c_port, lock_library, sys, text};
use crate::mad::exchange::Local;
use crate::mad::sa::Gid;

/// A port of an HCA of this host.
///
/// A port of a planarized fabric (XDR) has two devices: the *GSI* device, to which the name and all
/// other fields belong, for general management, and the *SMI* device for subnet management. Both
/// have the same port GUID. The SMI device has a port for each plane.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HcaPort {
    /// Name of the HCA, such as `mlx5_0`.
    pub ca: String,
    /// Port number.
    pub port: PortNum,
    /// Base LID, or 0 if the subnet manager has not assigned one.
    pub lid: Lid,
    /// LID of the subnet manager, or 0 if there is none.
    pub sm_lid: Lid,
    /// Service level of MADs to the subnet manager.
    pub sm_sl: u8,
    /// GID at index 0.
    pub gid: Gid,
    /// Port state as in PortInfo. 4 means active.
    pub state: u32,
    /// Link layer: `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// P_Key table. Unused entries are 0.
    pub pkeys: Vec<u16>,
    /// CapabilityMask.
    pub capability_mask: u32,
    /// Ports of the SMI device, the one that sends first. Empty if the port is a single device.
    pub smi: Vec<(String, PortNum)>,
}

/// Reason why this host cannot send MADs, with the remedy.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum UmadError {
    /// libibumad cannot be initialized.
    #[error("cannot initialize libibumad")]
    #[diagnostic(help(
        "load the kernel module ib_umad (`modprobe ib_umad`) and check that `ibstat` works"
    ))]
    Init(#[source] io::Error),
    /// The host has no HCA.
    #[error("cannot find an InfiniBand adapter (HCA) on this host")]
    #[diagnostic(help(
        "check `ibstat -l`, and load the driver of the HCA (such as mlx5_ib) and ib_umad. To try ibnet without InfiniBand: ibnet-sweep --simulate FILE"
    ))]
    NoHca,
    /// The host has no HCA or port of that name.
    #[error("cannot use HCA port {wanted}: this host does not have it")]
    #[diagnostic(help("this host has: {have}"))]
    NoSuchPort {
        /// Configured name of the HCA port.
        wanted: String,
        /// The HCA ports of this host.
        have: String,
    },
    /// The port is an Ethernet port, for instance with RoCE.
    #[error("cannot use {port}: its link layer is {link_layer}, not InfiniBand")]
    #[diagnostic(help(
        "performance management MADs exist on InfiniBand only. This host has: {have}"
    ))]
    NotInfiniband {
        /// The port.
        port: String,
        /// Link layer of the port.
        link_layer: String,
        /// The HCA ports of this host.
        have: String,
    },
    /// No port of the host is active.
    #[error("cannot find an active InfiniBand port on this host")]
    #[diagnostic(help(
        "check the cable, and the subnet manager (`sminfo`). This host has: {have}"
    ))]
    NoneActive {
        /// The HCA ports of this host.
        have: String,
    },
    /// The configured port is not active.
    #[error("cannot use {port}: the port is {state}, not active")]
    #[diagnostic(help(
        "check the cable, and the subnet manager (`sminfo`). This host has: {have}"
    ))]
    NotActive {
        /// The port.
        port: String,
        /// State of the port.
        state: &'static str,
        /// The HCA ports of this host.
        have: String,
    },
    /// Several ports are active and the configuration names none of them.
    #[error(
        "cannot choose an HCA port: several are active, and each may belong to another fabric ({have})"
    )]
    #[diagnostic(help(
        "name the port that sends: --ca {example}, or ca = \"{example}\" in ibnet.toml"
    ))]
    SeveralActive {
        /// The active HCA ports of this host.
        have: String,
        /// One of these ports.
        example: String,
    },
    /// The process has no permission to open the device.
    #[error("cannot open {port}: {source}")]
    #[diagnostic(help(
        "/dev/infiniband/umad* belongs to root; run as root, or give a group the devices with this udev rule:\n\
         SUBSYSTEM==\"infiniband_mad\", KERNEL==\"umad*\", GROUP=\"ibnet\", MODE=\"0660\""
    ))]
    Permission {
        /// The port.
        port: String,
        /// Error of open(2).
        source: io::Error,
    },
    /// The device cannot be opened for another reason.
    #[error("cannot open {port}: {source}")]
    #[diagnostic(help(
        "load the kernel module ib_umad (`modprobe ib_umad`) and check `ls -l /dev/infiniband`"
    ))]
    Open {
        /// The port.
        port: String,
        /// Error of open(2).
        source: io::Error,
    },
    /// The kernel's interface is older than Linux 2.6.24 (2008) and has no P_Key index.
    #[error("cannot use the umad device: its header has {header} bytes instead of 64")]
    #[diagnostic(help("the kernel's umad interface has no P_Key index; use a newer kernel"))]
    OldKernel {
        /// Length of the header that libibumad reports.
        header: usize,
    },
    /// The kernel refused the agent for performance management.
    #[error("cannot register an agent for performance management on {port}: {source}")]
    #[diagnostic(help(
        "one open device holds at most 32 agents, and the port must be an InfiniBand port; see `ibstat`"
    ))]
    Register {
        /// The port.
        port: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The kernel refused the agent for reports.
    #[error("cannot receive the reports of the subnet manager on {port}: {}", reports_refused(.source))]
    #[diagnostic(help(
        "only one program can receive reports on a port; another worker of ibnet-sweep or a program such as srp_daemon has it; set traps = false"
    ))]
    RegisterReports {
        /// The port.
        port: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The P_Key table of the port does not contain the configured key.
    #[error("cannot use P_Key {wanted:#06x} on {port}: its P_Key table has {have}")]
    #[diagnostic(help(
        "choose a key of the table with --pkey, or add the host to the partition in the subnet manager"
    ))]
    NoPkey {
        /// The port.
        port: String,
        /// The configured key.
        wanted: u16,
        /// The keys of the table.
        have: String,
    },
}

/// Returns why the kernel refused the agent for reports: EINVAL means that there is another one.
fn reports_refused(source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::EINVAL) => {
            format!("another program on this host receives them, and only one can ({source})")
        }
        _ => source.to_string(),
    }
}

impl HcaPort {
    /// Returns whether the port is an active InfiniBand port; no other port can send.
    pub fn is_active(&self) -> bool {
        self.is_infiniband() && self.state == ACTIVE
    }

    /// Returns the address of the port on its subnet.
    fn local(&self) -> Local {
        Local {
            lid: self.lid,
            sm_lid: self.sm_lid,
            sm_sl: self.sm_sl,
            gid: self.gid,
            port: self.of_smps().1,
            has_smi: !self.smi.is_empty(),
            is_down: self.state != ACTIVE,
        }
    }

    /// Returns the name of the HCA and the number of the port that send SMPs.
    pub fn of_smps(&self) -> (&str, PortNum) {
        let smi = self.smi.first();
        smi.map_or((&self.ca, self.port), |(ca, port)| (ca, *port))
    }

    /// Returns name and port number.
    fn name(&self) -> HcaName {
        HcaName {
            ca: Some(self.ca.clone()),
            port: Some(self.port),
        }
    }

    fn is_infiniband(&self) -> bool {
        // If the kernel has no file `link_layer`, libibumad returns "IB".
        ["InfiniBand", "IB"].contains(&self.link_layer.as_str())
    }

    /// Returns the index of a P_Key in the table of the port. The membership bit must match too.
    ///
    /// # Errors
    /// Returns an error if the table does not contain the key.
    pub fn pkey_index(&self, wanted: u16) -> Result<u16, UmadError> {
        let exact = self.pkeys.iter().position(|pkey| *pkey == wanted);
        exact
            .and_then(|index| u16::try_from(index).ok())
            .ok_or_else(|| {
                let have: Vec<_> = self
                    .pkeys
                    .iter()
                    .filter(|pkey| **pkey != 0)
                    .map(|pkey| format!("{pkey:#06x}"))
                    .collect();
                UmadError::NoPkey {
                    port: self.to_string(),
                    wanted,
                    have: have.join(" "),
                }
            })
    }
}

impl fmt::Display for HcaPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ca, self.port)
    }
}

impl UmadError {
    pub(super) fn no_such_port(hca: &HcaPort) -> Self {
        Self::NoSuchPort {
            wanted: hca.to_string(),
            have: String::new(),
        }
    }

    pub(super) fn open(hca: &HcaPort, source: io::Error) -> Self {
        let port = hca.to_string();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { port, source },
            _ => Self::Open { port, source },
        }
    }
}

/// Port state `IB_PORT_ACTIVE`.
const ACTIVE: u32 = 4;

fn state_name(state: u32) -> &'static str {
    match state {
        1 => "down",
        2 => "initialising (no subnet manager has configured it)",
        3 => "armed",
        ACTIVE => "active",
        _ => "in an unknown state",
    }
}

/// Finds the port that sends: the configured one, or the only active InfiniBand port.
///
/// # Errors
/// Returns an error if there is no such port, or if several ports are active and none is
/// configured.
pub fn find(wanted: &HcaName) -> Result<HcaPort, UmadError> {
    choose(list()?, wanted)
}

/// Finds a port again after its HCA has disappeared. Usually this is the port with the same GUID,
/// which may have another name now. If no port has this GUID, the HCA may have been replaced, so a
/// port with the old name is accepted, unless its GUID is in `others`: it is then another port
/// that this host had before.
///
/// # Errors
/// Returns an error if the port does not exist or is not active.
pub fn find_again(before: &HcaPort, others: &[Guid]) -> Result<HcaPort, UmadError> {
    choose_again(list()?, before, others)
}

fn choose_again(
    ports: Vec<HcaPort>,
    before: &HcaPort,
    others: &[Guid],
) -> Result<HcaPort, UmadError> {
    let name = same_port(&ports, before, others)
        .ok_or(UmadError::NoHca)?
        .name();
    choose(ports, &name)
}

/// Returns the port that [`find_again`] finds, even if it is not active.
fn same_port<'a>(ports: &'a [HcaPort], before: &HcaPort, others: &[Guid]) -> Option<&'a HcaPort> {
    let of_guid = ports.iter().find(|port| port.gid.guid == before.gid.guid);
    let of_name = || {
        ports
            .iter()
            .find(|port| port.name() == before.name() && !others.contains(&port.gid.guid))
    };
    of_guid.or_else(of_name)
}

/// Returns the GUIDs of the ports of this host that are not `port`.
pub fn other_guids(port: &HcaPort) -> Vec<Guid> {
    let ports = list().unwrap_or_default();
    ports
        .iter()
        .map(|other| other.gid.guid)
        .filter(|guid| *guid != port.gid.guid)
        .collect()
}

/// Returns all ports of all HCAs of this host.
///
/// # Errors
/// Returns an error if libibumad cannot be initialized, or the host has no HCA.
#[expect(unsafe_code, reason = "libibumad")]
pub fn list() -> Result<Vec<HcaPort>, UmadError> {
    {
        let _library = lock_library();
        // SAFETY: takes no argument and may be called again. The lock excludes other writers of the
        // library's globals. Every call stores the same value: the ABI version of the kernel.
        if unsafe { sys::umad_init() } < 0 {
            return Err(UmadError::Init(io::Error::last_os_error()));
        }
    }
    let mut names = [[0; sys::UMAD_CA_NAME_LEN as usize]; sys::UMAD_MAX_DEVICES as usize];
    // SAFETY: the array has space for the number of names that the second argument gives.
    let count = unsafe { sys::umad_get_cas_names(names.as_mut_ptr(), names.len() as c_int) };
    let names = &names[..usize::try_from(count).unwrap_or(0).min(names.len())];
    let ports: Vec<_> = names
        .iter()
        .map(|name| text(name))
        .flat_map(|ca| (1..=port_count(&ca)).filter_map(move |port| port_of(&ca, PortNum(port))))
        .collect();
    if ports.is_empty() {
        Err(UmadError::NoHca)
    } else {
        Ok(paired(ports))
    }
}

/// Bit of CapabilityMask: the port is a GSI device, and another device with the same port GUID has
/// its subnet management.
const IS_SM_DISABLED: u32 = 1 << 10;

/// Joins GSI and SMI devices to ports, like `umad_get_smi_gsi_pairs` of newer versions of libibumad:
/// InfiniBand ports with the same GUID, of which only the GSI device has [`IS_SM_DISABLED`].
fn paired(ports: Vec<HcaPort>) -> Vec<HcaPort> {
    let is_gsi = |port: &HcaPort| port.capability_mask & IS_SM_DISABLED != 0;
    let is_pair = |gsi: &HcaPort, smi: &HcaPort| {
        let (both, same) = ([gsi, smi], gsi.gid.guid == smi.gid.guid);
        both.into_iter().all(HcaPort::is_infiniband) && same && is_gsi(gsi) && !is_gsi(smi)
    };
    let with_smi = |gsi: &HcaPort| {
        let mut smi: Vec<_> = ports.iter().filter(|smi| is_pair(gsi, smi)).collect();
        smi.sort_by_key(|port| !port.is_active());
        HcaPort {
            smi: smi
                .iter()
                .map(|port| (port.ca.clone(), port.port))
                .collect(),
            ..gsi.clone()
        }
    };
    let is_half = |smi: &HcaPort| ports.iter().any(|gsi| is_pair(gsi, smi));
    let whole = ports.iter().filter(|port| !is_half(port));
    whole.map(with_smi).collect()
}

/// Returns the number of ports of an HCA, or 0 if it cannot be read.
#[expect(unsafe_code, reason = "libibumad")]
fn port_count(ca: &str) -> u8 {
    let Some(name) = c_name(ca) else { return 0 };
    // SAFETY: the struct consists of numbers, names and pointers, for which zeros are a valid
    // value.
    let mut found: sys::umad_ca = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero. The library fills the struct.
    if unsafe { sys::umad_get_ca(name.as_ptr(), &raw mut found) } < 0 {
        return 0;
    }
    let ports = found.numports;
    // SAFETY: umad_get_ca filled the struct, and nothing uses it afterwards.
    unsafe { sys::umad_release_ca(&raw mut found) };
    u8::try_from(ports).unwrap_or(0)
}

/// Reads everything that libibumad reports about a port: about ten files of sysfs, and the P_Key
/// table.
///
/// Returns `None` if the port does not exist or cannot be read.
#[expect(unsafe_code, reason = "libibumad")]
fn port_of(ca: &str, port: PortNum) -> Option<HcaPort> {
    let name = c_name(ca)?;
    // SAFETY: the struct consists of numbers, names and pointers, for which zeros are a valid
    // value.
    let mut found: sys::umad_port = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero. The library fills the struct.
    if unsafe { sys::umad_get_port(name.as_ptr(), c_port(port), &raw mut found) } < 0 {
        return None;
    }
    let pkeys = if found.pkeys.is_null() {
        Vec::new()
    } else {
        // SAFETY: the library filled the table and its length, and keeps it until the port is
        // released.
        unsafe { std::slice::from_raw_parts(found.pkeys, found.pkeys_size as usize) }.to_vec()
    };
    let lid = |lid: u32| Lid(u16::try_from(lid).unwrap_or(0));
    let hca = HcaPort {
        ca: ca.to_owned(),
        port,
        lid: lid(found.base_lid),
        sm_lid: lid(found.sm_lid),
        sm_sl: u8::try_from(found.sm_sl).unwrap_or(0),
        // libibumad stores both numbers in network byte order.
        gid: Gid {
            prefix: u64::from_be(found.gid_prefix),
            guid: Guid(u64::from_be(found.port_guid)),
        },
        state: found.state,
        link_layer: text(&found.link_layer),
        pkeys,
        // This number is in network byte order too.
        capability_mask: u32::from_be(found.capmask),
        smi: Vec::new(),
    };
    // SAFETY: umad_get_port filled the struct, and nothing uses it afterwards.
    unsafe { sys::umad_release_port(&raw mut found) };
    Some(hca)
}

/// Returns a reader of the port's LID, its subnet manager's LID, and its state.
///
/// The first call reads everything that libibumad reports about the ports of this host (about ten
/// sysfs files for each). A later call reads three sysfs files. If one of them changed or cannot be
/// read, it reads all ports again, because the HCA may have another name now.
pub(super) fn locator(hca: &HcaPort) -> Locator {
    let before = hca.clone();
    let mut last: Option<(HcaPort, Vec<Guid>)> = None;
    Box::new(move || {
        let is_unchanged = |HcaPort {
                                ca,
                                port,
                                lid,
                                sm_lid,
                                state,
                                ..
                            }: &HcaPort| {
            let of = |file| sysfs(ca, *port, file);
            let lids = [c"lid", c"sm_lid"].map(|file| of(file).and_then(|text| parse_lid(&text)));
            lids == [Some(*lid), Some(*sm_lid)]
                && of(c"state").and_then(|text| parse_state(&text)) == Some(*state)
        };
        match &mut last {
            Some((port, _)) if is_unchanged(port) => {}
            Some((port, others)) => *port = same_port(&list().ok()?, &before, others)?.clone(),
            None => {
                let others = other_guids(&before);
                let port = same_port(&list().ok()?, &before, &others)?.clone();
                last = Some((port, others));
            }
        }
        last.as_ref().map(|(port, _)| port.local())
    })
}

/// Reads a file of the port's directory in sysfs. Returns `None` if the file cannot be read.
fn sysfs(ca: &str, port: PortNum, file: &CStr) -> Option<String> {
    let path = [
        format!("/sys/class/infiniband/{ca}/ports/{port}/").as_bytes(),
        file.to_bytes_with_nul(),
    ]
    .concat();
    let mut text = String::new();
    open(&CString::from_vec_with_nul(path).ok()?)?
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

/// Opens a file for reading with the C library's `open`, which ibsim intercepts.
#[expect(unsafe_code, reason = "open(2)")]
fn open(path: &CStr) -> Option<File> {
    // SAFETY: the path ends with a zero and outlives the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    // SAFETY: open(2) returned the descriptor, and nothing else owns it.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}

/// Parses a LID as sysfs prints it, such as `0x1f`.
fn parse_lid(text: &str) -> Option<Lid> {
    let digits = text.trim().strip_prefix("0x")?;
    u16::from_str_radix(digits, 16).ok().map(Lid)
}

/// Parses a port state as sysfs prints it, such as `4: ACTIVE`.
fn parse_state(text: &str) -> Option<u32> {
    text.split(':').next()?.trim().parse().ok()
}

fn choose(ports: Vec<HcaPort>, wanted: &HcaName) -> Result<HcaPort, UmadError> {
    let have = describe(&ports);
    let names = |ca: &str, port: PortNum| {
        wanted.ca.as_ref().is_none_or(|of| of == ca) && wanted.port.is_none_or(|of| of == port)
    };
    let fitting = ports.into_iter().filter_map(|mut port| {
        // The SMI port that is named sends.
        let named = port.smi.iter().position(|(ca, port)| names(ca, *port));
        if let Some(named) = named.filter(|_| wanted.ca.is_some()) {
            port.smi.swap(0, named);
            return Some(port);
        }
        names(&port.ca, port.port).then_some(port)
    });
    let mut fitting: Vec<HcaPort> = fitting.collect();
    if fitting.is_empty() {
        return Err(UmadError::NoSuchPort {
            wanted: wanted.to_string(),
            have,
        });
    }
    // If the configuration names exactly one port, the error describes this port.
    if fitting.len() == 1 && wanted.ca.is_some() {
        let port = fitting.remove(0);
        return match &port {
            port if !port.is_infiniband() => Err(UmadError::NotInfiniband {
                port: port.to_string(),
                link_layer: port.link_layer.clone(),
                have,
            }),
            port if !port.is_active() => Err(UmadError::NotActive {
                port: port.to_string(),
                state: state_name(port.state),
                have,
            }),
            _ => Ok(port),
        };
    }
    if let [first, ..] = &fitting[..]
        && fitting.iter().all(|port| !port.is_infiniband())
    {
        return Err(UmadError::NotInfiniband {
            port: first.to_string(),
            link_layer: first.link_layer.clone(),
            have,
        });
    }
    fitting.retain(HcaPort::is_active);
    match fitting.len() {
        0 => Err(UmadError::NoneActive { have }),
        1 => Ok(fitting.remove(0)),
        _ => Err(UmadError::SeveralActive {
            have: describe(&fitting),
            example: fitting[0].to_string(),
        }),
    }
}

fn describe(ports: &[HcaPort]) -> String {
    let one = |port: &HcaPort| match port.is_infiniband() {
        true => format!("{port} ({}, LID {})", state_name(port.state), port.lid),
        false => format!("{port} ({})", port.link_layer),
    };
    ports.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    fn port(ca: &str, num: u8, state: u32, link_layer: &str) -> HcaPort {
        let (port, link_layer) = (PortNum(num), link_layer.to_owned());
        HcaPort {
            ca: ca.to_owned(),
            port,
            lid: Lid(7),
            sm_lid: Lid(1),
            sm_sl: 0,
            gid: Gid::default(),
            state,
            link_layer,
            pkeys: vec![0x7fff, 0xffff, 0],
            ..HcaPort::default()
        }
    }

    /// Returns a port with this GUID and CapabilityMask.
    fn half(name: (&str, u8), state: u32, guid: u64, capability_mask: u32) -> HcaPort {
        let gid = Gid {
            prefix: 0,
            guid: Guid(guid),
        };
        HcaPort {
            gid,
            capability_mask,
            ..port(name.0, name.1, state, "InfiniBand")
        }
    }

    #[test]
    fn gsi_and_smi_devices_with_the_same_guid_are_one_port() {
        let ports = paired(vec![
            half(("mlx5_0", 1), 4, 1, 0x0400),
            half(("mlx5_1", 1), 1, 2, 0),
            half(("smi1", 1), 1, 1, 0),
            half(("smi1", 2), 4, 1, 0),
            HcaPort {
                link_layer: "Ethernet".to_owned(),
                ..half(("mlx5_2", 1), 4, 1, 0)
            },
        ]);
        let names: Vec<_> = ports.iter().map(HcaPort::to_string).collect();
        assert_eq!(names, ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1"]);
        let of_smps = |wanted| {
            let name = HcaName::from_str(wanted).expect("a name");
            let port = choose(ports.clone(), &name).expect("the pair");
            assert_eq!(port.to_string(), "mlx5_0:1");
            let (ca, num) = port.of_smps();
            (ca.to_owned(), num.0)
        };
        // An active port of the SMI device is preferred; any can be named.
        for wanted in ["", "mlx5_0", "mlx5_0:1", "smi1:2"] {
            assert_eq!(of_smps(wanted), ("smi1".to_owned(), 2), "{wanted}");
        }
        assert_eq!(of_smps("smi1:1"), ("smi1".to_owned(), 1));
        let local = ports[0].local();
        assert_eq!((local.port, local.has_smi), (PortNum(2), true));
        let local = ports[1].local();
        assert_eq!((local.port, local.has_smi), (PortNum(1), false));
    }

    #[test]
    fn ports_with_the_same_guid_are_two_if_none_or_all_have_no_subnet_management() {
        for mask in [0, 0x0400] {
            let ports = ["mlx5_0", "mlx5_1"].map(|ca| half((ca, 1), 4, 1, mask));
            assert_eq!(paired(ports.to_vec()), ports);
        }
    }

    fn chosen(ports: &[HcaPort], wanted: &str) -> Result<String, UmadError> {
        choose(ports.to_vec(), &wanted.parse().expect("valid name")).map(|port| port.to_string())
    }

    #[test]
    fn the_only_active_infiniband_port_is_chosen() {
        let ports = [
            port("irdma0", 1, 4, "Ethernet"),
            port("mlx5_0", 1, 1, "InfiniBand"),
            port("mlx5_1", 1, 4, "InfiniBand"),
        ];
        assert_eq!(chosen(&ports, "").expect("one is active"), "mlx5_1:1");
    }

    #[test]
    fn none_of_two_active_ports_is_chosen() {
        let ports = [
            port("mlx5_0", 1, 4, "InfiniBand"),
            port("mlx5_1", 1, 4, "InfiniBand"),
        ];
        assert!(
            matches!(chosen(&ports, ""), Err(UmadError::SeveralActive { example, .. }) if example == "mlx5_0:1")
        );
        assert_eq!(chosen(&ports, "mlx5_1").expect("named"), "mlx5_1:1");
    }

    #[test]
    fn unusable_port_is_refused_with_its_reason() {
        let ports = [
            port("irdma0", 1, 4, "Ethernet"),
            port("mlx5_0", 1, 2, "InfiniBand"),
        ];
        assert!(matches!(
            chosen(&ports, "irdma0"),
            Err(UmadError::NotInfiniband { .. })
        ));
        assert!(
            matches!(chosen(&ports, "mlx5_0:1"), Err(UmadError::NotActive { state, .. }) if state.starts_with("initialising"))
        );
        assert!(
            matches!(chosen(&ports, "mlx5_0:2"), Err(UmadError::NoSuchPort { wanted, .. }) if wanted == "mlx5_0:2")
        );
        assert!(matches!(
            chosen(&ports, ""),
            Err(UmadError::NoneActive { .. })
        ));
        assert!(matches!(
            chosen(&ports[..1], ""),
            Err(UmadError::NotInfiniband { .. })
        ));
    }

    #[test]
    fn port_is_found_again_by_its_guid_under_another_name() {
        let with_guid = |ca, guid| HcaPort {
            gid: Gid {
                prefix: 0,
                guid: Guid(guid),
            },
            ..port(ca, 1, 4, "InfiniBand")
        };
        let before = with_guid("mlx5_0", 1);
        let found = |ports: &[HcaPort]| {
            choose_again(ports.to_vec(), &before, &[Guid(2)]).map(|port| port.to_string())
        };
        assert_eq!(
            found(&[with_guid("mlx5_0", 2), with_guid("mlx5_1", 1)]).expect("the same GUID"),
            "mlx5_1:1"
        );
        assert!(
            matches!(found(&[with_guid("mlx5_0", 2)]), Err(UmadError::NoHca)),
            "another HCA has the name"
        );
        assert_eq!(
            found(&[with_guid("mlx5_0", 3)]).expect("the HCA was replaced"),
            "mlx5_0:1"
        );
        assert!(matches!(
            found(&[with_guid("mlx5_1", 3)]),
            Err(UmadError::NoHca)
        ));
        let down = HcaPort {
            state: 1,
            ..with_guid("mlx5_1", 1)
        };
        assert!(
            matches!(found(&[down]), Err(UmadError::NotActive { port, .. }) if port == "mlx5_1:1")
        );
    }

    #[test]
    fn p_key_is_found_by_its_value() {
        let port = port("mlx5_0", 1, 4, "InfiniBand");
        assert_eq!(port.pkey_index(0xffff).expect("in the table"), 1);
        assert!(
            matches!(port.pkey_index(0x8001), Err(UmadError::NoPkey { have, .. }) if have == "0x7fff 0xffff")
        );
    }

    #[test]
    fn lid_is_parsed_as_sysfs_prints_it() {
        assert_eq!(parse_lid("0x1f\n"), Some(Lid(31)));
        assert_eq!(parse_lid("0xffff\n"), Some(Lid(0xffff)));
        for text in ["", "31", "0x10000\n", "0x"] {
            assert_eq!(parse_lid(text), None, "{text:?}");
        }
    }

    #[test]
    fn state_is_parsed_as_sysfs_prints_it() {
        assert_eq!(
            ["4: ACTIVE\n", "1: DOWN\n", "", "ACTIVE"].map(parse_state),
            [Some(4), Some(1), None, None]
        );
    }

    #[test]
    fn locator_of_a_missing_port_returns_none() {
        let mut locator = locator(&port("nosuch_hca", 1, 4, "InfiniBand"));
        assert_eq!((locator(), locator()), (None, None));
    }
}
