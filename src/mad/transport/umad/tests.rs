//! The transport on what stands in for the device: sockets and pipes, which libibumad writes to and reads from all the same.

use std::io::Read;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixDatagram;

use super::*;
use crate::mad::pma::Query;
use crate::types::Tid;

const HEADER: usize = size_of::<sys::ib_user_mad>();

/// Octets of a record as the library counts them: until a real device was open it takes the header to be shorter than it is.
#[expect(unsafe_code, reason = "libibumad")]
fn record_len() -> usize {
    // SAFETY: takes nothing.
    unsafe { sys::umad_size() + MAD_LEN }
}

/// A transport on a descriptor that it closes in the end.
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
    };
    let record = Box::new(Record { header: no_header(), mad: [0; MAD_LEN] });
    UmadTransport { port: Port(fd), hca, agents: [5, 6, -1], fd, record }
}

fn pair() -> (UmadTransport, UnixDatagram) {
    let (ours, device) = UnixDatagram::pair().expect("sockets");
    (transport(ours), device)
}

fn mad() -> Mad {
    let mut mad = [0; MAD_LEN];
    Query { attribute: 0x12, port: Some(PortNum(1)) }.emit(Tid(7), &mut mad);
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
fn the_kernel_is_told_the_grace_and_not_to_send_again() {
    let (mut transport, device) = pair();
    send(&mut transport).expect("sent");
    let mut written = [0; HEADER + MAD_LEN];
    assert_eq!(device.recv(&mut written).expect("written"), record_len());
    let header = &transport.record.header;
    assert_eq!((header.agent_id, header.timeout_ms, header.retries), (5, 50, 0));
    assert_eq!((u16::from_be(header.addr.lid), header.addr.sl), (9, 3));
    assert_eq!(written[HEADER..record_len()], mad()[..record_len() - HEADER]);
}

#[test]
fn what_cannot_be_written_has_its_errno() {
    let (mut transport, device) = pair();
    drop(device);
    let error = send(&mut transport).expect_err("nobody is there");
    assert!(matches!(error, TransportError::Call { call: "umad_send", .. }) && error.errno() == libc::ECONNREFUSED, "{error}");
    let (device, ours) = io::pipe().expect("a pipe");
    drop(device);
    let error = send(&mut self::transport(ours)).expect_err("nobody is there");
    assert_eq!((error.errno(), error.is_lost()), (libc::EPIPE, true));
}

#[test]
fn a_reply_and_a_timeout_are_read_alike() {
    let (mut transport, device) = pair();
    let mut record = [0; HEADER + MAD_LEN];
    record[HEADER..].copy_from_slice(&mad());
    device.send(&record[..record_len()]).expect("sent");
    let reply = recv(&mut transport).expect("read").expect("one is there");
    assert_eq!((reply.tid, reply.outcome), (Tid(7), Outcome::Reply { slid: Lid(0), len: MAD_LEN }));
    // The status stands after the agent's number.
    record[4..8].copy_from_slice(&libc::ETIMEDOUT.to_ne_bytes());
    // With it comes no more of the MAD than its header.
    device.send(&record[..HEADER + 24]).expect("sent");
    let timeout = recv(&mut transport).expect("read").expect("one is there");
    assert_eq!((timeout.tid, timeout.outcome), (Tid(7), Outcome::TimedOut));
    assert_eq!(recv(&mut transport).expect("nothing is wrong"), None);
}

#[test]
fn who_read_nothing_at_all_does_not_read_on() {
    let (mut transport, device) = pair();
    send(&mut transport).expect("sent");
    // Of what was sent last the header is still there, and would pass for a reply.
    for octets in [0, 8] {
        device.send(&[0; 8][..octets]).expect("sent");
        let error = recv(&mut transport).expect_err("that is no record");
        assert!(matches!(error, TransportError::Call { call: "umad_recv", .. }) && error.errno() == libc::EIO, "{error}");
    }
}

#[test]
fn a_hang_up_is_an_error_and_no_reason_to_poll_again_at_once() {
    let (ours, device) = io::pipe().expect("a pipe");
    drop(device);
    let error = recv(&mut transport(ours)).expect_err("POLLHUP");
    assert!(matches!(error, TransportError::Call { call: "poll", .. }) && error.errno() == libc::EIO, "{error}");
}

#[test]
fn a_read_that_would_block_is_none() {
    let (ours, _device) = UnixDatagram::pair().expect("sockets");
    ours.set_nonblocking(true).expect("set");
    let mut transport = transport(ours);
    assert_eq!(transport.read(&mut [0; MAD_LEN]).expect("nothing is wrong"), None);
}

#[test]
fn what_is_open_is_closed_in_the_end() {
    let (mut device, ours) = io::pipe().expect("a pipe");
    drop(transport(ours));
    assert_eq!(device.read(&mut [0]).expect("at its end"), 0);
}
