//! Queries through libibmad, which builds, sends and matches the MADs.
//! [`mad::libibmad`](crate::mad::libibmad) is the interface to them.
//!
//! libibmad waits for each reply before it returns, and follows redirections itself. It shares
//! only libibumad and the kernel with [`UmadTransport`](super::UmadTransport).

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::time::Duration;

use ibnet_record::types::{Lid, PortNum};

use super::ports::{HcaPort, UmadError};
use super::{c_name, c_port, kernel_timeout, lock_library, sys};
use crate::mad::exchange::{QP1_QKEY, Target};
use crate::mad::pma::{DATA_LEN, Data};
use crate::mad::query::Query;
use crate::mad::sa::Gid;
use crate::mad::{directed, pma, sa, smp};

/// An HCA port that libibmad has opened. It reads the attributes of one device after another.
pub struct LibibmadClient {
    port: Port,
    /// The SMI device, if the port has one.
    smi: Option<Port>,
    /// Destination of the next query of performance management, which libibmad changes after a
    /// redirection.
    agent: sys::ib_portid_t,
    lid: Lid,
    /// Service level of performance management.
    sl: u8,
    /// P_Key index of performance management.
    pkey_index: u16,
    /// LID of the subnet manager, and the service level to it.
    manager: (Lid, u8),
    timeout: Duration,
}

/// Number of bytes that libibmad reads or writes beyond the length that it documents.
const PADDING: usize = 64;

/// Octet of a MAD at which an attribute of subnet administration begins.
const SA_DATA_OFFSET: usize = 56;
/// Octets of an attribute of subnet administration.
const SA_DATA_LEN: usize = 200;

impl LibibmadClient {
    /// Opens the port a second time, beside any transport. Queries of performance management use
    /// this service level and this P_Key. `timeout` is the max wait for a reply.
    ///
    /// # Errors
    /// Returns an error if libibmad cannot open the port or register its agents.
    pub fn open(
        hca: &HcaPort,
        sl: u8,
        pkey_index: u16,
        timeout: Duration,
    ) -> Result<Self, UmadError> {
        const SMP: [u8; 2] = [
            smp::CLASS_SUBN_LID_ROUTED,
            directed::CLASS_SUBN_DIRECTED_ROUTE,
        ];
        const GENERAL: [u8; 2] = [pma::CLASS_PERF_MGT, sa::CLASS_SUBN_ADM];
        let own = (hca.ca.as_str(), hca.port);
        let (port, smi) = if hca.smi.is_empty() {
            (Port::open(hca, own, &[GENERAL, SMP].concat())?, None)
        } else {
            let smi = Port::open(hca, hca.of_smps(), &SMP)?;
            (Port::open(hca, own, &GENERAL)?, Some(smi))
        };
        let (manager, agent) = ((hca.sm_lid, hca.sm_sl), empty_destination());
        Ok(Self {
            port,
            smi,
            agent,
            lid: Lid(0),
            sl,
            pkey_index,
            manager,
            timeout,
        })
    }
}

/// A device that libibmad has opened.
struct Port(NonNull<sys::ibmad_port>);

impl Port {
    /// Opens a device of a port, with agents for these classes.
    #[expect(unsafe_code, reason = "libibmad")]
    fn open(hca: &HcaPort, (ca, port): (&str, PortNum), classes: &[u8]) -> Result<Self, UmadError> {
        let name = c_name(ca).ok_or_else(|| UmadError::no_such_port(hca))?;
        let mut classes: Vec<c_int> = classes.iter().copied().map(c_int::from).collect();
        let port = {
            let _library = lock_library();
            // SAFETY: the name ends with a zero and outlives the call. The length of the array is
            // right. The lock excludes other writers of libibumad's globals.
            unsafe {
                sys::mad_rpc_open_port(
                    name.as_ptr().cast_mut(),
                    c_port(port),
                    classes.as_mut_ptr(),
                    classes.len() as c_int,
                )
            }
        };
        let port =
            NonNull::new(port).ok_or_else(|| UmadError::open(hca, io::Error::last_os_error()))?;
        // SAFETY: the port is open. The caller repeats a query itself, so libibmad sends it once.
        unsafe { sys::mad_rpc_set_retries(port.as_ptr(), 1) };
        Ok(Self(port))
    }
}

impl LibibmadClient {
    /// Sends the next queries to the device at this LID.
    pub fn turn_to(&mut self, lid: Lid) {
        self.lid = lid;
        self.agent = sys::ib_portid_t {
            lid: c_int::from(lid.0),
            qp: 1,
            qkey: QP1_QKEY,
            sl: self.sl,
            pkey_idx: c_uint::from(self.pkey_index),
            ..empty_destination()
        };
    }

