//! The HCA ports of this host, and which of them to send from.
//!
//! All is asked of libibumad, never of sysfs directly: a simulator that stands in for the library's files does so for the library only.

use std::ffi::c_int;
use std::fmt;
use std::io;

use miette::Diagnostic;

use super::{c_name, c_port, sys, text};
use crate::mad::exchange::Local;
use crate::mad::sa::Gid;
use crate::types::{Guid, HcaName, Lid, PortNum};

/// A port of a host channel adapter of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HcaPort {
    /// The adapter, such as `mlx5_0`.
    pub ca: String,
    /// Its port.
    pub port: PortNum,
    /// Its base LID; 0 if the subnet manager has not given one.
    pub lid: Lid,
    /// The subnet manager's LID; 0 if there is none.
    pub sm_lid: Lid,
    /// The service level to the subnet manager.
    pub sm_sl: u8,
    /// Its GID.
    pub gid: Gid,
    /// 4 is active.
    pub state: u32,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// The P_Key table.
    pub pkeys: Vec<u16>,
}

/// Why there is no way to the fabric from this host, and what to do.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum UmadError {
    /// libibumad cannot be used at all.
    #[error("libibumad could not be started")]
    #[diagnostic(help("load the kernel module ib_umad (`modprobe ib_umad`), and see whether `ibstat` works"))]
    Init(#[source] io::Error),
    /// No adapter.
    #[error("this host has no InfiniBand adapter (HCA)")]
    #[diagnostic(help(
        "see `ibstat -l`; are the HCA's driver (such as mlx5_ib) and ib_umad loaded? Without InfiniBand, try: ibnet-sweep --simulate FILE"
    ))]
    NoHca,
    /// No adapter or port of that name.
    #[error("there is no HCA port {wanted} here")]
    #[diagnostic(help("this host has: {have}"))]
    NoSuchPort {
        /// As it was asked for.
        wanted: String,
        /// What there is.
        have: String,
    },
    /// RoCE or Ethernet.
    #[error("{port} is an {link_layer} port; InfiniBand is needed")]
    #[diagnostic(help("performance management MADs exist on InfiniBand only; this host has: {have}"))]
    NotInfiniband {
        /// The port.
        port: String,
        /// What it is.
        link_layer: String,
        /// What there is.
        have: String,
    },
    /// No port can send.
    #[error("no InfiniBand port of this host is active")]
    #[diagnostic(help("this host has: {have}; is the cable in, and does a subnet manager run (`sminfo`)?"))]
    NoneActive {
        /// What there is.
        have: String,
    },
    /// This port cannot send.
    #[error("{port} is not active: it is {state}")]
    #[diagnostic(help("is the cable in, and does a subnet manager run (`sminfo`)? This host has: {have}"))]
    NotActive {
        /// The port.
        port: String,
        /// Its state.
        state: &'static str,
        /// What there is.
        have: String,
    },
    /// More than one port could be meant.
    #[error("several InfiniBand ports are active, and each may be another fabric: {have}")]
    #[diagnostic(help("name the one to send from: --ca {example}, or ca = \"{example}\" in ibnet.toml"))]
    SeveralActive {
        /// What there is.
        have: String,
        /// One of them.
        example: String,
    },
    /// The device may not be opened.
    #[error("{port} may not be opened: {source}")]
    #[diagnostic(help(
        "/dev/infiniband/umad* belongs to root; run as root, or give a group the devices with this udev rule:\n\
         SUBSYSTEM==\"infiniband_mad\", KERNEL==\"umad*\", GROUP=\"ibnet\", MODE=\"0660\""
    ))]
    Permission {
        /// The port.
        port: String,
        /// What open(2) said.
        source: io::Error,
    },
    /// The device cannot be opened.
    #[error("{port} cannot be opened: {source}")]
    #[diagnostic(help("is the kernel module ib_umad loaded (`modprobe ib_umad`)? See `ls -l /dev/infiniband`"))]
    Open {
        /// The port.
        port: String,
        /// What open(2) said.
        source: io::Error,
    },
    /// The kernel's interface is older than 2007.
    #[error("the kernel's umad header has {header} octets instead of 64")]
    #[diagnostic(help("this kernel lacks the P_Key index in its umad interface; a newer one is needed"))]
    OldKernel {
        /// What the library says.
        header: usize,
    },
    /// The agent was refused.
    #[error("{port}: no agent could be registered for performance management: {source}")]
    #[diagnostic(help("one open device can hold 32 agents; is the port an InfiniBand port? See `ibstat`"))]
    Register {
        /// The port.
        port: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The key is not in the table.
    #[error("{port}: P_Key {wanted:#06x} is not in its table ({have})")]
    #[diagnostic(help("the subnet manager gives P_Keys; choose one of the table with --pkey, or have the host added to the partition"))]
    NoPkey {
        /// The port.
        port: String,
        /// The key.
        wanted: u16,
        /// What there is.
        have: String,
    },
}

