//! Reads and writes the lid files of the LDMS sampler `ibnet`, by the rules of its parser.
//!
//! ```text
//! # a comment: the whole line
//! 4 0x0000000000200006 36 *
//! 17 0x0000000000100001 1 1
//! 9 0x0000000000200107 3 1,2,33
//! ```
//!
//! A line has a LID, a port GUID, the number of ports and the ports; blanks separate these four
//! columns, and commas or tabs separate the ports. `*` stands for all ports from 1 to the number
//! of ports. The manual of the LDMS sampler also describes commas between the columns and ranges
//! of ports, but its parser (`parse_lid_file` in `ibnet_data.c`) supports neither, and rejects a
//! file with an empty line. This module therefore writes only files that the parser accepts, and
//! reads files as the parser does, except that it skips empty lines.
//!
//! Each sampler has its own file, but the format has no field for the sampler's host. This module
//! takes the host from the argument that was given with the file; otherwise from a heading that
//! this program or `ldms-ibnet-sampler-gen` wrote; otherwise from the name of the file,
//! `PREFIX.HOST.conf`.

use std::fmt::Write;
use std::path::Path;

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum, Printable};
use miette::Diagnostic;

use crate::partition::Share;
use crate::partition::hosts::{self, HostsError, Origin, SamplerSpec};
use crate::topology::Fabric;

/// First line of a lid file that this program wrote. Only in such a file, a line that begins with
/// [`SAMPLER`] sets the host of the lines after it.
const OWN_HEADING: &str = "# ibnet-gen: LID, port GUID, number of ports, ports";
const SAMPLER: &str = "# sampler ";
/// Beginnings of the first line of a file that `ldms-ibnet-sampler-gen` wrote.
const LDMS_HEADINGS: [&str; 2] = ["# sampled switches for ", "# sampled HCAs for "];

/// Max number of ports of a device.
const MAX_PORTS: i64 = 254;

/// A line of a lid file, with its sampler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LidLine {
    /// Sampler of the ports.
    pub sampler: SamplerSpec,
    /// Name of the file.
    pub name: String,
    /// Line number, from 1.
    pub line: u32,
    /// LID that the device had when the file was made.
    pub lid: Lid,
    /// Port GUID of the device. LDMS uses it only in names.
    pub guid: Guid,
    /// Ports to sample.
    pub ports: Vec<PortNum>,
}

/// Reason why a lid file is rejected.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum LidFileError {
    /// A line is not valid, for this module or for LDMS.
    #[error("cannot read {name}:{line}: {problem}")]
    #[diagnostic(help(
        "a line has a LID, a port GUID, the number of ports and the ports, `4 0x0000000000200006 3 1,2,33`, or `*` for all from 1; commas separate only \
         the ports"
    ))]
    Syntax {
        /// Name of the file.
        name: String,
        /// Line number, from 1.
        line: u32,
        /// Description of the problem.
        problem: String,
    },
    /// The file lists no port.
    #[error("cannot use {name}: the file has no port")]
    #[diagnostic(help("give the file that `source-list=` of the LDMS sampler `ibnet` names"))]
    Empty {
        /// Name of the file.
        name: String,
    },
    /// Neither the argument, nor a heading, nor the file name contains the host.
    #[error("cannot use {name}: the host that samples these ports is unknown")]
    #[diagnostic(help("give it with the file: `--from-ldms HOST={name}`"))]
    UnknownHost {
        /// Name of the file.
        name: String,
    },
    /// The name of the host is not valid.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Host(#[from] HostsError),
}

/// Returns the lid file of a sampler.
pub fn lid_file(fabric: &Fabric, share: &Share) -> String {
    let mut text = format!("{OWN_HEADING}\n");
    let _ = writeln!(text, "{SAMPLER}{}", share.host);
    for planned in &share.devices {
        let device = fabric.device(planned.id);
        let ports: Vec<_> = device.linked().map(|(port, _)| port.num).collect();
        let all = device.kind == NodeKind::Switch
            && ports.iter().zip(1..).all(|(port, number)| port.0 == number);
        let list = if all {
            "*".to_owned()
        } else {
            ports
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        let _ = writeln!(text, "# {} {}", device.kind, Printable(&device.name));
        let _ = writeln!(
            text,
            "{} {} {} {list}",
            device.lid,
            device.guid,
            ports.len()
        );
    }
    text
}

/// Returns whether [`lid_file`] wrote the text.
pub fn is_own(text: &str) -> bool {
    text.lines().next() == Some(OWN_HEADING)
}

/// Parses a lid file. `name` is the name of the file in messages, and `sampler` its host if one
/// was given.
///
/// # Errors
/// Returns an error if a line is not valid, or if the host is unknown.
pub fn parse(
    text: &str,
    name: &str,
    sampler: Option<&SamplerSpec>,
) -> Result<Vec<LidLine>, LidFileError> {
    let is_own = is_own(text);
    let origin = |line| Origin::Line {
        name: name.to_owned(),
        line,
    };
    let mut current = match (sampler, heading(text)) {
        (Some(sampler), _) => Some(sampler.clone()),
        (None, Some(host)) => Some(one_host(host, origin(1))?),
        // A name without a host is not yet an error, because a heading can contain the host.
        (None, None) => host_in_name(name).and_then(|host| one_host(host, origin(1)).ok()),
    };
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(host) = line
            .strip_prefix(SAMPLER)
            .filter(|_| is_own && sampler.is_none())
        {
            current = Some(one_host(host, origin(number))?);
        } else if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            let found = entry(line).map_err(|problem| LidFileError::Syntax {
                name: name.to_owned(),
                line: number,
                problem,
            })?;
            if let Some((lid, guid, ports)) = found {
                let Some(sampler) = current.clone() else {
                    return Err(LidFileError::UnknownHost {
                        name: name.to_owned(),
                    });
                };
                lines.push(LidLine {
                    sampler,
                    name: name.to_owned(),
                    line: number,
                    lid,
                    guid,
                    ports,
                });
            }
        }
    }
    if lines.is_empty() {
        Err(LidFileError::Empty {
            name: name.to_owned(),
        })
    } else {
        Ok(lines)
    }
}

