//! Finds the samplers in the fabric.
//!
//! The argument `--samplers` is a [host list](ibnet_record::hostlist): `node[001-012],admin1`. Each
//! part can name the HCA that sends (`host:mlx5_1`), and also the port of this HCA
//! (`host:mlx5_1:1`). A samplers file has such a list on each line, usually a single name; `#`
//! starts a comment. Only text of the administrator is expanded as a list, never a name from the
//! fabric, because such names are untrusted.

use std::collections::BTreeMap;
use std::fmt;

use ibnet_record::hostlist::{self, HostList, HostListError, MAX_HOSTS};
use ibnet_record::types::{Guid, NodeKind, PortNum, Printable};
use miette::Diagnostic;

use crate::topology::{Device, DeviceId, Fabric};

/// A sampler as the administrator named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SamplerSpec {
    /// Name of the host.
    pub host: String,
    /// HCA that sends, if it was named.
    pub ca: Option<String>,
    /// Port of the HCA, if it was named.
    pub ca_port: Option<PortNum>,
    /// Origin of the name, for messages.
    pub origin: Origin,
}

/// Origin of a list: a line of a file, or the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Argument of the command.
    Argument,
    /// Line of a samplers file.
    Line {
        /// Name of the file.
        name: String,
        /// Line number, from 1.
        line: u32,
    },
}

/// A sampler, and its ports in the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Name of the host.
    pub name: String,
    /// HCA that sends, if it was named.
    pub ca: Option<String>,
    /// Port of the HCA, if it was named.
    pub ca_port: Option<PortNum>,
    /// Ports that may send: those of the named HCA, or all ports of the host if no HCA was named.
    /// The list is in ascending order and never empty.
    pub sending: Vec<DeviceId>,
    /// All HCA ports of the host, in ascending order.
    pub own: Vec<DeviceId>,
}

/// Reason why the samplers cannot be found.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum HostsError {
    /// The list is empty.
    #[error("cannot use {origin}: no sampler is named")]
    #[diagnostic(help("name at least one host of the fabric, for example `node[001-008],admin1`"))]
    Empty {
        /// Origin of the list.
        origin: Origin,
    },
    /// The text is not a list of hosts.
    #[error(
        "cannot read {origin} as a host list: {problem} (found `{}`, column {column})",
        Printable(part)
    )]
    #[diagnostic(help(
        "write names and ranges separated by commas, `node[001-012],admin1`, each with an HCA if needed, `admin1:mlx5_1:1`"
    ))]
    Syntax {
        /// Origin of the list.
        origin: Origin,
        /// Part of the list that cannot be read.
        part: String,
        /// Column of the first wrong character, in characters from 1.
        column: usize,
        /// Description of the problem.
        problem: &'static str,
    },
    /// The list or the file is too long.
    #[error(
        "cannot use {origin}: with `{}` the list stands for more than {MAX_HOSTS} hosts",
        Printable(part)
    )]
    #[diagnostic(help("check the numbers within the brackets"))]
    TooMany {
        /// Origin of the list.
        origin: Origin,
        /// Part of the list that exceeds the limit.
        part: String,
    },
    /// A host is listed twice.
    #[error(
        "cannot use {origin}: the host `{host}` is listed twice{}",
        other(first)
    )]
    #[diagnostic(help("list each sampler once: a host is one sampler, with any number of HCAs"))]
    Twice {
        /// Name of the host.
        host: String,
        /// Origin of the first entry.
        first: Origin,
        /// Origin of the second entry.
        origin: Origin,
    },
    /// No HCA has the name of the host.
    #[error("cannot find a sampler of {origin}: no HCA of the fabric is named `{host}`{}", more(*others))]
    #[diagnostic(help(
        "{}a sampler is found by the first word of its node description; for a host with another one give `--sampler-guid {host}=0x...`, the GUID of its port",
        nearest.as_ref().map(|name| format!("did you mean `{}`? ", Printable(name))).unwrap_or_default()
    ))]
    Unknown {
        /// Origin of the entry.
        origin: Origin,
        /// Name of the host.
        host: String,
        /// Most similar name in the fabric.
        nearest: Option<String>,
        /// Number of further samplers that are not in the fabric.
        others: usize,
    },
    /// The host has no HCA or port with the given name.
    #[error(
        "cannot use {origin}: `{host}` has no port `{wanted}` (found {})",
        Printable(known)
    )]
    #[diagnostic(help(
        "name one of these, or none to use the active port, or give `--sampler-guid {host}=0x...`"
    ))]
    UnknownCa {
        /// Origin of the entry.
        origin: Origin,
        /// Name of the host.
        host: String,
        /// HCA and port as they were given.
        wanted: String,
        /// HCA ports that the host has.
        known: String,
    },
    /// A GUID was given for a host that is not a sampler.
    #[error("cannot use --sampler-guid: `{host}` is not among the samplers")]
    #[diagnostic(help("name the host in --samplers or --samplers-file as well"))]
    GuidOfOther {
        /// Name of the host.
        host: String,
    },
    /// No HCA has the GUID.
    #[error(
        "cannot find `{host}` of --sampler-guid: no HCA of the fabric has the port GUID {guid}"
    )]
    #[diagnostic(help("`ibstat` on the host prints it as `Port GUID`"))]
    UnknownGuid {
        /// Name of the host.
        host: String,
        /// GUID that was given.
        guid: Guid,
    },
}

