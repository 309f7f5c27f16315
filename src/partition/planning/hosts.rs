//! Which hosts sample, and where they sit in the fabric.
//!
//! A HOSTLIST is what administrators type elsewhere too: `node[001-012],admin1`, steps as in `[2-10/2]` included. Each part may name
//! the adapter that sends, `host:mlx5_1`, and its port, `host:mlx5_1:1`. A samplers file has such a list, mostly one name, on each
//! line; `#` begins a comment. Only what the administrator wrote is ever expanded, never a name out of the fabric.

use std::collections::BTreeMap;
use std::fmt;

use miette::Diagnostic;
use nodeset::{IdRangeList, NodeSet, Parser};

use crate::topology::{DeviceId, Fabric};
use crate::types::{Guid, NodeKind, PortNum, Printable};

/// More names than any fabric has hosts: a longer list is a slip of the finger.
pub const MOST_NAMES: u64 = 100_000;

/// A sampler as the administrator named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The host.
    pub host: String,
    /// The adapter that sends, if it was named.
    pub ca: Option<String>,
    /// Its port, if it was named.
    pub ca_port: Option<PortNum>,
    /// Where it was named.
    pub place: Place,
}

/// Where something was written: a line of a file, or the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// An argument of the command.
    Argument,
    /// A line of a samplers file.
    Line {
        /// The file.
        name: String,
        /// From 1.
        line: u32,
    },
}

/// A sampler and its place in the fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The host.
    pub name: String,
    /// The adapter that sends, if it was named.
    pub ca: Option<String>,
    /// Its port, if it was named.
    pub ca_port: Option<PortNum>,
    /// The ports that may send: those of the named adapter, else all of the host. Ascending, never empty.
    pub at: Vec<DeviceId>,
    /// All ports of the host's adapters. Ascending.
    pub own: Vec<DeviceId>,
}

/// Why the samplers cannot be told.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum HostsError {
    /// No name in it.
    #[error("{place}: no sampler is named")]
    #[diagnostic(help("name at least one host of the fabric, for example `node[001-008],admin1`"))]
    Empty {
        /// Where the list stands.
        place: Place,
    },
    /// Not a list of hosts.
    #[error("{place}: `{part}` is no host list: {why}")]
    #[diagnostic(help(
        "write names and ranges with commas between, `node[001-012],admin1`, each with an adapter if need be, `admin1:mlx5_1:1`"
    ))]
    Syntax {
        /// Where it stands.
        place: Place,
        /// The part that cannot be read.
        part: String,
        /// What is wrong with it.
        why: String,
    },
    /// A range that is far too long.
    #[error("{place}: `{part}` stands for more than {MOST_NAMES} hosts")]
    #[diagnostic(help("look at the numbers within the brackets"))]
    TooMany {
        /// Where it stands.
        place: Place,
        /// The part that is too long.
        part: String,
    },
    /// Twice the same host.
    #[error("{place}: the host `{host}` is listed twice{}", other(first))]
    #[diagnostic(help("list each sampler once: a host is one sampler, whatever number of adapters it has"))]
    Twice {
        /// The host.
        host: String,
        /// Where it stands first.
        first: Place,
        /// Where it stands again.
        place: Place,
    },
    /// No adapter has that name.
    #[error("{place}: no adapter of the fabric is named `{host}`{}", more(*others))]
    #[diagnostic(help(
        "{}a sampler is found by the first word of its adapter's description; for a host with another one give `--sampler-guid {host}=0x...`, the GUID of its port",
        nearest.as_ref().map(|name| format!("did you mean `{}`? ", Printable(name))).unwrap_or_default()
    ))]
    Unknown {
        /// Where it is named.
        place: Place,
        /// The host.
        host: String,
        /// The name in the fabric that is most like it.
        nearest: Option<String>,
        /// Further samplers that are not in the fabric.
        others: usize,
    },
    /// The host is there, the adapter is not.
    #[error("{place}: `{host}` has no port `{wanted}`; there are: {}", Printable(known))]
    #[diagnostic(help("name one of these, or none and let the sweeper take the active port, or give `--sampler-guid {host}=0x...`"))]
    UnknownCa {
        /// Where it is named.
        place: Place,
        /// The host.
        host: String,
        /// The adapter and port that are not there.
        wanted: String,
        /// What the host has.
        known: String,
    },
    /// A GUID for a host that is no sampler.
    #[error("--sampler-guid: `{host}` is not among the samplers")]
    #[diagnostic(help("name the host in --samplers or --samplers-file, too"))]
    GuidOfNobody {
        /// The host.
        host: String,
    },
    /// A GUID that no adapter has.
    #[error("--sampler-guid: no adapter of the fabric has the port GUID {guid} that was given for `{host}`")]
    #[diagnostic(help("`ibstat` on the host prints it as `Port GUID`"))]
    UnknownGuid {
        /// The host.
        host: String,
        /// The GUID.
        guid: Guid,
    },
}

