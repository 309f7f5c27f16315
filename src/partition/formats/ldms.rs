//! The lid files of the LDMS sampler `ibnet`, as that sampler reads them.
//!
//! ```text
//! # a comment: the whole line
//! 4 0x0000000000200006 36 *
//! 17 0x0000000000100001 1 1
//! 9 0x0000000000200107 3 1,2,33
//! ```
//!
//! A line has a LID, a port GUID, the number of ports and the ports, separated by blanks; the ports by commas or tabs. `*` stands for all from 1 to their
//! number. The sampler's manual also promises commas between the columns and ranges of ports: its parser (`parse_lid_file` in `ibnet_data.c`) has neither,
//! and an empty line ends it with an error. So this is what is written here, and how it is read, but for empty lines, which are skipped.
//!
//! There is one such file for each sampler, and nothing in it says whose it is. Here it is found in this order: what was given with the file; a
//! heading, of ours or of `ldms-ibnet-sampler-gen`; the name of the file, `PREFIX.HOST.conf`.

use std::fmt::Write;
use std::path::Path;

use miette::Diagnostic;

use crate::partition::Share;
use crate::partition::hosts::{self, HostsError, Place, Wanted};
use crate::topology::Fabric;
use crate::types::{Guid, Lid, NodeKind, PortNum, Printable};

/// The first line of a lid file of ours; below it, and only there, a line [`SAMPLER`] tells whose the next lines are.
const OURS: &str = "# ibnet-gen: LID, port GUID, number of ports, ports";
const SAMPLER: &str = "# sampler ";
/// The first line of a file of `ldms-ibnet-sampler-gen`.
const THEIRS: [&str; 2] = ["# sampled switches for ", "# sampled HCAs for "];

/// More ports than any device has.
const MOST_PORTS: i64 = 254;

/// A line of a lid file, and whose it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LidLine {
    /// Who samples.
    pub sampler: Wanted,
    /// The file.
    pub name: String,
    /// From 1.
    pub line: u32,
    /// Where the device answered when the file was made.
    pub lid: Lid,
    /// Its port GUID; LDMS itself makes only names of it.
    pub guid: Guid,
    /// Its ports.
    pub ports: Vec<PortNum>,
}

/// Why a file is no lid file.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum LidFileError {
    /// A line that LDMS could not read either.
    #[error("{name}:{line}: {found}")]
    #[diagnostic(help(
        "a line has a LID, a port GUID, the number of ports and so many ports, `4 0x0000000000200006 3 1,2,33`, or `*` for all from 1 on; only the ports \
         have commas between them"
    ))]
    Syntax {
        /// The file.
        name: String,
        /// From 1.
        line: u32,
        /// What is wrong.
        found: String,
    },
    /// Nothing in it.
    #[error("{name}: not a single port stands in this file")]
    #[diagnostic(help("give the file that `source-list=` of the LDMS sampler `ibnet` names"))]
    Empty {
        /// The file.
        name: String,
    },
    /// Whose it is cannot be told.
    #[error("{name}: nothing tells which host samples these ports")]
    #[diagnostic(help("say so: `--from-ldms HOST={name}`"))]
    WhoseIsIt {
        /// The file.
        name: String,
    },
    /// The host's name cannot be one.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Host(#[from] HostsError),
}

/// The lid file of a sampler.
pub fn lid_file(fabric: &Fabric, share: &Share) -> String {
    let mut text = format!("{OURS}\n");
    // Writing to a String does not fail.
    let _ = writeln!(text, "{SAMPLER}{}", share.host);
    for held in &share.devices {
        let device = fabric.device(held.id);
        let ports: Vec<_> = device.linked().map(|(port, _)| port.num).collect();
        let all = device.kind == NodeKind::Switch && ports.iter().zip(1..).all(|(port, number)| port.0 == number);
        let list = if all { "*".to_owned() } else { ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(",") };
        let _ = writeln!(text, "# {} {}", device.kind, Printable(&device.name));
        let _ = writeln!(text, "{} {} {} {list}", device.lid, device.guid, ports.len());
    }
    text
}

/// Reads a lid file; `name` is the file's in messages, `sampler` whose it is if that was said.
///
/// # Errors
/// When a line is none, or nothing tells whose they are.
pub fn parse(text: &str, name: &str, sampler: Option<&Wanted>) -> Result<Vec<LidLine>, LidFileError> {
    let ours = text.lines().next() == Some(OURS);
    let place = |line| Place::Line { name: name.to_owned(), line };
    let mut whose = match (sampler, heading(text)) {
        (Some(sampler), _) => Some(sampler.clone()),
        (None, Some(host)) => Some(wanted(host, place(1))?),
        // A file has its name for many reasons: if it is no host's nothing is wrong yet.
        (None, None) => host_in_name(name).and_then(|host| wanted(host, place(1)).ok()),
    };
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(host) = line.strip_prefix(SAMPLER).filter(|_| ours && sampler.is_none()) {
            whose = Some(wanted(host, place(number))?);
        } else if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            let found = entry(line).map_err(|found| LidFileError::Syntax { name: name.to_owned(), line: number, found })?;
            if let Some((lid, guid, ports)) = found {
                let Some(sampler) = whose.clone() else { return Err(LidFileError::WhoseIsIt { name: name.to_owned() }) };
                lines.push(LidLine { sampler, name: name.to_owned(), line: number, lid, guid, ports });
            }
        }
    }
    if lines.is_empty() { Err(LidFileError::Empty { name: name.to_owned() }) } else { Ok(lines) }
}

