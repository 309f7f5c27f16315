//! Sends and receives MADs through libibumad, which uses the kernel device
//! `/dev/infiniband/umadN`.
//!
//! This is the only module with `unsafe` code.
//!
//! # The kernel and the library
//!
//! - The transport registers one agent in the kernel for each class that ibnet uses. The method
//!   mask of an agent is empty, so the agent receives only replies; the agent for traps, however,
//!   also receives reports ([`UmadTransport::open_for_reports`]). A host can have any number of
//!   agents without reports. Without the agent for performance management, `open` fails. Without
//!   the other agents, the engine does not check identities and links.
//! - A port of a planarized fabric (XDR) has two devices with the same port GUID ([`HcaPort`]). The
//!   agents for subnet management are then registered on the SMI device, all others on the GSI
//!   device. The loss of one of them is the loss of the transport.
//! - The kernel writes the agent id into the upper half of a TID (transaction identifier), so the
//!   engine finds the request of a reply by the lower half.
//! - The kernel delivers a timeout like a reply: as a record with status `ETIMEDOUT` and the
//!   header of the request. It delivers each timeout once and drops a later reply.
//! - The kernel counts timeouts in milliseconds and ends them at a tick of its timer (jiffy). The
//!   transport rounds [`Target::give_up`] up, so the kernel never stops waiting before the
//!   configured time. It can stop about two ticks later: with 250 ticks a second, 5 ms become 8 to
//!   12 ms. The engine therefore applies its own deadlines and does not need the timeouts of the
//!   kernel.
//! - If a send fails after the kernel has accepted it, Linux 6.1 delivers nothing, and Linux 7.3
//!   delivers a timeout. With both kernels the engine waits for its own deadline and counts a MAD
//!   without a reply.
//! - In newer kernels (7.3, not 6.1) an agent has at most 128 SMPs and 16 queries to the subnet
//!   manager in flight. Later ones wait in the kernel, and their timeouts start later, so the
//!   engine keeps fewer in flight. MADs of performance management have no such limit.
//! - The kernel delivers a reply from any source LID. The engine compares the LID with the
//!   request.
//! - `retries` is 0, so the kernel sends no MAD twice. A MAD that the kernel sent again would be
//!   missing in the counts of the engine, which alone decides on deadlines.
//! - `umad_size` returns the right length of the record's header only after `umad_open_port`.
//! - `umad_recv` returns unreliable error codes, so errors come from `errno`.
//! - After a read error other than `EAGAIN` and `EINTR`, the transport is lost. One such error is
//!   a packet that does not fit into the buffer: it stays in the queue of the kernel, so every
//!   later read would fail too.
//! - Since Linux 5.12, a removed device wakes a poll with `POLLERR`, and calls fail with `EIO`.
//!   Older kernels wake no poll, and a send fails with `EINVAL`.
//!
//! # Threads
//!
//! libibumad has two global variables and no lock. `umad_init` writes `abi_version`;
//! `umad_open_port` reads it and writes `new_user_mad_api`, which is 1 if the record's header has
//! a P_Key index, and otherwise 0. `umad_size`, `umad_set_pkey`, `umad_send` and `umad_recv` read
//! `new_user_mad_api`.
//!
//! - `LIBRARY`, a lock of this process, serializes all callers of `umad_init` and `umad_open_port`.
//!   `mad_rpc_open_port` of libibmad calls both.
//! - The first `umad_open_port` returns before any transport exists. A transport moves to its
//!   thread through a channel or a spawn, so its thread sees the value that `umad_open_port` wrote.
//! - A later `umad_open_port` (a reconnect) runs while other threads send and receive without the
//!   lock. It stores the value that is already there: the value depends on the running kernel
//!   alone, and [`UmadTransport::open`] refuses a kernel without the P_Key index. The variable is
//!   an aligned 32-bit word with a single store in a separately compiled library, so a reader
//!   always sees this value. No lock is taken for every MAD, because it would stop all other HCA
//!   ports while one port is opened.
//! - One transport belongs to one thread at a time: `send` and `recv` take `&mut self`.
//!
//! # ibsim
//!
//! ibsim replaces the kernel by a preloaded library, which intercepts `open`, `read`, `write`,
//! `close`, `ioctl`, `poll`, `opendir` and `scandir` of the C library. This module therefore reads
//! sysfs with libibumad or with the C library's `open`, but not with the standard library, which
//! calls `open64`. The device of ibsim is no descriptor of the kernel, so `ppoll` cannot wait for
//! it: see `Waiting`.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ibnet_record::types::{Lid, PortNum};