/// Reads a HOSTLIST.
///
/// # Errors
/// When it is empty, cannot be read, is far too long or names a host twice.
pub fn parse_list(text: &str) -> Result<Vec<Wanted>, HostsError> {
    finish(expand(text, &Place::Argument)?, Place::Argument)
}

/// Reads a samplers file; `name` is the file's in messages.
///
/// # Errors
/// As [`parse_list`], with the line.
pub fn parse_file(text: &str, name: &str) -> Result<Vec<Wanted>, HostsError> {
    let place = |line| Place::Line { name: name.to_owned(), line };
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let list = line.split_once('#').map_or(line, |(list, _)| list);
        all.extend(expand(list, &place(number))?);
    }
    finish(all, place(1))
}

/// Writes samplers, each `host`, `host:adapter` or `host:adapter:port`, as a HOSTLIST that is as short as can be. [`parse_list`] reads it back.
pub fn fold(parts: &[String]) -> String {
    let mut by_adapter: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for part in parts {
        let colon = part.find(':').unwrap_or(part.len());
        by_adapter.entry(&part[colon..]).or_default().push(&part[..colon]);
    }
    let folded = by_adapter.into_iter().flat_map(|(adapter, hosts)| {
        let names = hosts.join(",");
        let folded = Parser::default().parse::<IdRangeList>(&names).map(|set| set.to_string());
        let mut expected = hosts.clone();
        expected.sort_unstable();
        let is_same = |text: &String| {
            let mut read: Vec<_> = parse_list(text).unwrap_or_default().into_iter().map(|wanted| wanted.host).collect();
            read.sort_unstable();
            read == expected
        };
        // Where folding would change a name (`n1`, `n01`) the names stand as they are.
        let text = folded.ok().filter(is_same).unwrap_or(names);
        split(&text).into_iter().map(|part| format!("{part}{adapter}")).collect::<Vec<_>>()
    });
    folded.collect::<Vec<_>>().join(",")
}

/// Finds each sampler in the fabric and sorts them by name. `guids` tells where a host sits whose description does not.
///
/// # Errors
/// When a sampler is not in the fabric.
pub fn locate(wanted: &[Wanted], guids: &[(String, Guid)], fabric: &Fabric) -> Result<Vec<Host>, HostsError> {
    if let Some((host, _)) = guids.iter().find(|(host, _)| !wanted.iter().any(|wanted| wanted.host == *host)) {
        return Err(HostsError::GuidOfNobody { host: host.clone() });
    }
    let mut by_name: BTreeMap<&str, Vec<DeviceId>> = BTreeMap::new();
    for (id, device) in fabric.iter().filter(|(_, device)| device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device)) {
        by_name.entry(device.host()).or_default().push(id);
    }
    let guid_of = |host: &str| guids.iter().find(|(name, _)| name == host).map(|(_, guid)| *guid);
    let missing: Vec<_> = wanted.iter().filter(|w| guid_of(&w.host).is_none() && !by_name.contains_key(&*w.host)).collect();
    if let [first, others @ ..] = &missing[..] {
        let nearest = nearest(&first.host, by_name.keys().copied()).map(str::to_owned);
        let (place, host) = (first.place.clone(), first.host.clone());
        return Err(HostsError::Unknown { place, host, nearest, others: others.len() });
    }
    let mut hosts = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let named = by_name.get(&*wanted.host).map_or(&[][..], Vec::as_slice);
        let at = match guid_of(&wanted.host) {
            Some(guid) => with_guid(guid, wanted, fabric)?,
            None => sending_ports(named, wanted, fabric)?,
        };
        let mut own = [named, &at].concat();
        own.sort_unstable();
        own.dedup();
        hosts.push(Host { name: wanted.host.clone(), ca: wanted.ca.clone(), ca_port: wanted.ca_port, at, own });
    }
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(hosts)
}