/// Parses a list of samplers.
///
/// # Errors
/// Returns an error if the list is empty, cannot be read, is too long, or names a host twice.
pub fn parse_list(text: &str) -> Result<Vec<SamplerSpec>, HostsError> {
    let mut all = Vec::new();
    expand(text, &Origin::Argument, &mut all)?;
    finish(all, Origin::Argument)
}

/// Parses a samplers file. `name` is the name of the file in messages. [`MAX_HOSTS`] limits the
/// hosts of all lines together.
///
/// # Errors
/// Returns the errors of [`parse_list`], with the line number.
pub fn parse_file(text: &str, name: &str) -> Result<Vec<SamplerSpec>, HostsError> {
    let origin = |line| Origin::Line {
        name: name.to_owned(),
        line,
    };
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let list = line.split_once('#').map_or(line, |(list, _)| list);
        expand(list, &origin(number), &mut all)?;
    }
    finish(all, origin(1))
}

/// Folds samplers, each `host`, `host:hca` or `host:hca:port`, into a short list that
/// [`parse_list`] expands to the same samplers.
pub fn fold(parts: &[String]) -> String {
    let mut by_hca: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in parts {
        let colon = part.find(':').unwrap_or(part.len());
        by_hca
            .entry(&part[colon..])
            .or_default()
            .push(&part[..colon]);
    }
    let folded = by_hca.into_iter().flat_map(|(hca, hosts)| {
        let list = hostlist::fold(hosts);
        hostlist::split(&list)
            .map(|(_, part)| format!("{part}{hca}"))
            .collect::<Vec<_>>()
    });
    folded.collect::<Vec<_>>().join(",")
}