/// Parses one host, optionally with the HCA that sends.
///
/// # Errors
/// Returns an error if the text is not a host, or is a list of several hosts.
pub fn one_host(host: &str, origin: Origin) -> Result<SamplerSpec, HostsError> {
    let one = |mut all: Vec<SamplerSpec>| if all.len() == 1 { all.pop() } else { None };
    let several = HostsError::Syntax {
        origin: origin.clone(),
        part: host.to_owned(),
        column: 1,
        problem: "expected one host",
    };
    let spec = one(hosts::parse_list(host)?).ok_or(several)?;
    Ok(SamplerSpec { origin, ..spec })
}

/// Returns the host in a heading of `ldms-ibnet-sampler-gen`, which is the first word of its node
/// description.
fn heading(text: &str) -> Option<&str> {
    let first = text.lines().next()?;
    LDMS_HEADINGS
        .iter()
        .find_map(|heading| first.strip_prefix(heading))
        .and_then(|name| name.split_whitespace().next())
}

/// Returns the host of `PREFIX.HOST.conf`.
fn host_in_name(name: &str) -> Option<&str> {
    let stem = Path::new(name).file_stem()?.to_str()?;
    stem.rsplit('.').next().filter(|host| !host.is_empty())
}

/// Parses LID, GUID and ports of a line. Returns `None` if the line has the number of ports 0.
fn entry(line: &str) -> Result<Option<(Lid, Guid, Vec<PortNum>)>, String> {
    let (lid, rest) = number(line, 10).ok_or("the line does not start with a LID")?;
    let lid = u16::try_from(lid)
        .map(Lid)
        .ok()
        .filter(|lid| lid.is_unicast())
        .ok_or_else(|| format!("{lid} is not a unicast LID"))?;
    let hex = rest.trim_start();
    let digits = hex
        .strip_prefix("0x")
        .or_else(|| hex.strip_prefix("0X"))
        .unwrap_or(hex);
    let end = digits
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(digits.len());
    let guid = u64::from_str_radix(&digits[..end], 16)
        .map(Guid)
        .map_err(|_| "there is no GUID after the LID".to_owned())?;
    let (announced, rest) =
        number(&digits[end..], 10).ok_or("there is no number of ports after the GUID")?;
    if announced < 1 {
        return Ok(None);
    }
    if announced > MAX_PORTS {
        return Err(format!(
            "{announced} ports are more than a device can have ({MAX_PORTS})"
        ));
    }
    let mut ports = Vec::new();
    for word in rest
        .split([',', '\t'])
        .filter(|word| !word.trim().is_empty())
    {
        if word.contains('*') {
            if !ports.is_empty() {
                return Err("`*` follows port numbers".to_owned());
            }
            ports = (1..=announced)
                .filter_map(|port| u8::try_from(port).ok().map(PortNum))
                .collect();
            break;
        }
        // Text after the number is ignored, as in LDMS.
        let port = number(word, 10)
            .and_then(|(port, _)| u8::try_from(port).ok())
            .filter(|port| (1..=254).contains(port));
        ports.push(PortNum(port.ok_or_else(|| {
            format!("`{}` is not a port number", Printable(word.trim()))
        })?));
    }
    let counted = ports.len();
    if counted == announced as usize {
        Ok(Some((lid, guid, ports)))
    } else {
        Err(format!(
            "the line has {counted} ports, but its number of ports is {announced}"
        ))
    }
}