/// The name that is most like `wanted`, if any is like it at all: first one that differs in case, leading zeros or the domain only.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let names: Vec<_> = names.map(|name| (bare(name), name)).collect();
    let bare_wanted = bare(wanted);
    if let Some((_, name)) = names.iter().find(|(bare, _)| *bare == bare_wanted) {
        return Some(name);
    }
    let scored = names.into_iter().map(|(bare, name)| (strsim::jaro_winkler(&bare_wanted, &bare), name));
    // The first of equals: names come sorted.
    scored.filter(|(score, _)| *score >= ALIKE).reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, name)| name)
}

/// A host's name as people remember it: in small letters, without a domain, numbers without leading zeros.
fn bare(name: &str) -> String {
    let host = name.split_once('.').map_or(name, |(host, _)| host);
    let mut bare = String::with_capacity(host.len());
    for (at, c) in host.char_indices() {
        let begins = !bare.ends_with(|c: char| c.is_ascii_digit());
        let goes_on = host[at..].chars().nth(1).is_some_and(|next| next.is_ascii_digit());
        if !(c == '0' && begins && goes_on) {
            bare.extend(c.to_lowercase());
        }
    }
    bare
}

fn with_guid(guid: Guid, wanted: &Wanted, fabric: &Fabric) -> Result<Vec<DeviceId>, HostsError> {
    let port = wanted.ca_port;
    let here = |device: &crate::topology::Device| {
        device.guid == guid && device.kind == NodeKind::Hca && port.is_none_or(|port| device.port(port).is_some())
    };
    let at: Vec<_> = fabric.iter().filter(|(_, device)| here(device)).map(|(id, _)| id).collect();
    if at.is_empty() { Err(HostsError::UnknownGuid { host: wanted.host.clone(), guid }) } else { Ok(at) }
}

/// The host's ports that the adapter's name and the port's number leave.
fn sending_ports(named: &[DeviceId], wanted: &Wanted, fabric: &Fabric) -> Result<Vec<DeviceId>, HostsError> {
    let ca_of = |id: &DeviceId| fabric.device(*id).name.split_whitespace().nth(1);
    let port_of = |id: &DeviceId| fabric.device(*id).ports.first().map(|port| port.num);
    let of_ca = |id: &&DeviceId| match &wanted.ca {
        // A description of one word tells nothing of the adapter: it may be this one.
        Some(ca) => ca_of(id).is_none_or(|name| name == ca),
        None => true,
    };
    let of_port = |id: &&DeviceId| wanted.ca_port.is_none_or(|port| port_of(id) == Some(port));
    let at: Vec<_> = named.iter().filter(of_ca).filter(of_port).copied().collect();
    if !at.is_empty() {
        return Ok(at);
    }
    let known: Vec<_> =
        named.iter().map(|id| format!("{}:{}", ca_of(id).unwrap_or("?"), port_of(id).unwrap_or_default())).take(16).collect();
    let port = wanted.ca_port.map(|port| format!(":{port}")).unwrap_or_default();
    Err(HostsError::UnknownCa {
        place: wanted.place.clone(),
        host: wanted.host.clone(),
        wanted: format!("{}{port}", wanted.ca.as_deref().unwrap_or_default()),
        known: known.join(", "),
    })
}