/// A host, with the adapter that sends if need be.
///
/// # Errors
/// When it is none, or several.
pub fn wanted(host: &str, place: Place) -> Result<Wanted, HostsError> {
    let one = |mut all: Vec<Wanted>| if all.len() == 1 { all.pop() } else { None };
    let several = HostsError::Syntax { place: place.clone(), part: Printable(host).to_string(), why: "one host was expected".to_owned() };
    let wanted = one(hosts::parse_list(host)?).ok_or(several)?;
    Ok(Wanted { place, ..wanted })
}

/// The host that the heading of `ldms-ibnet-sampler-gen` names: the first word of its adapter's description.
fn heading(text: &str) -> Option<&str> {
    let first = text.lines().next()?;
    THEIRS.iter().find_map(|heading| first.strip_prefix(heading)).and_then(|name| name.split_whitespace().next())
}

/// The host of `PREFIX.HOST.conf`.
fn host_in_name(name: &str) -> Option<&str> {
    let stem = Path::new(name).file_stem()?.to_str()?;
    stem.rsplit('.').next().filter(|host| !host.is_empty())
}

/// A line's LID, GUID and ports; nothing if it announces no port.
fn entry(line: &str) -> Result<Option<(Lid, Guid, Vec<PortNum>)>, String> {
    let (lid, rest) = number(line, 10).ok_or("no LID stands at its beginning")?;
    let lid = u16::try_from(lid).map(Lid).ok().filter(|lid| lid.is_unicast()).ok_or_else(|| format!("{lid} is no LID"))?;
    let hex = rest.trim_start();
    let digits = hex.strip_prefix("0x").or_else(|| hex.strip_prefix("0X")).unwrap_or(hex);
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    let guid = u64::from_str_radix(&digits[..end], 16).map(Guid).map_err(|_| "no GUID stands after the LID".to_owned())?;
    let (announced, rest) = number(&digits[end..], 10).ok_or("no number of ports stands after the GUID")?;
    if announced < 1 {
        return Ok(None);
    }
    if announced > MOST_PORTS {
        return Err(format!("{announced} ports are more than a device can have"));
    }
    let mut ports = Vec::new();
    for word in rest.split([',', '\t']).filter(|word| !word.trim().is_empty()) {
        if word.contains('*') {
            if !ports.is_empty() {
                return Err("`*` stands beside numbers".to_owned());
            }
            ports = (1..=announced).filter_map(|port| u8::try_from(port).ok().map(PortNum)).collect();
            break;
        }
        // As LDMS does: what follows the number is not looked at.
        let port = number(word, 10).and_then(|(port, _)| u8::try_from(port).ok()).filter(|port| (1..=254).contains(port));
        ports.push(PortNum(port.ok_or_else(|| format!("`{}` is no port", Printable(word.trim())))?));
    }
    let counted = ports.len();
    if counted == announced as usize {
        Ok(Some((lid, guid, ports)))
    } else {
        Err(format!("{counted} ports stand there, {announced} were announced"))
    }
}

