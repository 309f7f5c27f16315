//! Writes an assignments file.

use std::fmt::{Display, Formatter, Result, Write};
use std::time::{Duration, UNIX_EPOCH};

use ibnet_record::types::{Printable, misleads};

use super::{AssignedDevice, AssignedPeer, AssignedPort, Assignments, Header, Sampler};

impl Assignments {
    /// Returns the text of the file, with the header as its comment.
    pub fn to_toml(&self, header: &Header) -> String {
        let mut text = String::new();
        let _ = self.write(header, &mut text);
        text
    }

    fn write(&self, header: &Header, to: &mut String) -> Result {
        writeln!(
            to,
            "# Which sampler queries which ports. Written by ibnet-gen: change its arguments, not this file."
        )?;
        for (name, sha256) in &header.sources {
            writeln!(to, "# source:  {} (SHA-256 {sha256})", Printable(name))?;
        }
        writeln!(to, "# command: {}", Printable(&header.command))?;
        writeln!(to, "\nversion = {}\ncap = {}", self.version, self.cap)?;
        if let Some(at) = self.at {
            writeln!(to, "{}", time_line(at))?;
        }
        self.samplers
            .iter()
            .try_for_each(|sampler| sampler.write(to))
    }
}

/// Returns the text of a plan with another time of its first slot, in nanoseconds since 1970. All
/// other bytes stay the same. `text` is a valid plan as [`Assignments::to_toml`] writes it.
pub fn with_time(text: &str, at: u64) -> String {
    let is_heading = |line: &str| line.trim_start().starts_with('[');
    let is_key = |line: &str, key: &str| {
        line.split('=')
            .next()
            .is_some_and(|name| name.trim() == key)
    };
    let mut changed = String::with_capacity(text.len() + 64);
    let mut is_top = true;
    for line in text.split_inclusive('\n') {
        is_top &= !is_heading(line);
        if is_top && is_key(line, "at") {
            continue;
        }
        changed.push_str(line);
        if is_top && is_key(line, "cap") {
            changed.push_str(&time_line(at));
            changed.push('\n');
        }
    }
    changed
}

fn time_line(at: u64) -> String {
    format!(
        "at = \"{}\"",
        humantime::format_rfc3339(UNIX_EPOCH + Duration::from_nanos(at))
    )
}

impl Sampler {
    fn write(&self, to: &mut String) -> Result {
        writeln!(to, "\n[[sampler]]\nhost = {}", quoted(&self.host))?;
        if let Some(subnet) = &self.subnet {
            writeln!(to, "subnet = {}", quoted(subnet))?;
        }
        if let Some(ca) = &self.ca {
            writeln!(to, "ca = {}", quoted(ca))?;
        }
        if let Some(port) = self.ca_port {
            writeln!(to, "ca_port = {port}")?;
        }
        if let Some(role) = &self.role {
            writeln!(to, "role = {}", quoted(role))?;
        }
        if let Some(offset) = self.offset {
            writeln!(to, "offset = {}", toml::Value::Float(offset))?;
        }
        writeln!(to, "port_count = {}", self.port_count)?;
        self.devices.iter().try_for_each(|device| device.write(to))
    }
}

impl AssignedDevice {
    fn write(&self, to: &mut String) -> Result {
        writeln!(
            to,
            "  [[sampler.device]]\n  guid = \"{}\"\n  lid = {}\n  kind = \"{}\"",
            self.guid, self.lid, self.kind
        )?;
        writeln!(to, "  name = {}", quoted(&self.name))?;
        if let Some(hops) = self.hops {
            writeln!(to, "  hops = {hops}")?;
        }
        self.ports.iter().try_for_each(|port| port.write(to))
    }
}

impl AssignedPort {
    fn write(&self, to: &mut String) -> Result {
        let (width, speed) = (quoted(&self.width), quoted(&self.speed));
        writeln!(
            to,
            "    [[sampler.device.port]]\n    num = {}\n    width = {width}\n    speed = {speed}",
            self.num
        )?;
        if let Some(AssignedPeer {
            guid,
            lid,
            port,
            name,
        }) = &self.peer
        {
            writeln!(
                to,
                "    peer = {{ guid = \"{guid}\", lid = {lid}, port = {port}, name = {} }}",
                quoted(name)
            )?;
        }
        Ok(())
    }
}

/// A TOML string with its quotes. Invisible characters are escaped, because people read the file
/// on a terminal.
fn quoted(text: &str) -> Quoted<'_> {
    Quoted(text)
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        // Fast path, because nearly all names need neither an escape nor another kind of string.
        let is_plain = self
            .0
            .bytes()
            .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\'' | b'\\'));
        if is_plain {
            return write!(f, "\"{}\"", self.0);
        }
        if !self.0.contains(misleads) {
            return toml::Value::String(self.0.to_owned()).fmt(f);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if misleads(c) => write!(f, "\\U{:08X}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}