fn finish(all: Vec<Wanted>, place: Place) -> Result<Vec<Wanted>, HostsError> {
    if all.is_empty() {
        return Err(HostsError::Empty { place });
    }
    let mut seen: BTreeMap<&str, &Place> = BTreeMap::new();
    for wanted in &all {
        if let Some(first) = seen.insert(&wanted.host, &wanted.place) {
            return Err(HostsError::Twice { host: wanted.host.clone(), first: first.clone(), place: wanted.place.clone() });
        }
    }
    Ok(all)
}

/// The samplers of one list. The number of names is bounded before the first of them is made.
fn expand(list: &str, place: &Place) -> Result<Vec<Wanted>, HostsError> {
    let parts = split(list);
    let mut names = 0_u64;
    for part in &parts {
        names = names.saturating_add(count(part));
        if names > MOST_NAMES {
            return Err(HostsError::TooMany { place: place.clone(), part: (*part).to_owned() });
        }
    }
    let mut all = Vec::new();
    for part in parts {
        let wrong = |why: &str| HostsError::Syntax { place: place.clone(), part: part.to_owned(), why: why.to_owned() };
        let (hosts, ca, ca_port) = adapter(part).map_err(wrong)?;
        for host in names_of(hosts).map_err(wrong)? {
            all.push(Wanted { host, ca: ca.map(str::to_owned), ca_port, place: place.clone() });
        }
    }
    Ok(all)
}

/// The parts of a list: commas and blanks separate, but for commas within brackets.
fn split(list: &str) -> Vec<&str> {
    let mut within = false;
    let separates = |c: char| {
        within = (within || c == '[') && c != ']';
        !within && (c == ',' || c.is_whitespace())
    };
    list.split(separates).filter(|part| !part.is_empty()).collect()
}

/// At most this many names does a part stand for: the product of its brackets.
fn count(part: &str) -> u64 {
    let brackets = part.split('[').skip(1).map(|rest| rest.split_once(']').map_or(rest, |(within, _)| within));
    brackets.map(|within| within.split(',').map(range).fold(0, u64::saturating_add)).fold(1, u64::saturating_mul)
}

/// The length of `3`, `1-9` or `1-9/2`; what is none of these is refused later.
fn range(text: &str) -> u64 {
    let (bounds, step) = text.split_once('/').unwrap_or((text, "1"));
    let Some((low, high)) = bounds.split_once('-') else { return 1 };
    // A number that is too long to be one is too long a range as well.
    let number = |text: &str| if text.len() > 9 { u64::from(u32::MAX) } else { text.trim().parse().unwrap_or(0) };
    number(high).saturating_sub(number(low)) / number(step).max(1) + 1
}

/// Takes `hosts:ca:port` apart.
fn adapter(part: &str) -> Result<(&str, Option<&str>, Option<PortNum>), &'static str> {
    let mut words = part.split(':');
    let hosts = words.next().unwrap_or_default();
    let ca = words.next();
    let port = words.next();
    if hosts.is_empty() || ca == Some("") || words.next().is_some() {
        return Err("expected `host`, `host:adapter` or `host:adapter:port`");
    }
    let number = |text: &str| text.parse().ok().filter(|port| (1..=254).contains(port)).map(PortNum);
    let port = port.map(|text| number(text).ok_or("expected a port number from 1 to 254 after the second colon")).transpose()?;
    Ok((hosts, ca, port))
}

/// The names that a folded set stands for.
fn names_of(hosts: &str) -> Result<Vec<String>, &'static str> {
    if hosts.starts_with('@') {
        return Err("groups are not known here, expand them first");
    }
    let plain = |c: char| c.is_alphanumeric() || "-_.[]/,".contains(c);
    if !hosts.chars().all(plain) {
        return Err("expected letters, digits, `-`, `_`, `.` and ranges in brackets");
    }
    if hosts.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 9) {
        return Err("a number has more than 9 digits");
    }
    let mut depth = 0_i32;
    let nested = hosts.chars().any(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        !(0..=1).contains(&depth)
    });
    if nested || depth != 0 {
        return Err("the brackets do not match");
    }
    if hosts.split('/').skip(1).any(|step| step.starts_with('0')) {
        return Err("a step begins with 0");
    }
    if !hosts.contains('[') {
        return Ok(vec![hosts.to_owned()]);
    }
    let set: NodeSet<IdRangeList> =
        Parser::default().parse(hosts).map_err(|_| "expected ranges such as [1-4,7], [2-10/2] or [001-120] in the brackets")?;
    Ok(set.iter().collect())
}

