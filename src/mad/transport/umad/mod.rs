//! MADs through libibumad: the kernel's userspace MAD device, `/dev/infiniband/umadN`.
//!
//! The only room of the house that says `unsafe`. What the kernel and the library do that one has to know:
//!
//! - An agent is registered for each class that ibnet speaks, with an empty method mask: pure clients, of which there may be any number. Performance
//!   management is what it is all about; without the others only identity and links cannot be checked.
//! - The kernel writes its agent's number over the upper half of a TID. Replies are matched by the lower half.
//! - A timeout is **read** like a reply: status 110 and the request's header. It is told once, and a later reply is dropped.
//! - `retries` is 0: the engine owns deadlines, and a resent MAD would be one more that nobody counts.
//! - The size of the record's header is asked of the library after the port is open; before that it answers otherwise.
//! - What umad_recv gives as an error is errno's to tell: its own test for EWOULDBLOCK never is true, and the length that it leaves is nobody's.
//! - A packet that does not fit goes back to the queue and would be read for ever: whatever error a read has but EAGAIN and EINTR, the way is lost.
//! - A device that is gone wakes who polls (POLLERR, then EIO) since Linux 5.12; before that nothing ever comes, and sends say EINVAL.
//! - One MAD a read. `poll(2)` is called, and nothing cleverer, because simulators stand in for that.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use super::{Locator, Transport, TransportError};
use crate::mad::exchange::{Completion, Outcome, Target};
use crate::mad::header::Header;
use crate::mad::{MAD_LEN, Mad, pma, sa, smp};
use crate::time::Instant;
use crate::types::{Lid, PortNum};

#[doc(hidden)]
pub mod libibmad;
#[cfg(test)]
mod oracle;
pub mod ports;
mod sys;
#[cfg(test)]
mod tests;

pub use ports::{HcaPort, UmadError};

/// Classes and their versions, and where their agents are among [`UmadTransport::agents`].
const CLASSES: [(u8, u8); 3] =
    [(pma::CLASS_PERF_MGT, pma::CLASS_VERSION), (smp::CLASS_SUBN_LID_ROUTED, smp::CLASS_VERSION), (sa::CLASS_SUBN_ADM, sa::CLASS_VERSION)];

/// What is read from and written to the device: the library's header and a MAD.
#[repr(C, align(8))]
struct Record {
    header: sys::ib_user_mad,
    mad: Mad,
}

const _: () = assert!(size_of::<sys::ib_user_mad>() == 64 && size_of::<Record>() == 64 + MAD_LEN);

/// An open HCA port with an agent for each class.
#[derive(Debug)]
pub struct UmadTransport {
    port: Port,
    hca: HcaPort,
    /// By the order of [`CLASSES`]; negative where it was refused.
    agents: [c_int; CLASSES.len()],
    fd: RawFd,
    record: Box<Record>,
}

/// An open port; closed when it is dropped.
#[derive(Debug)]
struct Port(c_int);

impl Drop for Port {
    #[expect(unsafe_code, reason = "libibumad")]
    fn drop(&mut self) {
        // SAFETY: the number is one that umad_open_port gave and nobody has closed. Closing unregisters its agents.
        unsafe { sys::umad_close_port(self.0) };
    }
}

impl UmadTransport {
    /// Opens the port and registers an agent for each class.
    ///
    /// # Errors
    /// When the device may not be opened or the agent for performance management is refused; with the remedy.
    #[expect(unsafe_code, reason = "libibumad")]
    pub fn open(hca: &HcaPort) -> Result<Self, UmadError> {
        let name = CString::new(hca.ca.as_str()).map_err(|_| UmadError::no_such_port(hca))?;
        // SAFETY: the name ends with a zero and outlives the call.
        let id = unsafe { sys::umad_open_port(name.as_ptr(), c_int::from(hca.port.0)) };
        if id < 0 {
            // The library says EIO whatever open(2) said; errno still says why.
            return Err(UmadError::open(hca, io::Error::last_os_error()));
        }
        let port = Port(id);
        // SAFETY: takes nothing.
        let header = unsafe { sys::umad_size() };
        if header != size_of::<sys::ib_user_mad>() {
            return Err(UmadError::OldKernel { header });
        }
        let agents = CLASSES.map(|(class, version)| {
            // SAFETY: the port is open; a null method mask is an empty one.
            unsafe { sys::umad_register(id, c_int::from(class), c_int::from(version), 0, std::ptr::null_mut()) }
        });
        if agents[0] < 0 {
            return Err(UmadError::Register { port: hca.to_string(), source: io::Error::last_os_error() });
        }
        // SAFETY: the port is open.
        let fd = unsafe { sys::umad_get_fd(id) };
        Ok(Self { port, hca: hca.clone(), agents, fd, record: Box::new(Record { header: no_header(), mad: [0; MAD_LEN] }) })
    }

    fn record(&mut self) -> *mut c_void {
        std::ptr::from_mut::<Record>(&mut self.record).cast()
    }