/// Finds each sampler in the fabric, and returns them sorted by name. `guids` contains the port
/// GUIDs of the hosts whose node description does not begin with their name.
///
/// # Errors
/// Returns an error if a sampler is not in the fabric.
pub fn locate(
    wanted: &[SamplerSpec],
    guids: &[(String, Guid)],
    fabric: &Fabric,
) -> Result<Vec<Host>, HostsError> {
    if let Some((host, _)) = guids
        .iter()
        .find(|(host, _)| !wanted.iter().any(|wanted| wanted.host == *host))
    {
        return Err(HostsError::GuidOfOther { host: host.clone() });
    }
    let mut by_name: BTreeMap<&str, Vec<DeviceId>> = BTreeMap::new();
    for (id, device) in fabric
        .iter()
        .filter(|(_, device)| device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device))
    {
        by_name.entry(device.host()).or_default().push(id);
    }
    let guid_of = |host: &str| {
        guids
            .iter()
            .find(|(name, _)| name == host)
            .map(|(_, guid)| *guid)
    };
    let missing: Vec<_> = wanted
        .iter()
        .filter(|w| guid_of(&w.host).is_none() && !by_name.contains_key(&*w.host))
        .collect();
    if let [first, others @ ..] = &missing[..] {
        let nearest = hostlist::nearest(&first.host, by_name.keys().copied()).map(str::to_owned);
        let (origin, host) = (first.origin.clone(), first.host.clone());
        return Err(HostsError::Unknown {
            origin,
            host,
            nearest,
            others: others.len(),
        });
    }
    let mut hosts = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let named = by_name.get(&*wanted.host).map_or(&[][..], Vec::as_slice);
        let sending = match guid_of(&wanted.host) {
            Some(guid) => with_guid(guid, wanted, fabric)?,
            None => sending_ports(named, wanted, fabric)?,
        };
        let mut own = [named, &sending].concat();
        own.sort_unstable();
        own.dedup();
        hosts.push(Host {
            name: wanted.host.clone(),
            ca: wanted.ca.clone(),
            ca_port: wanted.ca_port,
            sending,
            own,
        });
    }
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(hosts)
}

fn with_guid(
    guid: Guid,
    wanted: &SamplerSpec,
    fabric: &Fabric,
) -> Result<Vec<DeviceId>, HostsError> {
    let port = wanted.ca_port;
    let matches = |device: &Device| {
        device.guid == guid
            && device.kind == NodeKind::Hca
            && port.is_none_or(|port| device.port(port).is_some())
    };
    let found: Vec<_> = fabric
        .iter()
        .filter(|(_, device)| matches(device))
        .map(|(id, _)| id)
        .collect();
    if found.is_empty() {
        Err(HostsError::UnknownGuid {
            host: wanted.host.clone(),
            guid,
        })
    } else {
        Ok(found)
    }
}

/// Returns the ports of the host that match the named HCA and port.
fn sending_ports(
    named: &[DeviceId],
    wanted: &SamplerSpec,
    fabric: &Fabric,
) -> Result<Vec<DeviceId>, HostsError> {
    let ca_of = |id: &DeviceId| fabric.device(*id).name.split_whitespace().nth(1);
    let port_of = |id: &DeviceId| fabric.device(*id).ports.first().map(|port| port.num);
    let of_ca = |id: &&DeviceId| match &wanted.ca {
        // A node description of one word does not contain the HCA, so it matches every HCA name.
        Some(ca) => ca_of(id).is_none_or(|name| name == ca),
        None => true,
    };
    let of_port = |id: &&DeviceId| wanted.ca_port.is_none_or(|port| port_of(id) == Some(port));
    let found: Vec<_> = named
        .iter()
        .filter(of_ca)
        .filter(of_port)
        .copied()
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let known: Vec<_> = named
        .iter()
        .map(|id| {
            format!(
                "{}:{}",
                ca_of(id).unwrap_or("?"),
                port_of(id).unwrap_or_default()
            )
        })
        .take(16)
        .collect();
    let port = wanted
        .ca_port
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    Err(HostsError::UnknownCa {
        origin: wanted.origin.clone(),
        host: wanted.host.clone(),
        wanted: format!("{}{port}", wanted.ca.as_deref().unwrap_or_default()),
        known: known.join(", "),
    })
}

fn finish(all: Vec<SamplerSpec>, origin: Origin) -> Result<Vec<SamplerSpec>, HostsError> {
    if all.is_empty() {
        return Err(HostsError::Empty { origin });
    }
    let mut seen: BTreeMap<&str, &Origin> = BTreeMap::new();
    for wanted in &all {
        if let Some(first) = seen.insert(&wanted.host, &wanted.origin) {
            return Err(HostsError::Twice {
                host: wanted.host.clone(),
                first: first.clone(),
                origin: wanted.origin.clone(),
            });
        }
    }
    Ok(all)
}