use super::{Locator, Transport, TransportError};
use crate::mad::exchange::{Completion, Outcome, Target};
use crate::mad::header::Header;
use crate::mad::inform::METHOD_REPORT;
use crate::mad::{MAD_LEN, Mad, directed, pma, sa, smp, vendor};
use crate::time::Instant;

pub(crate) mod libibmad;
pub mod ports;
pub(crate) mod rpc;
mod sys;
#[cfg(test)]
mod tests;
mod watch;

pub use ports::{HcaPort, UmadError};
pub use watch::DeviceWatch;

/// Management classes with their versions, in the order of [`UmadDevice::agents`].
const CLASSES: [(u8, u8); 5] = [
    (pma::CLASS_PERF_MGT, pma::CLASS_VERSION),
    (smp::CLASS_SUBN_LID_ROUTED, smp::CLASS_VERSION),
    (sa::CLASS_SUBN_ADM, sa::CLASS_VERSION),
    (directed::CLASS_SUBN_DIRECTED_ROUTE, smp::CLASS_VERSION),
    (vendor::CLASS_VENDOR, vendor::CLASS_VERSION),
];

const SMP: u8 = smp::CLASS_SUBN_LID_ROUTED;
const DIRECTED: u8 = directed::CLASS_SUBN_DIRECTED_ROUTE;

/// Serializes the calls of libibumad that write its global variables: see the module's section on
/// threads.
static LIBRARY: Mutex<()> = Mutex::new(());

/// Locks libibumad for a call that writes its global variables.
fn lock_library() -> MutexGuard<'static, ()> {
    // The lock guards no data, so a panic while it was held leaves nothing behind.
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The record that the device reads and writes: the library's header and a MAD.
#[repr(C, align(8))]
struct Record {
    header: sys::ib_user_mad,
    mad: Mad,
}

const _: () = assert!(size_of::<sys::ib_user_mad>() == 64 && size_of::<Record>() == 64 + MAD_LEN);

/// Number of devices of a port: the GSI device and, if it has one, the SMI device.
const DEVICES: usize = 2;

/// An open HCA port with an agent for each management class.
#[derive(Debug)]
pub struct UmadTransport {
    hca: HcaPort,
    /// One device for all classes, or the GSI device and the SMI device.
    devices: Vec<UmadDevice>,
    waiting: Waiting,
    record: Box<Record>,
}

/// An open device with its agents.
#[derive(Debug)]
struct UmadDevice {
    port: OpenPort,
    fd: RawFd,
    /// Agent ids in the order of [`CLASSES`]. An id is negative if there is no agent.
    agents: [c_int; CLASSES.len()],
}

/// The id of a port that libibumad opened. Dropping it closes a port of the kernel, but not one of
/// ibsim, which stays open until the process ends: if a reply arrived after the last port for its
/// class was closed, the receiving thread of the preloaded library would lock the descriptor
/// before it checks that there is one, and the process would end with SIGSEGV (ibsim 0.10).
#[derive(Debug)]
struct OpenPort(c_int);

/// Number of ports that transports of this process use.
static OPEN_PORTS: AtomicUsize = AtomicUsize::new(0);

/// Waits until no transport of this process uses a port, but not longer than `limit`. Call it
/// before the process ends: with ibsim's preloaded library, a thread that uses a port during the
/// exit handlers fails with SIGSEGV.
pub fn wait_until_closed(limit: Duration) {
    const STEP: Duration = Duration::from_millis(1);
    for _ in 0..limit.as_millis() {
        if OPEN_PORTS.load(Ordering::Acquire) == 0 {
            return;
        }
        std::thread::sleep(STEP);
    }
}

impl OpenPort {
    /// Takes the id of a port that `umad_open_port` returned.
    fn new(id: c_int) -> Self {
        OPEN_PORTS.fetch_add(1, Ordering::AcqRel);
        Self(id)
    }
}

