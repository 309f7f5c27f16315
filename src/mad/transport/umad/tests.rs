//! Tests of the transport with a socket or a pipe instead of the device. This is possible because
//! libibumad only reads and writes the descriptor.

use std::io::Read;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixDatagram;

use ibnet_record::types::Tid;

use super::*;

const HEADER: usize = size_of::<sys::ib_user_mad>();

/// Returns the length of a record for libibumad, which assumes a shorter header until a real device
/// is open.
#[expect(unsafe_code, reason = "libibumad")]
fn record_len() -> usize {
    // SAFETY: the function takes no argument. It reads a global, and no test writes this global,
    // because no test opens a device.
    unsafe { sys::umad_size() + MAD_LEN }
}

/// Returns a transport that owns the descriptor.
fn transport(fd: impl IntoRawFd) -> UmadTransport {
    let fd = fd.into_raw_fd();
    let hca = HcaPort {
        ca: "mlx5_0".to_owned(),
        port: PortNum(1),
        lid: Lid(1),
        sm_lid: Lid(1),
        sm_sl: 0,
        gid: sa::Gid::default(),
        state: 4,
        link_layer: "InfiniBand".to_owned(),
        pkeys: vec![0xffff],
        ..HcaPort::default()
    };
    let record = Box::new(Record {
        header: empty_header(),
        mad: [0; MAD_LEN],
    });
    UmadTransport {
        hca,
        devices: vec![device(fd, [5, 6, -1, -1, -1])],
        waiting: Waiting::of(fd),
        record,
    }
}

fn device(fd: RawFd, agents: [c_int; CLASSES.len()]) -> UmadDevice {
    let port = OpenPort::new(fd);
    UmadDevice { port, fd, agents }
}

fn pair() -> (UmadTransport, UnixDatagram) {
    let (ours, device) = UnixDatagram::pair().expect("sockets");
    (transport(ours), device)
}

fn mad() -> Mad {
    let mut mad = [0; MAD_LEN];
    pma::Query {
        attribute: 0x12,
        port: Some(PortNum(1)),
    }
    .emit(Tid(7), &mut mad);
    mad
}

fn send(transport: &mut UmadTransport) -> Result<(), TransportError> {
    let target = Target::general(Lid(9), 3, 2, Duration::from_millis(50));
    transport.send(&target, &mad(), Instant::ZERO)
}

fn recv(transport: &mut UmadTransport) -> Result<Option<Completion>, TransportError> {
    transport.recv(&mut [0; MAD_LEN], Duration::ZERO, Instant::ZERO)
}

#[test]
fn kernel_gets_the_timeout_and_no_retries() {
    let (mut transport, device) = pair();
    send(&mut transport).expect("sent");
    let mut written = [0; HEADER + MAD_LEN];
    assert_eq!(device.recv(&mut written).expect("written"), record_len());
    let header = &transport.record.header;
    assert_eq!(
        (header.agent_id, header.timeout_ms, header.retries),
        (5, 50, 0)
    );
    assert_eq!((u16::from_be(header.addr.lid), header.addr.sl), (9, 3));
    assert_eq!(
        written[HEADER..record_len()],
        mad()[..record_len() - HEADER]
    );
}

#[test]
fn failed_send_returns_its_errno() {
    let (mut transport, device) = pair();
    drop(device);
    let error = send(&mut transport).expect_err("the other end is closed");
    assert!(
        matches!(
            error,
            TransportError::Call {
                call: "umad_send",
                ..
            }
        ) && error.errno() == libc::ECONNREFUSED,
        "{error}"
    );
    let (device, ours) = io::pipe().expect("a pipe");
    drop(device);
    let error = send(&mut self::transport(ours)).expect_err("the other end is closed");
    assert_eq!((error.errno(), error.is_lost()), (libc::EPIPE, true));
}

#[test]
fn reply_and_timeout_are_read() {
    let (mut transport, device) = pair();
    let mut record = [0; HEADER + MAD_LEN];
    record[HEADER..].copy_from_slice(&mad());
    device.send(&record[..record_len()]).expect("sent");
    let reply = recv(&mut transport).expect("read").expect("one is pending");
    assert_eq!(
        (reply.tid, reply.outcome),
        (
            Tid(7),
            Outcome::Reply {
                slid: Lid(0),
                len: MAD_LEN
            }
        )
    );
    // The status follows the number of the agent.
    record[4..8].copy_from_slice(&libc::ETIMEDOUT.to_ne_bytes());
    // The kernel appends only the header of the MAD.
    device.send(&record[..HEADER + 24]).expect("sent");
    let timeout = recv(&mut transport).expect("read").expect("one is pending");
    assert_eq!((timeout.tid, timeout.outcome), (Tid(7), Outcome::TimedOut));
    assert_eq!(recv(&mut transport).expect("nothing is wrong"), None);
}

#[test]
fn empty_read_loses_the_transport() {
    let (mut transport, device) = pair();
    send(&mut transport).expect("sent");
    // The buffer still has the header of the last send. It must not be taken for a reply.
    for octets in [0, 8] {
        device.send(&[0; 8][..octets]).expect("sent");
        let error = recv(&mut transport).expect_err("no record");
        assert!(
            matches!(
                error,
                TransportError::Call {
                    call: "umad_recv",
                    ..
                }
            ) && error.errno() == libc::EIO,
            "{error}"
        );
    }
}