    /// Returns the destination of the next query of performance management: the device, or the
    /// agent to which it redirected an earlier query. libibmad does not read the P_Key of a
    /// redirection.
    pub fn agent(&self) -> Target {
        let lid = Lid(u16::try_from(self.agent.lid).unwrap_or(0));
        let pkey_index = u16::try_from(self.agent.pkey_idx).unwrap_or(0);
        Target {
            lid,
            qp: self.agent.qp,
            qkey: self.agent.qkey,
            sl: self.agent.sl,
            pkey_index,
            give_up: self.timeout,
        }
    }

    /// Sends a query once. Returns the bytes of the reply from octet 64 of the MAD.
    ///
    /// # Errors
    /// Returns `ETIMEDOUT` if no reply came, and another error, usually `EIO`, if the agent
    /// refused the query or the MAD was not sent, which libibmad does not distinguish.
    #[expect(unsafe_code, reason = "libibmad")]
    pub fn read(&mut self, query: &Query) -> io::Result<Data> {
        let port = self.port.0.as_ptr();
        let timeout = kernel_timeout(self.timeout).cast_unsigned();
        let mut buffer = [0u8; SA_DATA_LEN + PADDING];
        let octets: *mut c_void = buffer.as_mut_ptr().cast();
        let (answered, begin) = match query {
            Query::Pma(query) => {
                let select = query.port.map_or(0, |port| c_int::from(port.0));
                // SAFETY: the port is open. The buffer is longer than the 192 octets that libibmad
                // writes. The destination outlives the call.
                let reply = unsafe {
                    sys::pma_query_via(
                        octets,
                        &raw mut self.agent,
                        select,
                        timeout,
                        query.attribute.into(),
                        port,
                    )
                };
                (!reply.is_null(), 0)
            }
            Query::Smp(_) | Query::Directed(_) => {
                let mut device = empty_destination();
                let query = match query {
                    // A destination without a LID has a route, whose first port is not used.
                    Query::Directed(directed::Query { request, route }) => {
                        device.drpath.cnt = route.ports().len() as c_int;
                        let octets = device.drpath.p[1..].iter_mut();
                        octets
                            .zip(route.ports())
                            .for_each(|(octet, port)| *octet = port.0);
                        request
                    }
                    Query::Smp(request) => {
                        device.lid = c_int::from(self.lid.0);
                        request
                    }
                    _ => return Err(io::ErrorKind::Unsupported.into()),
                };
                let port = self.smi.as_ref().map_or(port, |smi| smi.0.as_ptr());
                let modifier = query.modifier;
                // SAFETY: the port is open. The buffer is longer than the 64 octets that libibmad
                // writes. The destination outlives the call.
                let reply = unsafe {
                    sys::smp_query_via(
                        octets,
                        &raw mut device,
                        query.attribute.into(),
                        modifier,
                        timeout,
                        port,
                    )
                };
                (!reply.is_null(), 0)
            }
            // libibmad is not used to clear counters or to read registers.
            Query::Clear(_) | Query::Vendor(_) => return Err(io::ErrorKind::Unsupported.into()),
            Query::Sa(query) => {
                let (lid, sl) = self.manager;
                let mut manager = sys::ib_portid_t {
                    lid: c_int::from(lid.0),
                    qp: 1,
                    sl,
                    ..empty_destination()
                };
                let (mut source, mut destination) = (gid(query.source), gid(query.destination));
                // SAFETY: the port is open. Both GIDs have 16 octets. The buffer is longer than the
                // 200 octets that libibmad writes. All arguments outlive the call.
                let lid = unsafe {
                    sys::ib_path_query_via(
                        port,
                        source.as_mut_ptr(),
                        destination.as_mut_ptr(),
                        &raw mut manager,
                        octets,
                    )
                };
                // An attribute of subnet administration begins 8 octets before the others.
                (lid >= 0, pma::DATA_OFFSET - SA_DATA_OFFSET)
            }
        };
        if !answered {
            return Err(io::Error::last_os_error());
        }
        let data = buffer
            .get(begin..begin + DATA_LEN)
            .and_then(|octets| octets.first_chunk());
        data.copied()
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for Port {
    #[expect(unsafe_code, reason = "libibmad")]
    fn drop(&mut self) {
        // SAFETY: mad_rpc_open_port returned the port, and only this drop closes it.
        unsafe { sys::mad_rpc_close_port(self.0.as_ptr()) };
    }
}

impl fmt::Debug for LibibmadClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LibibmadClient")
            .field("lid", &self.lid)
            .finish_non_exhaustive()
    }
}

/// Returns a destination of zeros.
#[expect(unsafe_code, reason = "a struct of the library")]
fn empty_destination() -> sys::ib_portid_t {
    // SAFETY: the struct consists of integers and arrays of integers, for which zeros are a valid
    // value.
    unsafe { std::mem::zeroed() }
}

/// Returns the bytes of a GID in network byte order.
fn gid(gid: Gid) -> [u8; 16] {
    (u128::from(gid.prefix) << 64 | u128::from(gid.guid.0)).to_be_bytes()
}