    /// Whether a record can be read within `wait`.
    #[expect(unsafe_code, reason = "poll(2)")]
    fn readable(&self, wait: Duration) -> Result<bool, TransportError> {
        // Whole milliseconds, rounded up: never earlier than asked for.
        let millis = c_int::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
        let mut fds = [libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 }];
        // SAFETY: one entry is given and one is told of.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), 1, millis) };
        match ready {
            0 => Ok(false),
            1.. if fds[0].revents & libc::POLLIN != 0 => Ok(true),
            1.. => Err(TransportError::new("poll", libc::EIO)),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                source => Err(TransportError::call("poll", source)),
            },
        }
    }

    /// Reads one record; `None` if there is none after all.
    #[expect(unsafe_code, reason = "libibumad")]
    fn read(&mut self, mad: &mut Mad) -> Result<Option<Completion>, TransportError> {
        let (port, record) = (self.port.0, self.record());
        let mut len = MAD_LEN as c_int;
        // SAFETY: the record has room for a header and for as many octets of a MAD as `len` says.
        let agent = unsafe { sys::umad_recv(port, record, &raw mut len, 0) };
        if agent < 0 {
            return match io::Error::last_os_error() {
                error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
                source => Err(TransportError::call("umad_recv", source)),
            };
        }
        // Nothing behind the header is no record: what would be looked at is what was sent or read last.
        let len = usize::try_from(len).ok().filter(|len| *len > 0).ok_or_else(|| TransportError::new("umad_recv", libc::EIO))?;
        *mad = self.record.mad;
        let tid = Header::parse(mad).tid;
        let outcome = match self.record.header.status {
            0 => Outcome::Reply { slid: Lid(u16::from_be(self.record.header.addr.lid)), len },
            // ETIMEDOUT, or the send was flushed: either way there will be no reply.
            _ => Outcome::TimedOut,
        };
        Ok(Some(Completion { tid, outcome }))
    }
}

impl Transport for UmadTransport {
    #[expect(unsafe_code, reason = "libibumad")]
    fn send(&mut self, target: &Target, mad: &Mad, _now: Instant) -> Result<(), TransportError> {
        let class = Header::parse(mad).class;
        let agent = CLASSES.iter().zip(self.agents).find(|((of, _), agent)| *of == class && *agent >= 0).map(|(_, agent)| agent);
        let agent = agent.ok_or(TransportError::NoAgent { class })?;
        let millis = c_int::try_from(target.give_up.as_millis()).unwrap_or(c_int::MAX).max(1);
        // The last reply's header is still there, and umad_set_addr leaves its GRH and path bits as they are.
        self.record.header = no_header();
        self.record.mad = *mad;
        let (port, record) = (self.port.0, self.record());
        let (qp, qkey) = (target.qp.cast_signed(), target.qkey.cast_signed());
        // SAFETY: the record is a whole header and a whole MAD, and belongs to us until the call returns.
        let sent = unsafe {
            sys::umad_set_addr(record, c_int::from(target.lid.0), qp, c_int::from(target.sl), qkey);
            sys::umad_set_pkey(record, c_int::from(target.pkey_index));
            sys::umad_send(port, agent, record, MAD_LEN as c_int, millis, 0)
        };
        if sent < 0 { Err(TransportError::call("umad_send", io::Error::last_os_error())) } else { Ok(()) }
    }

    fn recv(&mut self, mad: &mut Mad, wait: Duration, _now: Instant) -> Result<Option<Completion>, TransportError> {
        if self.readable(wait)? { self.read(mad) } else { Ok(None) }
    }

    fn locator(&self) -> Locator {
        let (ca, port) = (self.hca.ca.clone(), self.hca.port);
        Box::new(move || ports::port_of(&ca, port).map(|port| port.local()))
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("mad", &Header::parse(&self.mad)).finish_non_exhaustive()
    }
}

/// A header that says nothing.
#[expect(unsafe_code, reason = "a struct of the library")]
fn no_header() -> sys::ib_user_mad {
    // SAFETY: a struct of integers and arrays of them, for which all zeros are a value.
    unsafe { std::mem::zeroed() }
}

/// Ends the process at once, without the exit handlers: that of ibsim's preloaded client waits for an answer of the simulator, and for a lock that
/// a sender which stands still inside a write holds.
#[expect(unsafe_code, reason = "_exit(2)")]
pub fn end_process(code: i32) -> ! {
    // SAFETY: takes a number and does not return; nothing of this process is used any more.
    unsafe { libc::_exit(code) }
}

/// The text of a character array that ends with a zero, or is full.
fn text(chars: &[c_char]) -> String {
    let octets: Vec<u8> = chars.iter().map(|c| *c as u8).take_while(|octet| *octet != 0).collect();
    String::from_utf8_lossy(&octets).into_owned()
}

/// A name for a call of the library; `None` if it could not be one.
fn c_name(name: &str) -> Option<CString> {
    let short = name.len() < sys::UMAD_CA_NAME_LEN as usize;
    CString::new(name).ok().filter(|name| short && !CStr::is_empty(name))
}

/// The port's number as the library wants it.
fn c_port(port: PortNum) -> c_int {
    c_int::from(port.0)
}