impl Drop for OpenPort {
    #[expect(unsafe_code, reason = "libibumad")]
    fn drop(&mut self) {
        // SAFETY: the port is open. The call returns its argument and touches no memory.
        let fd = unsafe { sys::umad_get_fd(self.0) };
        if Waiting::of(fd) == Waiting::Precise {
            // SAFETY: umad_open_port returned the number, and only this drop closes it. The kernel
            // removes the port's agents.
            unsafe { sys::umad_close_port(self.0) };
        }
        OPEN_PORTS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// System call that waits for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    /// `ppoll`, which waits with the resolution of the kernel's timers.
    Precise,
    /// `poll`, which waits for whole milliseconds, rounded up. ibsim intercepts `poll`, but not
    /// `ppoll`.
    Milliseconds,
}

impl Waiting {
    /// Returns the most precise call that can wait for this descriptor.
    #[expect(unsafe_code, reason = "fcntl(2)")]
    fn of(fd: RawFd) -> Self {
        // SAFETY: F_GETFD takes no further argument and changes nothing. The call fails for a
        // number that is no descriptor of the kernel. The device of ibsim has such a number.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        if flags < 0 {
            Self::Milliseconds
        } else {
            Self::Precise
        }
    }

    /// Waits until one of `fds` has an event or `wait` is over. Returns the number of descriptors
    /// with events.
    #[expect(unsafe_code, reason = "poll(2)")]
    fn wait(self, fds: &mut [libc::pollfd], wait: Duration) -> c_int {
        let count = fds.len() as libc::nfds_t;
        match self {
            Self::Precise => {
                let timeout = libc::timespec {
                    tv_sec: libc::time_t::try_from(wait.as_secs()).unwrap_or(libc::time_t::MAX),
                    tv_nsec: c_long::from(wait.subsec_nanos().cast_signed()),
                };
                // SAFETY: `fds` points to `count` valid `pollfd`. The timeout is normalized, and a
                // null signal mask leaves the mask unchanged.
                unsafe {
                    libc::ppoll(
                        fds.as_mut_ptr(),
                        count,
                        &raw const timeout,
                        std::ptr::null(),
                    )
                }
            }
            Self::Milliseconds => {
                let millis = c_int::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
                // SAFETY: `fds` points to `count` valid `pollfd`.
                unsafe { libc::poll(fds.as_mut_ptr(), count, millis) }
            }
        }
    }
}

impl UmadTransport {
    /// Opens the port and registers an agent for each management class.
    ///
    /// # Errors
    /// Returns an error if the device cannot be opened, or the kernel refuses the agent for
    /// performance management. The error names the remedy.
    pub fn open(hca: &HcaPort) -> Result<Self, UmadError> {
        let transport = Self::open_with(hca, |port, (class, version)| {
            register(port, class, version, None)
        })?;
        if transport.devices[0].agents[0] < 0 {
            return Err(UmadError::Register {
                port: hca.to_string(),
                source: io::Error::last_os_error(),
            });
        }
        Ok(transport)
    }

    /// Opens the port and registers one agent: for MADs of subnet administration, and for reports,
    /// which the subnet manager sends without a request.
    ///
    /// # Errors
    /// Returns an error if the device cannot be opened, or the kernel refuses the agent. It refuses
    /// a second agent for reports on a port.
    pub fn open_for_reports(hca: &HcaPort) -> Result<Self, UmadError> {
        let transport = Self::open_with(hca, |port, (class, version)| match class {
            sa::CLASS_SUBN_ADM => register(port, class, version, Some(METHOD_REPORT)),
            _ => NO_AGENT,
        })?;
        if transport.devices[0].agents.iter().all(|agent| *agent < 0) {
            return Err(UmadError::RegisterReports {
                port: hca.to_string(),
                source: io::Error::last_os_error(),
            });
        }
        Ok(transport)
    }

    /// Opens the devices of the port. `register` registers the agent of a class.
    fn open_with(
        hca: &HcaPort,
        register: impl Fn(&OpenPort, (u8, u8)) -> c_int,
    ) -> Result<Self, UmadError> {
        let names = [(hca.ca.as_str(), hca.port), hca.of_smps()];
        let [gsi, smi] = names.map(|name| move || UmadDevice::open(hca, name));
        let is_smp = |class| [SMP, DIRECTED].contains(&class);
        let agents = |port: &OpenPort, of: &dyn Fn(u8) -> bool| {
            CLASSES.map(|class| {
                if of(class.0) {
                    register(port, class)
                } else {
                    NO_AGENT
                }
            })
        };
        let mut devices = vec![gsi()?];
        if hca.smi.is_empty() {
            devices[0].agents = agents(&devices[0].port, &|_| true);
        } else {
            devices[0].agents = agents(&devices[0].port, &|class| !is_smp(class));
            let mut smi = smi()?;
            smi.agents = agents(&smi.port, &is_smp);
            devices.push(smi);
        }
        Ok(Self {
            hca: hca.clone(),
            waiting: Waiting::of(devices[0].fd),
            devices,
            record: Box::new(Record {
                header: empty_header(),
                mad: [0; MAD_LEN],
            }),
        })
    }
}