/// The whole number at the beginning of a text, as `scanf` reads it, and what follows.
fn number(text: &str, radix: u32) -> Option<(i64, &str)> {
    let text = text.trim_start();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = text.len() - unsigned.trim_start_matches(|c: char| c.is_digit(radix)).len();
    i64::from_str_radix(&text[..end], radix).ok().map(|number| (number, &text[end..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partition::{Request, plan};
    use crate::topology::{ports_report, synthetic};

    fn ports(line: &str) -> Result<Option<Vec<u8>>, String> {
        entry(line).map(|found| found.map(|(_, _, ports)| ports.iter().map(|port| port.0).collect()))
    }

    #[test]
    fn lines_are_read_as_the_sampler_reads_them() {
        for (line, expected) in [
            ("4 0x0000000000200006 3 1,2,33", Some(vec![1, 2, 33])),
            ("  4\t200006 3 *", Some(vec![1, 2, 3])),
            ("4 0x200006 2 1\t2\r", Some(vec![1, 2])),
            ("4 0x200006 2,1,2,", Some(vec![1, 2])),
            ("4 0x200006 2 1, 2", Some(vec![1, 2])),
            ("4 0x200006 1 5-9", Some(vec![5])),
            ("4 0x200006 1 5 # the fifth", Some(vec![5])),
            ("4 0x200006 0", None),
        ] {
            assert_eq!(ports(line), Ok(expected), "{line}");
        }
        for (line, expected) in [
            ("4, 0x200006, 3, 1,2,3", "no GUID stands after the LID"),
            ("leaf1 0x200006 1 1", "no LID stands at its beginning"),
            ("0 0x200006 1 1", "0 is no LID"),
            ("65535 0x200006 1 1", "65535 is no LID"),
            ("4 0x200006", "no number of ports stands after the GUID"),
            ("4 0x200006 3 1 2 3", "1 ports stand there, 3 were announced"),
            ("4 0x200006 5 5-9", "1 ports stand there, 5 were announced"),
            ("4 0x200006 1 1,2", "2 ports stand there, 1 were announced"),
            ("4 0x200006 2 1,*", "`*` stands beside numbers"),
            ("4 0x200006 1 0", "`0` is no port"),
            ("4 0x200006 2000000000 *", "2000000000 ports are more than a device can have"),
        ] {
            assert_eq!(ports(line), Err(expected.to_owned()), "{line}");
        }
    }

    fn hosts_of(text: &str, name: &str) -> Result<Vec<String>, LidFileError> {
        Ok(parse(text, name, None)?.into_iter().map(|line| line.sampler.host).collect())
    }

    #[test]
    fn whose_a_file_is_stands_in_it_or_in_its_name() {
        let theirs = "# sampled switches for admin1 qib0\n4 0x200006 1 1\n# sampled HCAs for admin1 qib0\n17 0x100001 1 1\n";
        assert_eq!(hosts_of(theirs, "x").unwrap(), ["admin1", "admin1"]);
        assert_eq!(hosts_of("4 0x200006 1 1\n", "/etc/ldms/ib.sampler.oss1.conf").unwrap(), ["oss1"]);
        assert!(matches!(hosts_of("4 0x200006 1 1\n", "lids (1)"), Err(LidFileError::WhoseIsIt { .. })));
        let ours = format!("{OURS}\n{SAMPLER}a:mlx5_0:1\n4 0x200006 1 1\n{SAMPLER}b\n17 0x100001 1 1\n");
        assert_eq!(hosts_of(&ours, "x.c.conf").unwrap(), ["a", "b"]);
        let said = wanted("c:mlx5_1", Place::Argument).unwrap();
        assert!(parse(&ours, "x", Some(&said)).unwrap().iter().all(|line| line.sampler == said));
        // In other files nobody can say so: names are written by strangers.
        assert_eq!(hosts_of("# sampler evil\n4 0x200006 1 1\n", "x.oss1.conf").unwrap(), ["oss1"]);
        assert!(matches!(hosts_of("# nothing\n\n", "x.oss1.conf"), Err(LidFileError::Empty { .. })));
        let error = hosts_of("\n4 0x200006 1 1\n4 0x2 x\n", "x.oss1.conf").unwrap_err();
        assert_eq!(error.to_string(), "x.oss1.conf:3: no number of ports stands after the GUID");
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let nasty = "# sampler evil\u{1b}[2J";
        let text = synthetic::stria().ports_report().replace("'leaf12'", &format!("'{nasty}'"));
        let fabric = ports_report::parse(text.as_bytes(), "net.p").unwrap().fabric;
        let samplers = hosts::locate(&hosts::parse_list("node[00001-00008],admin1:mlx5_0:2").unwrap(), &[], &fabric).unwrap();
        let plan = plan(&Request { fabric: &fabric, samplers, cap: 150 }).unwrap();
        for share in &plan.shares {
            let text = lid_file(&fabric, share);
            assert!(text.lines().all(|line| !line.is_empty()) && !text.contains('\u{1b}'), "an empty line ends the sampler with an error");
            let lines = parse(&text, "x", None).unwrap();
            assert!(lines.iter().all(|line| (&line.sampler.host, line.sampler.ca_port) == (&share.host.name, share.host.ca_port)));
            let read: Vec<_> = lines.iter().flat_map(|line| line.ports.iter().map(|port| (line.lid, line.guid, *port))).collect();
            let given: Vec<_> = share.devices.iter().map(|held| fabric.device(held.id)).collect();
            let given: Vec<_> =
                given.iter().flat_map(|device| device.linked().map(|(port, _)| (device.lid, device.guid, port.num))).collect();
            assert_eq!(read, given);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([#0-9a-fx,*\t -]{0,12}\n?){0,6}") {
            if let Ok(lines) = parse(&text, "x.oss1.conf", None) {
                prop_assert!(lines.iter().all(|line| line.lid.is_unicast() && (1..=254).contains(&line.ports.len())));
            }
        }
    }
}
