//! Reads from the TCP and Unix sockets of samplers (`type = "listen"` in `ibnet.toml`).
//!
//! The hub connects to the sampler. After a loss it reconnects, with a pause that grows from
//! [`FIRST_PAUSE`] to [`LONGEST_PAUSE`]. The sampler sends `start` records first, and then the
//! records from the next slot on, so the slots in between are missing. The hub counts them from the
//! slot numbers (`slots_lost` of the sampler).

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;

use super::lines::{Splitter, read_all};
use super::{Sender, Stopped, What};

/// Pause before the second attempt to connect. It doubles with each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Max pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Time limit of an attempt to connect.
const CONNECT: Duration = Duration::from_secs(5);

/// A silent connection is probed after this time, and then at this interval, so that a host without
/// power is detected within half a minute.
const IDLE: Duration = Duration::from_secs(10);
const TEST_EVERY: Duration = Duration::from_secs(5);
const TESTS: u32 = 3;

/// Reads from a TCP socket until the hub stops.
pub(crate) fn read_tcp(address: &str, sender: &Sender) -> Result<(), Stopped> {
    read(|| connect(address), sender)
}

/// Reads from a Unix socket until the hub stops.
pub(crate) fn read_unix(path: &Path, sender: &Sender) -> Result<(), Stopped> {
    read(|| UnixStream::connect(path), sender)
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                keep_alive(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn keep_alive(stream: impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, IDLE)?;
    sockopt::set_tcp_keepintvl(&stream, TEST_EVERY)?;
    Ok(sockopt::set_tcp_keepcnt(&stream, TESTS)?)
}

fn read<S: Read>(connect: impl Fn() -> io::Result<S>, sender: &Sender) -> Result<(), Stopped> {
    let mut pause = FIRST_PAUSE;
    let mut splitter = Splitter::default();
    loop {
        match connect() {
            Ok(mut stream) => {
                sender.send(What::Connected)?;
                pause = FIRST_PAUSE;
                let end = read_all(&mut stream, &mut splitter, sender)?;
                // The end of the last line was lost with the connection.
                splitter.clear();
                sender.send(What::Lost(end.err().map_or_else(
                    || "the sampler closed the connection".to_owned(),
                    |error| error.to_string(),
                )))?;
            }
            Err(error) => sender.send(What::Failed(error.to_string()))?,
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::super::queue;
    use super::*;

    #[test]
    fn lost_connection_is_opened_again() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (mut senders, receiver) = queue(1);
        let sender = senders.remove(0);
        let reader = thread::spawn(move || read_tcp(&address, &sender));
        let mut reports = Vec::new();
        for text in ["one\ntw", "three\n"] {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(text.as_bytes()).expect("written");
            drop(stream);
            reports.extend(
                (0..3).map(|_| match receiver.recv().expect("a report").what {
                    What::Lines(lines) => String::from_utf8(lines).expect("text"),
                    What::Connected => "connected".to_owned(),
                    What::Lost(_) => "lost".to_owned(),
                    other => format!("{other:?}"),
                }),
            );
        }
        assert_eq!(
            reports,
            ["connected", "one\n", "lost", "connected", "three\n", "lost"],
            "a cut line is dropped"
        );
        drop(receiver);
        drop(listener);
        assert_eq!(reader.join().expect("no panic"), Err(Stopped));
    }
}
