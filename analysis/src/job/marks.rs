//! Phases of an application, and what the nodes of a job sent and waited in each of them.
//!
//! A file of marks is CSV whose first line has the column names, or JSON lines with the same
//! fields: `name` and `start` are required, `end`, `nodes` and `value` are optional, and others are
//! ignored. Times have the forms of the CSV of jobs.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::interval::Interval;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::source::{Fault, SourceError, csv as job_csv};
use super::{HostPort, host_ports, is_one_of};
use crate::hosts::Hosts;
use crate::ports::carried::{Amount, Flow, Kind};
use crate::ports::{PortKey, PortSummary, with_equal_bins};
use crate::when::Zone;

/// A phase of an application.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Mark {
    /// Name of the phase.
    pub name: String,
    /// Hosts of the phase. `None` for all.
    #[serde(rename = "nodes", serialize_with = "text_of")]
    pub hosts: Option<Hosts>,
    /// Start in nanoseconds since 1970.
    #[serde(rename = "start_ns")]
    pub from: u64,
    /// End in nanoseconds since 1970. `None` for the end of the recording.
    #[serde(rename = "end_ns")]
    pub to: Option<u64>,
    /// A number of the application, such as bytes written.
    pub value: Option<f64>,
}

/// The traffic of a phase.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Start in nanoseconds since 1970.
    pub start_ns: u64,
    /// End in nanoseconds since 1970. Null if the mark has none.
    pub end_ns: Option<u64>,
    /// The number of the application. Null if the mark has none.
    pub value: Option<f64>,
    /// Number of nodes of the job or group in the phase.
    pub nodes: usize,
    /// Bytes that these nodes sent.
    pub injected_bytes: f64,
    /// Bytes that these nodes received.
    pub ejected_bytes: f64,
    /// Time for which their ports were blocked, summed over the ports, in seconds.
    pub blocked_seconds: f64,
    /// Time of the phase in which the sent bytes are known, in seconds: the mean of the ports.
    pub covered_seconds: f64,
    /// Time of the phase in which the blocked time is known, in seconds.
    pub blocked_covered_seconds: f64,
}

/// The phases of one name, added up.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PhaseSum {
    /// Name of the phases.
    pub name: String,
    /// Number of phases.
    pub times: usize,
    /// Time of the phases in which the sent bytes are known, in seconds.
    pub covered_seconds: f64,
    /// Bytes that the nodes sent. Null if unknown.
    pub injected_bytes: Option<f64>,
    /// Bytes that the nodes received. Null if unknown.
    pub ejected_bytes: Option<f64>,
    /// Time for which the ports of the nodes were blocked, summed over the ports, in seconds. Null
    /// if unknown.
    pub blocked_seconds: Option<f64>,
    /// Sum of the numbers of the application. Null if no mark has one.
    pub value: Option<f64>,
}

/// Parses marks. `name` is the name of the file, and `zone` that of times without a zone.
///
/// # Errors
/// Returns an error with the line of a malformed mark, or if there is no mark.
pub fn parse(text: &str, name: &str, zone: &Zone) -> Result<Vec<Mark>, SourceError> {
    let failed = |line: u64, (what, found): Fault| SourceError::Mark {
        place: format!("{name}:{line}"),
        what,
        found,
    };
    let text = text.trim_start_matches('\u{feff}');
    let mut marks = Vec::new();
    if text.trim_start().starts_with('{') {
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() {
                continue;
            }
            let fields: BTreeMap<String, Value> = serde_json::from_str(text)
                .map_err(|_| failed(line, ("expected a JSON object", text.to_owned())))?;
            let get = |field: &str| match fields.get(field)? {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            marks.push(mark(get, zone).map_err(|fault| failed(line, fault))?);
        }
    } else {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let malformed = |error: &csv::Error| {
            let line = error.position().map_or(1, csv::Position::line);
            failed(line, ("expected CSV", error.to_string()))
        };
        let header = reader.headers().map_err(|error| malformed(&error))?.clone();
        for row in reader.records() {
            let row = row.map_err(|error| malformed(&error))?;
            let get = |field: &str| {
                let is_field = |name: &str| name.eq_ignore_ascii_case(field);
                row.get(header.iter().position(is_field)?)
                    .map(str::to_owned)
            };
            let line = row.position().map_or(1, csv::Position::line);
            marks.push(mark(get, zone).map_err(|fault| failed(line, fault))?);
        }
    }
    if marks.is_empty() {
        return Err(failed(1, ("there is no mark", String::new())));
    }
    Ok(marks)
}

