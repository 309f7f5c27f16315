//! The samplers as `ibnet-hub` reports them: one HTTP/1.0 request without TLS.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde::Deserialize;

use super::row::Row;
use crate::failure::Failure;

/// Max time for connecting, and for each read and write.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Max answer in bytes. A hub has at most 4,096 samplers with about 2 kB each.
const LARGEST: u64 = 64 << 20;

const HELP: &str = "check that ibnet-hub runs there; for a hub on another host use a tunnel: ssh -L 8080:127.0.0.1:8080 HOST";

#[derive(Deserialize)]
struct Answer {
    rows: Vec<Row>,
}

/// Reads the samplers of a hub.
pub(super) fn read(url: &str) -> Result<Vec<Row>, Failure> {
    let failed = |reason: String| Failure::Source {
        from: url.to_owned(),
        reason,
        help: HELP,
    };
    let host = url
        .strip_prefix("http://")
        .unwrap_or(url)
        .trim_end_matches('/');
    let text = request(host).map_err(|error| failed(error.to_string()))?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or_else(|| failed("the answer is not HTTP".to_owned()))?;
    let status = head.lines().next().unwrap_or_default();
    if status.split_whitespace().nth(1) != Some("200") {
        return Err(failed(format!("the answer is {status}")));
    }
    let answer: Answer = serde_json::from_str(body)
        .map_err(|error| failed(format!("the answer is not a list of samplers: {error}")))?;
    Ok(answer.rows)
}

fn request(host: &str) -> std::io::Result<String> {
    let with_port = if host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let mut failure = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
    for address in with_port.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                write!(
                    stream,
                    "GET /api/v1/samplers HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n"
                )?;
                let mut text = String::new();
                stream.take(LARGEST).read_to_string(&mut text)?;
                return Ok(text);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