impl UmadDevice {
    /// Opens a device of a port, without agents.
    #[expect(unsafe_code, reason = "libibumad")]
    fn open(hca: &HcaPort, (ca, port): (&str, PortNum)) -> Result<Self, UmadError> {
        let name = CString::new(ca).map_err(|_| UmadError::no_such_port(hca))?;
        let (id, header) = {
            let _library = lock_library();
            // SAFETY: the name ends with a zero and outlives the call. The lock excludes other
            // writers of the library's globals. Readers see an unchanged value (section on
            // threads).
            let id = unsafe { sys::umad_open_port(name.as_ptr(), c_int::from(port.0)) };
            if id < 0 {
                // The library returns EIO for every failure of open(2). errno has the cause.
                return Err(UmadError::open(hca, io::Error::last_os_error()));
            }
            // SAFETY: takes no argument and reads a global that the lock keeps unchanged.
            (id, unsafe { sys::umad_size() })
        };
        let port = OpenPort::new(id);
        if header != size_of::<sys::ib_user_mad>() {
            return Err(UmadError::OldKernel { header });
        }
        // SAFETY: the port is open. The call returns its argument and touches no memory.
        let fd = unsafe { sys::umad_get_fd(id) };
        let agents = [NO_AGENT; CLASSES.len()];
        Ok(Self { port, fd, agents })
    }
}

impl UmadTransport {
    /// Returns whether the device is one of the kernel and not of ibsim, whose preloaded library
    /// delivers all replies of a class to the descriptor that registered last.
    pub fn is_of_kernel(&self) -> bool {
        self.waiting == Waiting::Precise
    }

    fn record(&mut self) -> *mut c_void {
        std::ptr::from_mut::<Record>(&mut self.record).cast()
    }

    /// Returns the index of a device that has a record to read within `wait`. If both have one, it
    /// is that of the SMI device, whose few records do not delay those of the other one.
    fn readable(&self, wait: Duration) -> Result<Option<usize>, TransportError> {
        let mut fds = [-1; DEVICES].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        for (of, device) in fds.iter_mut().zip(&self.devices) {
            of.fd = device.fd;
        }
        match self.waiting.wait(&mut fds[..self.devices.len()], wait) {
            0 => Ok(None),
            1.. => match fds.iter().rposition(|of| of.revents & libc::POLLIN != 0) {
                None => Err(TransportError::new("poll", libc::EIO)),
                device => Ok(device),
            },
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                source => Err(TransportError::call("poll", source)),
            },
        }
    }

    /// Reads one record of a device. Returns `None` if the device has none.
    #[expect(unsafe_code, reason = "libibumad")]
    fn read(&mut self, device: usize, mad: &mut Mad) -> Result<Option<Completion>, TransportError> {
        let (port, record) = (self.devices[device].port.0, self.record());
        let mut len = MAD_LEN as c_int;
        // SAFETY: the record holds a header and `len` octets of a MAD. `&mut self` excludes other
        // users.
        let agent = unsafe { sys::umad_recv(port, record, &raw mut len, 0) };
        if agent < 0 {
            return match io::Error::last_os_error() {
                error
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) =>
                {
                    Ok(None)
                }
                source => Err(TransportError::call("umad_recv", source)),
            };
        }
        // After a read of only a header, the buffer still has the previous MAD, so this is an
        // error and not a record.
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len > 0)
            .ok_or_else(|| TransportError::new("umad_recv", libc::EIO))?;
        *mad = self.record.mad;
        let tid = Header::parse(mad).tid;
        let outcome = match self.record.header.status {
            0 => Outcome::Reply {
                slid: Lid(u16::from_be(self.record.header.addr.lid)),
                len,
            },
            // ETIMEDOUT, or the errno of a send that failed: no reply follows in either case.
            _ => Outcome::TimedOut,
        };
        Ok(Some(Completion { tid, outcome }))
    }
}