impl fmt::Display for Host {
    /// As a HOSTLIST has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        self.ca.iter().try_for_each(|ca| write!(f, ":{ca}"))?;
        self.ca_port.iter().try_for_each(|port| write!(f, ":{port}"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument => write!(f, "--samplers"),
            Self::Line { name, line } => write!(f, "{name}:{line}"),
        }
    }
}

/// The second place of an error, if it tells more than the first.
fn other(place: &Place) -> String {
    if let Place::Line { line, .. } = place { format!(", first on line {line}") } else { String::new() }
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" ({others} more of the samplers are missing, too)") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{ports_report, synthetic};

    fn names(list: &str) -> Vec<String> {
        let mut names: Vec<_> = parse_list(list).unwrap().into_iter().map(|wanted| wanted.host).collect();
        names.sort();
        names
    }

    fn stria() -> Fabric {
        ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria").unwrap().fabric
    }

    fn located(list: &str) -> Result<Vec<Host>, HostsError> {
        locate(&parse_list(list)?, &[], &stria())
    }

    #[test]
    fn lists_are_read_as_elsewhere() {
        assert_eq!(names("node[001-003],admin1"), ["admin1", "node001", "node002", "node003"]);
        assert_eq!(names("node[8-11]"), ["node10", "node11", "node8", "node9"]);
        assert_eq!(names("r[1-2]n[1,3]"), ["r1n1", "r1n3", "r2n1", "r2n3"]);
        assert_eq!(names("n[2-6/2] a-b.example x_1"), ["a-b.example", "n2", "n4", "n6", "x_1"]);
        assert_eq!(names("[1-2]-login"), ["1-login", "2-login"]);
        assert_eq!(names("7"), ["7"]);
    }

    #[test]
    fn an_adapter_and_its_port_can_be_named() {
        let all = parse_list("n[1-2]:mlx5_1:2,m:mlx5_0").unwrap();
        let told: Vec<_> = all.iter().map(|w| (&*w.host, w.ca.as_deref(), w.ca_port)).collect();
        let port = Some(PortNum(2));
        assert_eq!(told, [("n1", Some("mlx5_1"), port), ("n2", Some("mlx5_1"), port), ("m", Some("mlx5_0"), None)]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for list in
            ["a:b:c", "a:b:0", "a:b:255", "a:", ":b", "a:b:1:2", "n[1-", "n]1[", "n[a-b]", "n[[1-2]]", "@all", "a&b", "a$(b)", "n[1-2"]
        {
            assert!(matches!(parse_list(list), Err(HostsError::Syntax { .. })), "{list}: {:?}", parse_list(list));
        }
        assert!(matches!(parse_list(" ,, "), Err(HostsError::Empty { .. })));
        assert!(matches!(parse_list("a1,a[1-3]"), Err(HostsError::Twice { .. })));
    }

    #[test]
    fn a_list_that_is_far_too_long_is_never_expanded() {
        for list in ["n[0-99999999]", "n[0-999]m[0-999]", "n[1-100000],m", "n[1-99999999999999999999]", "n[0-9][0-9][0-9][0-9][0-9][0-9]"] {
            assert!(matches!(parse_list(list), Err(HostsError::TooMany { .. })), "{list}");
        }
        assert_eq!(parse_list("n[1-100000]").unwrap().len(), 100_000);
    }

    #[test]
    fn a_list_is_folded_and_reads_as_it_was() {
        for (parts, folded) in [
            (&["node001", "node002", "node010", "admin1"][..], "admin1,node[001-002,010]"),
            (&["n1:mlx5_0", "n2:mlx5_0", "n3:mlx5_1:2", "n4"], "n4,n[1-2]:mlx5_0,n3:mlx5_1:2"),
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
    fn a_samplers_file_has_lines_and_comments() {
        let all = parse_file("# samplers\nadmin1   # the first\n\nnode[1-2]:mlx5_0\r\n", "list").unwrap();
        assert_eq!(all.iter().map(|w| &*w.host).collect::<Vec<_>>(), ["admin1", "node1", "node2"]);
        let twice = parse_file("a\nb\na\n", "list").unwrap_err();
        assert_eq!(twice.to_string(), "list:3: the host `a` is listed twice, first on line 1");
        assert!(matches!(parse_file("# none\n", "list"), Err(HostsError::Empty { .. })));
    }

    #[test]
    fn samplers_are_found_sorted_and_with_all_their_ports() {
        let hosts = located("oss1,admin1,node00007").unwrap();
        let told: Vec<_> = hosts.iter().map(|host| (&*host.name, host.at.len(), host.own.len())).collect();
        assert_eq!(told, [("admin1", 2, 2), ("node00007", 1, 1), ("oss1", 2, 2)]);
        let port = &located("admin1:mlx5_0:2").unwrap()[0];
        assert_eq!((port.at.len(), port.own.len(), port.ca_port), (1, 2, Some(PortNum(2))));
    }

    #[test]
    fn who_is_not_there_is_named_with_the_nearest_spelling() {
        let error = located("nodd00001,nosuch").unwrap_err();
        assert_eq!(
            error.to_string(),
            "--samplers: no adapter of the fabric is named `nodd00001` (1 more of the samplers are missing, too)"
        );
        assert!(error.help().unwrap().to_string().starts_with("did you mean `node00001`?"));
        for (wanted, found) in
            [("node1", "node00001"), ("NODE12", "node00012"), ("oss01.example.org", "oss1"), ("ndoe00012", "node00012"), ("adm1", "admin1")]
        {
            let help = located(wanted).unwrap_err().help().unwrap().to_string();
            assert!(help.starts_with(&format!("did you mean `{found}`?")), "{wanted}: {help}");
        }
        assert!(!located("zz").unwrap_err().help().unwrap().to_string().contains("did you mean"));
        let error = located("admin1:mlx5_7").unwrap_err();
        assert_eq!(error.to_string(), "--samplers: `admin1` has no port `mlx5_7`; there are: mlx5_0:1, mlx5_0:2");
        assert!(located("leaf01").is_err(), "a switch was taken for a sampler");
    }

    #[test]
    fn a_guid_tells_where_a_host_sits() {
        let fabric = stria();
        let (id, device) = fabric.iter().find(|(_, device)| device.host() == "node00003").unwrap();
        let wanted = parse_list("mgmt").unwrap();
        let hosts = locate(&wanted, &[("mgmt".to_owned(), device.guid)], &fabric).unwrap();
        assert_eq!((&*hosts[0].name, &hosts[0].at[..]), ("mgmt", &[id][..]));
        let nobody = locate(&wanted, &[("other".to_owned(), device.guid)], &fabric);
        assert!(matches!(nobody, Err(HostsError::GuidOfNobody { .. })));
        let unknown = locate(&wanted, &[("mgmt".to_owned(), Guid(7))], &fabric);
        assert!(matches!(unknown, Err(HostsError::UnknownGuid { .. })));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-c0-9\\[\\],/:@ \u{e9}-]{0,24}") {
            read_or_refuse(&text)?;
        }

        /// Nearer to what is typed, so that more of it gets past the first look.
        #[test]
        fn any_list_is_read_or_refused(text in "([a-c]{0,2}(\\[[0-9]{1,3}(-[0-9]{1,3})?(/[0-9]{1,2})?(,[0-9]{0,2})?\\]){0,3}[0-9]{0,2}[,: ]?){0,4}") {
            read_or_refuse(&text)?;
        }
    }

    fn read_or_refuse(text: &str) -> Result<(), proptest::test_runner::TestCaseError> {
        if let Ok(all) = parse_list(text) {
            proptest::prop_assert!(all.len() as u64 <= MOST_NAMES);
            proptest::prop_assert!(all.iter().all(|wanted| !wanted.host.is_empty() && !wanted.host.contains('[')));
        }
        Ok(())
    }
}