impl HcaPort {
    /// Whether it can send: an active InfiniBand port.
    pub fn is_active(&self) -> bool {
        self.is_infiniband() && self.state == ACTIVE
    }

    /// Where it is on its subnet.
    pub(super) fn local(&self) -> Local {
        Local { lid: self.lid, sm_lid: self.sm_lid, sm_sl: self.sm_sl, gid: self.gid }
    }

    fn is_infiniband(&self) -> bool {
        // Where the kernel does not tell, libibumad writes "IB".
        ["InfiniBand", "IB"].contains(&self.link_layer.as_str())
    }

    /// The index of a P_Key in its table. A full member's key serves the limited one too, but not the other way round: two limited members
    /// may not talk.
    ///
    /// # Errors
    /// When the table has it not.
    pub fn pkey_index(&self, wanted: u16) -> Result<u16, UmadError> {
        let exact = self.pkeys.iter().position(|pkey| *pkey == wanted);
        exact.and_then(|index| u16::try_from(index).ok()).ok_or_else(|| {
            let have: Vec<_> = self.pkeys.iter().filter(|pkey| **pkey != 0).map(|pkey| format!("{pkey:#06x}")).collect();
            UmadError::NoPkey { port: self.to_string(), wanted, have: have.join(" ") }
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
        Self::NoSuchPort { wanted: hca.to_string(), have: String::new() }
    }

    pub(super) fn open(hca: &HcaPort, source: io::Error) -> Self {
        let port = hca.to_string();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { port, source },
            _ => Self::Open { port, source },
        }
    }
}

/// IB_PORT_ACTIVE.
const ACTIVE: u32 = 4;

fn state_name(state: u32) -> &'static str {
    match state {
        1 => "down",
        2 => "initialising (no subnet manager has seen it)",
        3 => "armed",
        ACTIVE => "active",
        _ => "in an unknown state",
    }
}

/// Finds the port to send from: the one that is wanted, or the only active InfiniBand port.
///
/// # Errors
/// When there is none, or more than one could be meant.
pub fn find(wanted: &HcaName) -> Result<HcaPort, UmadError> {
    choose(list()?, wanted)
}

/// All ports of all adapters of this host.
///
/// # Errors
/// When libibumad does not start, or there is no adapter.
#[expect(unsafe_code, reason = "libibumad")]
pub fn list() -> Result<Vec<HcaPort>, UmadError> {
    // SAFETY: takes nothing, and may be called again.
    if unsafe { sys::umad_init() } < 0 {
        return Err(UmadError::Init(io::Error::last_os_error()));
    }
    let mut names = [[0; sys::UMAD_CA_NAME_LEN as usize]; sys::UMAD_MAX_DEVICES as usize];
    // SAFETY: there is room for as many names as are asked for.
    let count = unsafe { sys::umad_get_cas_names(names.as_mut_ptr(), names.len() as c_int) };
    let names = &names[..usize::try_from(count).unwrap_or(0).min(names.len())];
    let ports: Vec<_> = names
        .iter()
        .map(|name| text(name))
        .flat_map(|ca| (1..=port_count(&ca)).filter_map(move |port| port_of(&ca, PortNum(port))))
        .collect();
    if ports.is_empty() { Err(UmadError::NoHca) } else { Ok(ports) }
}

/// How many ports an adapter has.
#[expect(unsafe_code, reason = "libibumad")]
fn port_count(ca: &str) -> u8 {
    let Some(name) = c_name(ca) else { return 0 };
    // SAFETY: a struct of numbers, names and pointers, for which all zeros are a value.
    let mut found: sys::umad_ca = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero; the struct is the library's to fill, and is released only if it was filled.
    let ports = unsafe {
        if sys::umad_get_ca(name.as_ptr(), &raw mut found) < 0 {
            return 0;
        }
        let ports = found.numports;
        sys::umad_release_ca(&raw mut found);
        ports
    };
    u8::try_from(ports).unwrap_or(0)
}