#[test]
fn hang_up_loses_the_transport() {
    let (ours, device) = io::pipe().expect("a pipe");
    drop(device);
    let error = recv(&mut transport(ours)).expect_err("POLLHUP");
    assert!(
        matches!(error, TransportError::Call { call: "poll", .. }) && error.errno() == libc::EIO,
        "{error}"
    );
}

#[test]
fn read_that_would_block_returns_none() {
    let (ours, _device) = UnixDatagram::pair().expect("sockets");
    ours.set_nonblocking(true).expect("set");
    let mut transport = transport(ours);
    assert_eq!(
        transport
            .read(0, &mut [0; MAD_LEN])
            .expect("nothing is wrong"),
        None
    );
}

#[test]
fn drop_closes_the_device() {
    let (mut device, ours) = io::pipe().expect("a pipe");
    drop(transport(ours));
    assert_eq!(device.read(&mut [0]).expect("end of file"), 0);
}

#[test]
fn class_without_an_agent_is_refused() {
    let (mut transport, _device) = pair();
    let mut mad = mad();
    mad[1] = sa::CLASS_SUBN_ADM;
    let error = transport
        .send(
            &Target::general(Lid(1), 0, 0, Duration::ZERO),
            &mad,
            Instant::ZERO,
        )
        .expect_err("no agent");
    assert!(
        matches!(
            error,
            TransportError::NoAgent {
                class: sa::CLASS_SUBN_ADM
            }
        ) && !error.is_lost(),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::NoAgent);
}

#[test]
fn kernel_timeout_is_rounded_up_to_milliseconds() {
    for (micros, millis) in [
        (0, 0),
        (100, 1),
        (1_000, 1),
        (1_001, 2),
        (1_500, 2),
        (50_000, 50),
    ] {
        assert_eq!(
            kernel_timeout(Duration::from_micros(micros)),
            millis,
            "{micros} us"
        );
    }
    assert_eq!(kernel_timeout(Duration::MAX), c_int::MAX);
}

/// Three waits of 300 us each take less than 2.5 ms. The scheduler may delay a single attempt, so
/// only one of many attempts must succeed.
#[test]
fn wait_is_shorter_than_a_millisecond() {
    let (transport, _device) = pair();
    assert_eq!(transport.waiting, Waiting::Precise);
    assert!((0..1000).any(
        |_| ends_within(Duration::from_micros(2_500), || wait_three_times(
            &transport
        ))
    ));
    assert_eq!(
        transport.readable(Duration::ZERO).expect("ppoll succeeds"),
        None
    );
}

/// The transport waits with `poll` for a number that is no descriptor. The device of ibsim has such
/// a number.
#[test]
fn descriptor_unknown_to_the_kernel_is_waited_for_in_milliseconds() {
    assert_eq!(Waiting::of(c_int::MAX), Waiting::Milliseconds);
    let (mut transport, device) = pair();
    transport.waiting = Waiting::Milliseconds;
    wait_once(&transport);
    device.send(&[0; 8]).expect("sent");
    let readable = transport.readable(Duration::MAX);
    assert_eq!(readable.expect("poll succeeds"), Some(0));
}

fn wait_once(transport: &UmadTransport) {
    let readable = transport.readable(Duration::from_micros(300));
    assert_eq!(readable.expect("poll succeeds"), None);
}

fn wait_three_times(transport: &UmadTransport) {
    (0..3).for_each(|_| wait_once(transport));
}

/// Returns whether `work` ends before a thread that sleeps for `limit`. A thread is used because
/// the library reads no clock.
fn ends_within(limit: Duration, work: impl FnOnce()) -> bool {
    let sleeper = std::thread::spawn(move || std::thread::sleep(limit));
    work();
    !sleeper.is_finished()
}

/// General management goes to the GSI device, subnet management to the SMI device, and replies of
/// both are received.
#[test]
fn smps_have_a_device_of_their_own() {
    let (gsi, smi) = [(); 2]
        .map(|()| UnixDatagram::pair().expect("sockets"))
        .into();
    let (mut transport, gsi) = (transport(gsi.0), gsi.1);
    transport.devices[0].agents = [5, NO_AGENT, 7, NO_AGENT, NO_AGENT];
    let agents = [NO_AGENT, 1, NO_AGENT, 2, NO_AGENT];
    transport.devices.push(device(smi.0.into_raw_fd(), agents));
    let smi = smi.1;
    for (class, at, agent) in [
        (0x04, &gsi, 5),
        (0x01, &smi, 1),
        (0x81, &smi, 2),
        (0x03, &gsi, 7),
    ] {
        let mut mad = mad();
        mad[1] = class;
        let target = Target::subnet_management(Lid(9), Duration::from_millis(50));
        transport.send(&target, &mad, Instant::ZERO).expect("sent");
        let mut written = [0; HEADER + MAD_LEN];
        assert_eq!(at.recv(&mut written).expect("written"), record_len());
        assert_eq!(transport.record.header.agent_id, agent);
        at.send(&written[..record_len()]).expect("sent");
        let reply = recv(&mut transport).expect("read").expect("one is pending");
        assert_eq!(reply.tid, Tid(7));
    }
}