/// Appends the samplers of a list. It checks their number before it allocates a name.
fn expand(list: &str, origin: &Origin, to: &mut Vec<SamplerSpec>) -> Result<(), HostsError> {
    for (start, part) in hostlist::split(list) {
        let before = list[..start].chars().count();
        let syntax = |column: usize, problem| HostsError::Syntax {
            origin: origin.clone(),
            part: part.to_owned(),
            column: before + column,
            problem,
        };
        let (hosts, ca, ca_port) = sender(part).map_err(|problem| syntax(1, problem))?;
        let free = MAX_HOSTS.saturating_sub(to.len() as u64);
        let names = HostList::parse_bounded(hosts, free).map_err(|error| match error {
            HostListError::Syntax { column, problem } => syntax(column, problem),
            HostListError::TooMany { .. } => HostsError::TooMany {
                origin: origin.clone(),
                part: part.to_owned(),
            },
        })?;
        to.extend(names.names().map(|host| SamplerSpec {
            host,
            ca: ca.map(str::to_owned),
            ca_port,
            origin: origin.clone(),
        }));
    }
    Ok(())
}

/// Splits `hosts:hca:port`.
fn sender(part: &str) -> Result<(&str, Option<&str>, Option<PortNum>), &'static str> {
    let mut words = part.split(':');
    let hosts = words.next().unwrap_or_default();
    let ca = words.next();
    let port = words.next();
    if hosts.is_empty() || ca == Some("") || words.next().is_some() {
        return Err("expected `host`, `host:hca` or `host:hca:port`");
    }
    let number = |text: &str| {
        text.parse()
            .ok()
            .filter(|port| (1..=254).contains(port))
            .map(PortNum)
    };
    let port = port
        .map(|text| {
            number(text).ok_or("expected a port number from 1 to 254 after the second colon")
        })
        .transpose()?;
    Ok((hosts, ca, port))
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        self.ca.iter().try_for_each(|ca| write!(f, ":{ca}"))?;
        self.ca_port
            .iter()
            .try_for_each(|port| write!(f, ":{port}"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument => write!(f, "--samplers"),
            Self::Line { name, line } => write!(f, "{name}:{line}"),
        }
    }
}

fn other(first: &Origin) -> String {
    if let Origin::Line { line, .. } = first {
        format!(", first on line {line}")
    } else {
        String::new()
    }
}