impl Transport for UmadTransport {
    #[expect(unsafe_code, reason = "libibumad")]
    fn send(&mut self, target: &Target, mad: &Mad, _now: Instant) -> Result<(), TransportError> {
        let class = Header::parse(mad).class;
        let place = CLASSES.iter().position(|(of, _)| *of == class);
        let of_device = |device: &UmadDevice| {
            let agent = device.agents[place?];
            (agent >= 0).then_some((device.port.0, agent))
        };
        let found = self.devices.iter().find_map(of_device);
        let (port, agent) = found.ok_or(TransportError::NoAgent { class })?;
        let millis = kernel_timeout(target.give_up);
        // umad_set_addr does not overwrite the GRH and the path bits of the previous reply, so the
        // header is cleared first.
        self.record.header = empty_header();
        self.record.mad = *mad;
        let record = self.record();
        let (qp, qkey) = (target.qp.cast_signed(), target.qkey.cast_signed());
        // SAFETY: the record is a whole header. `&mut self` excludes other users.
        unsafe {
            sys::umad_set_addr(
                record,
                c_int::from(target.lid.0),
                qp,
                c_int::from(target.sl),
                qkey,
            )
        };
        // SAFETY: the record is a whole header. `&mut self` excludes other users.
        unsafe { sys::umad_set_pkey(record, c_int::from(target.pkey_index)) };
        // SAFETY: the record is a whole header and a whole MAD. The library keeps no pointer to it.
        let sent = unsafe { sys::umad_send(port, agent, record, MAD_LEN as c_int, millis, 0) };
        if sent < 0 {
            Err(TransportError::call(
                "umad_send",
                io::Error::last_os_error(),
            ))
        } else {
            Ok(())
        }
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        _now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        match self.readable(wait)? {
            Some(device) => self.read(device, mad),
            None => Ok(None),
        }
    }

    fn locator(&self) -> Locator {
        ports::locator(&self.hca)
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("mad", &Header::parse(&self.mad))
            .finish_non_exhaustive()
    }
}

/// Id of an agent that does not exist.
const NO_AGENT: c_int = -1;

/// Registers the agent of a class, which receives replies and the MADs of one method that come
/// without a request. Returns the id of the agent, which is negative if the kernel refused it.
#[expect(unsafe_code, reason = "libibumad")]
fn register(port: &OpenPort, class: u8, version: u8, unsolicited: Option<u8>) -> c_int {
    // The mask has one bit for each of 128 methods.
    let mut mask = [0 as c_long; 16 / size_of::<c_long>()];
    if let Some(method) = unsolicited {
        mask[usize::from(method) / c_long::BITS as usize] |=
            1 << (u32::from(method) % c_long::BITS);
    }
    // SAFETY: the port is open, and the mask has the 128 bits that the library reads. An empty mask
    // is equal to none.
    unsafe {
        sys::umad_register(
            port.0,
            c_int::from(class),
            c_int::from(version),
            0,
            mask.as_mut_ptr(),
        )
    }
}

/// Returns the kernel's timeout for a MAD in whole milliseconds, rounded up: 0 for a MAD that has
/// no reply, and at least 1 for any other.
fn kernel_timeout(give_up: Duration) -> c_int {
    if give_up.is_zero() {
        return 0;
    }
    c_int::try_from(give_up.as_nanos().div_ceil(1_000_000))
        .unwrap_or(c_int::MAX)
        .max(1)
}

/// Returns a header of zeros.
#[expect(unsafe_code, reason = "a struct of the library")]
fn empty_header() -> sys::ib_user_mad {
    // SAFETY: the struct consists of integers and arrays of integers, for which zeros are a valid
    // value.
    unsafe { std::mem::zeroed() }
}

/// Ends the process at once: no exit handlers run, no destructors run, no buffer is flushed.
///
/// Call it only at a stop that exceeded its time limit. With ibsim's preloaded library, a normal
/// exit can block for ever, because the exit handler of this library waits for a reply of the
/// simulator and for a lock that a thread inside `write` holds. With a real kernel,
/// `std::process::exit` is sufficient.
#[expect(unsafe_code, reason = "_exit(2)")]
pub fn end_process(code: i32) -> ! {
    // SAFETY: takes a number and does not return, so no state of this process is used afterwards.
    unsafe { libc::_exit(code) }
}

/// Returns the text of a character array that ends with a zero or fills the array.
fn text(chars: &[c_char]) -> String {
    let octets: Vec<u8> = chars
        .iter()
        .map(|c| *c as u8)
        .take_while(|octet| *octet != 0)
        .collect();
    String::from_utf8_lossy(&octets).into_owned()
}

/// Returns the name of an HCA for the library, or `None` if no HCA can have that name.
fn c_name(name: &str) -> Option<CString> {
    let short = name.len() < sys::UMAD_CA_NAME_LEN as usize;
    CString::new(name)
        .ok()
        .filter(|name| short && !CStr::is_empty(name))
}

/// Returns a port number for the library.
fn c_port(port: PortNum) -> c_int {
    c_int::from(port.0)
}