/// Returns the mark of the fields of a line.
fn mark(get: impl Fn(&str) -> Option<String>, zone: &Zone) -> Result<Mark, Fault> {
    let get = |field| get(field).filter(|text| !text.is_empty());
    let time = |field| job_csv::time(get(field).as_deref(), zone);
    let (name, from, to) = (get("name"), time("start")?, time("end")?);
    let missing = |what| (what, String::new());
    let from = from.ok_or_else(|| missing("expected a start"))?;
    if to.is_some_and(|to| to < from) {
        let end = get("end").unwrap_or_default();
        return Err(("the end is before the start", end));
    }
    let hosts =
        |text: String| Hosts::parse(&text).map_err(|_| ("the list of nodes is malformed", text));
    let number = |text: String| {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or(("expected a number as the value", text))
    };
    Ok(Mark {
        name: name.ok_or_else(|| missing("expected a name"))?,
        hosts: get("nodes").map(hosts).transpose()?,
        from,
        to,
        value: get("value").map(number).transpose()?,
    })
}

/// Writes hosts as a host list.
fn text_of<S: Serializer>(hosts: &Option<Hosts>, serializer: S) -> Result<S::Ok, S::Error> {
    hosts.as_ref().map(Hosts::to_list).serialize(serializer)
}

impl Mark {
    /// Returns whether a host takes part in the phase.
    pub fn contains(&self, host: &str) -> bool {
        let hosts = self.hosts.as_ref();
        hosts.is_none_or(|hosts| is_one_of(hosts, host))
    }
}

/// Returns the phases with at least one of these hosts. Traffic is taken as constant within a bin
/// of the ports.
pub fn phases(ports: &BTreeMap<PortKey, PortSummary>, hosts: &Hosts, marks: &[Mark]) -> Vec<Phase> {
    let ports = with_equal_bins(ports);
    let mut own = host_ports(&ports);
    own.retain(|port| is_one_of(hosts, port.host));
    let own: Vec<_> = own.iter().map(|port| (port.host, parts(port))).collect();
    of_parts(&own, marks)
}

/// Adds up the phases with the same name, in the order of their first starts.
pub fn by_name(phases: &[Phase]) -> Vec<PhaseSum> {
    let mut phases: Vec<&Phase> = phases.iter().collect();
    phases.sort_by_key(|phase| phase.start_ns);
    let mut sums: Vec<PhaseSum> = Vec::new();
    for phase in phases {
        let known = sums.iter().position(|sum| sum.name == phase.name);
        let place = known.unwrap_or_else(|| {
            sums.push(PhaseSum {
                name: phase.name.clone(),
                times: 0,
                covered_seconds: 0.0,
                injected_bytes: None,
                ejected_bytes: None,
                blocked_seconds: None,
                value: None,
            });
            sums.len() - 1
        });
        let sum = &mut sums[place];
        let add = |sum: &mut Option<f64>, value: Option<f64>| {
            *sum = value.map(|value| sum.unwrap_or(0.0) + value).or(*sum);
        };
        let known = |seconds: f64, value: f64| (seconds > 0.0).then_some(value);
        let (bytes, blocked) = (phase.covered_seconds, phase.blocked_covered_seconds);
        sum.times += 1;
        sum.covered_seconds += bytes;
        add(&mut sum.injected_bytes, known(bytes, phase.injected_bytes));
        add(&mut sum.ejected_bytes, known(bytes, phase.ejected_bytes));
        add(
            &mut sum.blocked_seconds,
            known(blocked, phase.blocked_seconds),
        );
        add(&mut sum.value, phase.value);
    }
    sums
}

/// The traffic of a host port in parts of the time, within which it is taken as constant.
pub(crate) type Parts = Vec<(Interval, Flow)>;

fn parts(port: &HostPort<'_>) -> Parts {
    let Some(bins) = port.bins() else {
        return Parts::new();
    };
    let width_ns = bins.width_ns();
    let part = |number: u64| {
        let time = Interval::new(number * width_ns, (number + 1) * width_ns)?;
        let (sent, received, blocked) = port.known_at(number);
        let octets = |gbps: f64| gbps * 1e9 / 8.0;
        let rates = [sent.map(octets), received.map(octets), blocked];
        let mut flow = Flow::default();
        for (kind, rate) in Kind::ALL.into_iter().zip(rates) {
            if let Some(rate) = rate {
                flow.put(kind, rate * width_ns as f64 / 1e9, width_ns);
            }
        }
        Some((time, flow))
    };
    bins.iter().filter_map(|(number, _)| part(number)).collect()
}

/// Returns the phases with at least one of these hosts, each with the traffic of its ports.
pub(crate) fn of_parts<P: AsRef<[(Interval, Flow)]>>(
    ports: &[(&str, P)],
    marks: &[Mark],
) -> Vec<Phase> {
    marks.iter().filter_map(|mark| phase(ports, mark)).collect()
}