fn more(others: usize) -> String {
    if others == 0 {
        String::new()
    } else {
        format!(" (and {others} more)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{ports_report, synthetic};

    fn names(list: &str) -> Vec<String> {
        let mut names: Vec<_> = parse_list(list)
            .unwrap()
            .into_iter()
            .map(|wanted| wanted.host)
            .collect();
        names.sort();
        names
    }

    fn stria() -> Fabric {
        ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria")
            .unwrap()
            .fabric
    }

    fn located(list: &str) -> Result<Vec<Host>, HostsError> {
        locate(&parse_list(list)?, &[], &stria())
    }

    #[test]
    fn host_lists_are_expanded() {
        assert_eq!(
            names("node[001-003],admin1"),
            ["admin1", "node001", "node002", "node003"]
        );
        assert_eq!(names("node[8-11]"), ["node10", "node11", "node8", "node9"]);
        assert_eq!(names("r[1-2]n[1,3]"), ["r1n1", "r1n3", "r2n1", "r2n3"]);
        assert_eq!(
            names("n[2-6/2] a-b.example x_1"),
            ["a-b.example", "n2", "n4", "n6", "x_1"]
        );
        assert_eq!(names("[1-2]-login"), ["1-login", "2-login"]);
        assert_eq!(names("7"), ["7"]);
    }

    #[test]
    fn hca_and_port_can_be_named() {
        let all = parse_list("n[1-2]:mlx5_1:2,m:mlx5_0").unwrap();
        let found: Vec<_> = all
            .iter()
            .map(|w| (&*w.host, w.ca.as_deref(), w.ca_port))
            .collect();
        let port = Some(PortNum(2));
        assert_eq!(
            found,
            [
                ("n1", Some("mlx5_1"), port),
                ("n2", Some("mlx5_1"), port),
                ("m", Some("mlx5_0"), None)
            ]
        );
    }

    #[test]
    fn other_texts_are_rejected() {
        for list in [
            "a:b:c", "a:b:0", "a:b:255", "a:", ":b", "a:b:1:2", "n[1-", "n]1[", "n[a-b]",
            "n[[1-2]]", "@all", "a&b", "a$(b)", "n[1-2",
        ] {
            assert!(
                matches!(parse_list(list), Err(HostsError::Syntax { .. })),
                "{list}: {:?}",
                parse_list(list)
            );
        }
        assert!(matches!(parse_list(" ,, "), Err(HostsError::Empty { .. })));
        assert!(matches!(
            parse_list("a1,a[1-3]"),
            Err(HostsError::Twice { .. })
        ));
    }

    #[test]
    fn too_long_lists_are_rejected() {
        for list in [
            "n[0-99999999]",
            "n[0-999]m[0-999]",
            "n[1-100000],m",
            "n[1-99999999999999999999]",
            "n[0-9][0-9][0-9][0-9][0-9][0-9]",
        ] {
            assert!(
                matches!(parse_list(list), Err(HostsError::TooMany { .. })),
                "{list}"
            );
        }
        assert_eq!(parse_list("n[1-100000]").unwrap().len(), 100_000);
    }

    #[test]
    fn number_of_hosts_is_bounded_over_all_lines_of_a_file() {
        let lines: String = (0..300).map(|n| format!("h{n}x[1-99999]\n")).collect();
        let error = parse_file(&lines, "list").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot use list:2: with `h1x[1-99999]` the list stands for more than 100000 hosts"
        );
        let lines: String = (0..10).map(|n| format!("h{n}x[1-10000]\n")).collect();
        assert_eq!(parse_file(&lines, "list").unwrap().len(), 100_000);
    }

    #[test]
    fn syntax_errors_name_the_column_of_the_list() {
        let error = parse_list("admin1,n[1-2").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read --samplers as a host list: the bracket is not closed (found `n[1-2`, column 9)"
        );
    }

    #[test]
    fn folded_list_expands_to_the_same_samplers() {
        for (parts, folded) in [
            (
                &["node001", "node002", "node010", "admin1"][..],
                "admin1,node[001-002,010]",
            ),
            (
                &["n1:mlx5_0", "n2:mlx5_0", "n3:mlx5_1:2", "n4"],
                "n4,n[1-2]:mlx5_0,n3:mlx5_1:2",
            ),
            (&["r1n1", "r2n2"], "r1n1,r2n2"),
            (&["a-b.example", "7"], "7,a-b.example"),
        ] {
            let parts: Vec<_> = parts.iter().map(|part| (*part).to_owned()).collect();
            assert_eq!(fold(&parts), folded);
            assert_eq!(parse_list(folded).unwrap().len(), parts.len());
        }
        let padded = ["n1".to_owned(), "n01".to_owned()];
        assert_eq!(names(&fold(&padded)), ["n01", "n1"]);
    }

    #[test]
    fn samplers_file_has_lines_and_comments() {
        let all = parse_file(
            "# samplers\nadmin1   # the first\n\nnode[1-2]:mlx5_0\r\n",
            "list",
        )
        .unwrap();
        assert_eq!(
            all.iter().map(|w| &*w.host).collect::<Vec<_>>(),
            ["admin1", "node1", "node2"]
        );
        let twice = parse_file("a\nb\na\n", "list").unwrap_err();
        assert_eq!(
            twice.to_string(),
            "cannot use list:3: the host `a` is listed twice, first on line 1"
        );
        assert!(matches!(
            parse_file("# none\n", "list"),
            Err(HostsError::Empty { .. })
        ));
    }

    #[test]
    fn samplers_are_sorted_and_have_all_their_ports() {
        let hosts = located("oss1,admin1,node00007").unwrap();
        let found: Vec<_> = hosts
            .iter()
            .map(|host| (&*host.name, host.sending.len(), host.own.len()))
            .collect();
        assert_eq!(
            found,
            [("admin1", 2, 2), ("node00007", 1, 1), ("oss1", 2, 2)]
        );
        let port = &located("admin1:mlx5_0:2").unwrap()[0];
        assert_eq!(
            (port.sending.len(), port.own.len(), port.ca_port),
            (1, 2, Some(PortNum(2)))
        );
    }

    #[test]
    fn unknown_sampler_error_has_the_nearest_name() {
        let error = located("nodd00001,nosuch").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot find a sampler of --samplers: no HCA of the fabric is named `nodd00001` (and 1 more)"
        );
        assert!(
            error
                .help()
                .unwrap()
                .to_string()
                .starts_with("did you mean `node00001`?")
        );
        for (wanted, found) in [
            ("node1", "node00001"),
            ("NODE12", "node00012"),
            ("oss01.example.org", "oss1"),
            ("ndoe00012", "node00012"),
            ("adm1", "admin1"),
        ] {
            let help = located(wanted).unwrap_err().help().unwrap().to_string();
            assert!(
                help.starts_with(&format!("did you mean `{found}`?")),
                "{wanted}: {help}"
            );
        }
        assert!(
            !located("zz")
                .unwrap_err()
                .help()
                .unwrap()
                .to_string()
                .contains("did you mean")
        );
        let error = located("admin1:mlx5_7").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot use --samplers: `admin1` has no port `mlx5_7` (found mlx5_0:1, mlx5_0:2)"
        );
        assert!(
            located("leaf01").is_err(),
            "a switch was taken for a sampler"
        );
    }

    #[test]
    fn host_is_found_by_its_guid() {
        let fabric = stria();
        let (id, device) = fabric
            .iter()
            .find(|(_, device)| device.host() == "node00003")
            .unwrap();
        let wanted = parse_list("mgmt").unwrap();
        let hosts = locate(&wanted, &[("mgmt".to_owned(), device.guid)], &fabric).unwrap();
        assert_eq!(
            (&*hosts[0].name, &hosts[0].sending[..]),
            ("mgmt", &[id][..])
        );
        let other = locate(&wanted, &[("other".to_owned(), device.guid)], &fabric);
        assert!(matches!(other, Err(HostsError::GuidOfOther { .. })));
        let unknown = locate(&wanted, &[("mgmt".to_owned(), Guid(7))], &fabric);
        assert!(matches!(unknown, Err(HostsError::UnknownGuid { .. })));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in "[a-c0-9\\[\\],/:@ \u{e9}-]{0,24}") {
            parse_or_reject(&text)?;
        }

        /// Texts that are similar to host lists.
        #[test]
        fn any_list_is_parsed_or_rejected(text in "([a-c]{0,2}(\\[[0-9]{1,3}(-[0-9]{1,3})?(/[0-9]{1,2})?(,[0-9]{0,2})?\\]){0,3}[0-9]{0,2}[,: ]?){0,4}") {
            parse_or_reject(&text)?;
        }
    }

    fn parse_or_reject(text: &str) -> Result<(), proptest::test_runner::TestCaseError> {
        if let Ok(all) = parse_list(text) {
            proptest::prop_assert!(all.len() as u64 <= MAX_HOSTS);
            proptest::prop_assert!(
                all.iter()
                    .all(|wanted| !wanted.host.is_empty() && !wanted.host.contains('['))
            );
        }
        Ok(())
    }
}