#[expect(unsafe_code, reason = "libibumad")]
pub(super) fn port_of(ca: &str, port: PortNum) -> Option<HcaPort> {
    let name = c_name(ca)?;
    // SAFETY: as in `port_count`.
    let mut found: sys::umad_port = unsafe { std::mem::zeroed() };
    // SAFETY: the name ends with a zero; the struct is the library's to fill.
    if unsafe { sys::umad_get_port(name.as_ptr(), c_port(port), &raw mut found) } < 0 {
        return None;
    }
    let pkeys = if found.pkeys.is_null() {
        Vec::new()
    } else {
        // SAFETY: the library filled in the table and its size, and keeps it until the port is released.
        unsafe { std::slice::from_raw_parts(found.pkeys, found.pkeys_size as usize) }.to_vec()
    };
    let lid = |lid: u32| Lid(u16::try_from(lid).unwrap_or(0));
    let hca = HcaPort {
        ca: ca.to_owned(),
        port,
        lid: lid(found.base_lid),
        sm_lid: lid(found.sm_lid),
        sm_sl: u8::try_from(found.sm_sl).unwrap_or(0),
        // The library keeps both as they are on the wire.
        gid: Gid { prefix: u64::from_be(found.gid_prefix), guid: Guid(u64::from_be(found.port_guid)) },
        state: found.state,
        link_layer: text(&found.link_layer),
        pkeys,
    };
    // SAFETY: it was filled by umad_get_port, and nothing of it is used any more.
    unsafe { sys::umad_release_port(&raw mut found) };
    Some(hca)
}

fn choose(ports: Vec<HcaPort>, wanted: &HcaName) -> Result<HcaPort, UmadError> {
    let have = describe(&ports);
    let fits = |port: &HcaPort| wanted.ca.as_ref().is_none_or(|ca| *ca == port.ca) && wanted.port.is_none_or(|num| num == port.port);
    let mut fitting: Vec<HcaPort> = ports.into_iter().filter(fits).collect();
    if fitting.is_empty() {
        return Err(UmadError::NoSuchPort { wanted: wanted.to_string(), have });
    }
    // One that was named in full is looked at on its own: the message is about it.
    if fitting.len() == 1 && wanted.ca.is_some() {
        let port = fitting.remove(0);
        return match &port {
            port if !port.is_infiniband() => {
                Err(UmadError::NotInfiniband { port: port.to_string(), link_layer: port.link_layer.clone(), have })
            }
            port if !port.is_active() => Err(UmadError::NotActive { port: port.to_string(), state: state_name(port.state), have }),
            _ => Ok(port),
        };
    }
    if let [first, ..] = &fitting[..]
        && fitting.iter().all(|port| !port.is_infiniband())
    {
        return Err(UmadError::NotInfiniband { port: first.to_string(), link_layer: first.link_layer.clone(), have });
    }
    fitting.retain(HcaPort::is_active);
    match fitting.len() {
        0 => Err(UmadError::NoneActive { have }),
        1 => Ok(fitting.remove(0)),
        _ => Err(UmadError::SeveralActive { have: describe(&fitting), example: fitting[0].to_string() }),
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
        }
    }

    fn chosen(ports: &[HcaPort], wanted: &str) -> Result<String, UmadError> {
        choose(ports.to_vec(), &wanted.parse().expect("well written")).map(|port| port.to_string())
    }

    #[test]
    fn the_only_active_infiniband_port_is_taken() {
        let ports = [port("irdma0", 1, 4, "Ethernet"), port("mlx5_0", 1, 1, "InfiniBand"), port("mlx5_1", 1, 4, "InfiniBand")];
        assert_eq!(chosen(&ports, "").expect("one is active"), "mlx5_1:1");
    }

    #[test]
    fn with_two_active_ports_none_is_guessed() {
        let ports = [port("mlx5_0", 1, 4, "InfiniBand"), port("mlx5_1", 1, 4, "InfiniBand")];
        assert!(matches!(chosen(&ports, ""), Err(UmadError::SeveralActive { example, .. }) if example == "mlx5_0:1"));
        assert_eq!(chosen(&ports, "mlx5_1").expect("named"), "mlx5_1:1");
    }

    #[test]
    fn what_cannot_send_is_named_with_its_reason() {
        let ports = [port("irdma0", 1, 4, "Ethernet"), port("mlx5_0", 1, 2, "InfiniBand")];
        assert!(matches!(chosen(&ports, "irdma0"), Err(UmadError::NotInfiniband { .. })));
        assert!(matches!(chosen(&ports, "mlx5_0:1"), Err(UmadError::NotActive { state, .. }) if state.starts_with("initialising")));
        assert!(matches!(chosen(&ports, "mlx5_0:2"), Err(UmadError::NoSuchPort { wanted, .. }) if wanted == "mlx5_0:2"));
        assert!(matches!(chosen(&ports, ""), Err(UmadError::NoneActive { .. })));
        assert!(matches!(chosen(&ports[..1], ""), Err(UmadError::NotInfiniband { .. })));
    }

    #[test]
    fn a_p_key_is_found_by_its_value() {
        let port = port("mlx5_0", 1, 4, "InfiniBand");
        assert_eq!(port.pkey_index(0xffff).expect("in the table"), 1);
        assert!(matches!(port.pkey_index(0x8001), Err(UmadError::NoPkey { have, .. }) if have == "0x7fff 0xffff"));
    }
}