/// Parses the integer at the start of a text, as `scanf` does. Returns it with the rest of the
/// text.
fn number(text: &str, radix: u32) -> Option<(i64, &str)> {
    let text = text.trim_start();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = text.len()
        - unsigned
            .trim_start_matches(|c: char| c.is_digit(radix))
            .len();
    i64::from_str_radix(&text[..end], radix)
        .ok()
        .map(|number| (number, &text[end..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partition::{Request, plan};
    use crate::topology::{ports_report, synthetic};

    fn ports(line: &str) -> Result<Option<Vec<u8>>, String> {
        entry(line)
            .map(|found| found.map(|(_, _, ports)| ports.iter().map(|port| port.0).collect()))
    }

    #[test]
    fn lines_are_parsed_as_by_ldms() {
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
            ("4, 0x200006, 3, 1,2,3", "there is no GUID after the LID"),
            ("leaf1 0x200006 1 1", "the line does not start with a LID"),
            ("0 0x200006 1 1", "0 is not a unicast LID"),
            ("65535 0x200006 1 1", "65535 is not a unicast LID"),
            ("4 0x200006", "there is no number of ports after the GUID"),
            (
                "4 0x200006 3 1 2 3",
                "the line has 1 ports, but its number of ports is 3",
            ),
            (
                "4 0x200006 5 5-9",
                "the line has 1 ports, but its number of ports is 5",
            ),
            (
                "4 0x200006 1 1,2",
                "the line has 2 ports, but its number of ports is 1",
            ),
            ("4 0x200006 2 1,*", "`*` follows port numbers"),
            ("4 0x200006 1 0", "`0` is not a port number"),
            (
                "4 0x200006 2000000000 *",
                "2000000000 ports are more than a device can have (254)",
            ),
        ] {
            assert_eq!(ports(line), Err(expected.to_owned()), "{line}");
        }
    }

    fn hosts_of(text: &str, name: &str) -> Result<Vec<String>, LidFileError> {
        Ok(parse(text, name, None)?
            .into_iter()
            .map(|line| line.sampler.host)
            .collect())
    }

    #[test]
    fn host_is_found_in_the_heading_or_the_file_name() {
        let ldms = "# sampled switches for admin1 qib0\n4 0x200006 1 1\n# sampled HCAs for admin1 qib0\n17 0x100001 1 1\n";
        assert_eq!(hosts_of(ldms, "x").unwrap(), ["admin1", "admin1"]);
        assert_eq!(
            hosts_of("4 0x200006 1 1\n", "/etc/ldms/ib.sampler.oss1.conf").unwrap(),
            ["oss1"]
        );
        assert!(matches!(
            hosts_of("4 0x200006 1 1\n", "lids (1)"),
            Err(LidFileError::UnknownHost { .. })
        ));
        let own = format!(
            "{OWN_HEADING}\n{SAMPLER}a:mlx5_0:1\n4 0x200006 1 1\n{SAMPLER}b\n17 0x100001 1 1\n"
        );
        assert_eq!(hosts_of(&own, "x.c.conf").unwrap(), ["a", "b"]);
        let given = one_host("c:mlx5_1", Origin::Argument).unwrap();
        assert!(
            parse(&own, "x", Some(&given))
                .unwrap()
                .iter()
                .all(|line| line.sampler == given)
        );
        // In other files such a comment has no effect, because it may come from a node description.
        assert_eq!(
            hosts_of("# sampler evil\n4 0x200006 1 1\n", "x.oss1.conf").unwrap(),
            ["oss1"]
        );
        assert!(matches!(
            hosts_of("# nothing\n\n", "x.oss1.conf"),
            Err(LidFileError::Empty { .. })
        ));
        let error = hosts_of("\n4 0x200006 1 1\n4 0x2 x\n", "x.oss1.conf").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read x.oss1.conf:3: there is no number of ports after the GUID"
        );
    }

    #[test]
    fn written_file_parses_to_the_same_ports() {
        let hostile = "# sampler evil\u{1b}[2J";
        let text = synthetic::stria()
            .ports_report()
            .replace("'leaf12'", &format!("'{hostile}'"));
        let fabric = ports_report::parse(text.as_bytes(), "net.p")
            .unwrap()
            .fabric;
        let samplers = hosts::locate(
            &hosts::parse_list("node[00001-00008],admin1:mlx5_0:2").unwrap(),
            &[],
            &fabric,
        )
        .unwrap();
        let plan = plan(&Request {
            fabric: &fabric,
            samplers,
            cap: 150,
        })
        .unwrap();
        for share in &plan.shares {
            let text = lid_file(&fabric, share);
            assert!(
                text.lines().all(|line| !line.is_empty()) && !text.contains('\u{1b}'),
                "LDMS rejects a file with an empty line"
            );
            let lines = parse(&text, "x", None).unwrap();
            assert!(
                lines
                    .iter()
                    .all(|line| (&line.sampler.host, line.sampler.ca_port)
                        == (&share.host.name, share.host.ca_port))
            );
            let read: Vec<_> = lines
                .iter()
                .flat_map(|line| line.ports.iter().map(|port| (line.lid, line.guid, *port)))
                .collect();
            let given: Vec<_> = share
                .devices
                .iter()
                .map(|planned| fabric.device(planned.id))
                .collect();
            let given: Vec<_> = given
                .iter()
                .flat_map(|device| {
                    device
                        .linked()
                        .map(|(port, _)| (device.lid, device.guid, port.num))
                })
                .collect();
            assert_eq!(read, given);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in "([#0-9a-fx,*\t -]{0,12}\n?){0,6}") {
            if let Ok(lines) = parse(&text, "x.oss1.conf", None) {
                prop_assert!(lines.iter().all(|line| line.lid.is_unicast() && (1..=254).contains(&line.ports.len())));
            }
        }
    }
}