fn phase<P: AsRef<[(Interval, Flow)]>>(ports: &[(&str, P)], mark: &Mark) -> Option<Phase> {
    let own: Vec<_> = ports
        .iter()
        .filter(|(host, _)| mark.contains(host))
        .collect();
    let hosts: BTreeSet<&str> = own.iter().map(|(host, _)| *host).collect();
    let to = mark.to.unwrap_or(u64::MAX);
    let mut sum = Flow::default();
    for (time, flow) in own.iter().flat_map(|(_, parts)| parts.as_ref()) {
        let within = time.within(mark.from, to).map_or(0, Interval::length_ns);
        let share = within as f64 / time.length_ns() as f64;
        for kind in Kind::ALL {
            let Amount {
                sum: whole,
                time_ns,
            } = flow.of(kind);
            // Several jobs of a host can describe the same time.
            let time_ns = ((time_ns as f64 * share).round() as u64).min(within);
            sum.put(kind, whole * share, time_ns);
        }
    }
    let count = own.len() as f64;
    (!own.is_empty()).then(|| Phase {
        name: mark.name.clone(),
        start_ns: mark.from,
        end_ns: mark.to,
        value: mark.value,
        nodes: hosts.len(),
        injected_bytes: sum.sent(),
        ejected_bytes: sum.received(),
        blocked_seconds: sum.of(Kind::Blocked).sum,
        covered_seconds: sum.seconds(Kind::Sent) / count,
        blocked_covered_seconds: sum.seconds(Kind::Blocked) / count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{fold, job_lines};
    use crate::ports::Ports;

    fn read(text: &str) -> Result<Vec<Mark>, String> {
        parse(text, "m.csv", &Zone::utc()).map_err(|error| error.to_string())
    }

    #[test]
    fn csv_and_json_lines_give_the_same_marks() {
        let csv = "name,start,end,nodes,value\nread,1795262400,1795262401.5,\"n1,n2\",8e9\n\
                   write,2026-11-21T12:00:02Z,,,\n";
        let json = "{\"name\":\"read\",\"start\":1795262400,\"end\":1795262401.5,\"nodes\":\"n1,n2\",\"value\":8e9}\n\n\
                    {\"name\":\"write\",\"start\":\"2026-11-21T12:00:02Z\",\"end\":null}\n";
        let marks = read(csv).unwrap();
        assert_eq!(marks, read(json).unwrap());
        assert_eq!(
            (marks[0].from, marks[0].to, marks[0].value),
            (
                1_795_262_400_000_000_000,
                Some(1_795_262_401_500_000_000),
                Some(8e9)
            )
        );
        assert!(marks[0].contains("N2") && !marks[0].contains("n3"));
        assert!(marks[1].contains("n3") && marks[1].to.is_none());
    }

    #[test]
    fn malformed_mark_is_reported_with_its_line() {
        for (text, expected) in [
            (
                "name,start\nw,12:00\n",
                "m.csv:2: expected seconds since 1970",
            ),
            (
                "name,start\na,1795262400\n,1795262400\n",
                "m.csv:3: expected a name",
            ),
            ("name,begin\na,1\n", "m.csv:2: expected a start"),
            (
                "name,start,end\na,1795262400,1795262399\n",
                "m.csv:2: the end is before the start",
            ),
            (
                "name,start,nodes\na,1795262400,n[1-\n",
                "m.csv:2: the list of nodes is malformed",
            ),
            (
                "name,start,value\na,1795262400,much\n",
                "m.csv:2: expected a number as the value",
            ),
            ("name,start\n", "m.csv:1: there is no mark"),
            ("{\"name\":\"a\"\n", "m.csv:1: expected a JSON object"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn phase_has_its_part_of_the_traffic_of_its_nodes() {
        let ports = fold(Ports::with_bins(8), &job_lines(true)).finish();
        let hosts = Hosts::parse("n1,n2").unwrap();
        let mark = |nodes: Option<&str>, from: u64, to| Mark {
            name: "a".to_owned(),
            hosts: nodes.map(|nodes| Hosts::parse(nodes).unwrap()),
            from,
            to,
            value: None,
        };
        let marks = [
            mark(None, 0, None),
            mark(None, 1_500_000_000, Some(5_000_000_000)),
            mark(Some("n1"), 0, Some(1_000_000_000)),
            mark(Some("n3"), 0, None),
        ];
        // Both nodes sent 12 Gb/s in the first second and 24 Gb/s in the second one.
        let found = phases(&ports, &hosts, &marks);
        let gigabits: Vec<_> = found
            .iter()
            .map(|phase| {
                (
                    phase.nodes,
                    phase.injected_bytes * 8.0 / 1e9,
                    phase.covered_seconds,
                )
            })
            .collect();
        assert_eq!(gigabits, [(2, 36.0, 2.0), (2, 12.0, 0.5), (1, 8.0, 1.0)]);
        assert_eq!(found[0].blocked_seconds, 0.75);
    }
}
