//! Reads the cabling as planned.
//!
//! The content decides on the format:
//!
//! - **CSV** with a line of column names, separated by `,`, `;` or a tab. The names are those of
//!   the NDT files of UFM (`#StartDevice,StartPort,EndDevice,EndPort,LinkType`, or with `#Fields:`
//!   and further columns), or common ones of point-to-point lists, in the table `COLUMNS`. Other
//!   columns are ignored.
//! - **`.topo`** of ibdm: a line `TYPE NAME` for each system, and below it a line
//!   `P1 -4x-25G-> TYPE NAME P1` for each cable.
//! - **a net file** of a day on which the cabling was right.

use std::path::PathBuf;

use ibnet_record::types::{Guid, LinkRate, PortNum};
use miette::Diagnostic;

use crate::topology::{NetFile, NetFileError, net_file};

/// The planned cables of all files.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Cables, in the order of the files.
    pub cables: Vec<PlannedCable>,
    /// Lines that give no cable, and values that cannot be read: position and fault.
    pub remarks: Vec<String>,
}

/// A cable as planned.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedCable {
    /// File and line.
    pub at: String,
    /// The two ends.
    pub ends: [PlannedEnd; 2],
    /// Data rate in Gb/s.
    pub gbps: Option<f64>,
    /// Part number.
    pub part: Option<String>,
    /// Length in meters.
    pub length_m: Option<f64>,
    /// Text on the label of the cable.
    pub label: Option<String>,
}

/// One end of a planned cable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlannedEnd {
    /// A port of a net file.
    Port {
        /// Port GUID.
        guid: Guid,
        /// Port number.
        port: PortNum,
        /// Name of the device.
        name: String,
    },
    /// A device and a port as a file names them.
    Named {
        /// Host, switch or GUID.
        device: String,
        /// Port, such as `Port 21`, `mlx5_0`, or `Blade 16_Port 2/20`.
        port: String,
    },
}

/// Reason why a plan is refused.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum PlanError {
    /// The file is in none of the formats.
    #[error(
        "cannot use {name} as planned cabling: it has no columns StartDevice, StartPort, EndDevice and EndPort, no line of a .topo file, and is no net file ({error})"
    )]
    #[diagnostic(help(
        "give an NDT file of UFM, a CSV file with these column names, a .topo file of ibdm, or a net file of an accepted day"
    ))]
    Format {
        /// The file.
        name: String,
        /// Why it is no net file.
        error: NetFileError,
    },
    /// No line gives a cable.
    #[error("cannot use {} as planned cabling: none of its lines is a cable ({first})", name.display())]
    #[diagnostic(help("each line needs two devices and two ports"))]
    NoCable {
        /// The file.
        name: PathBuf,
        /// The first faulty line.
        first: String,
    },
}

/// What a column contains, and its names without case, blanks and punctuation.
const COLUMNS: [(Column, &[&str]); 8] = [
    (
        Column::Device(0),
        &[
            "startdevice",
            "fieldsstartdevice",
            "sourcedevice",
            "fromdevice",
            "adevice",
            "devicea",
            "device1",
            "source",
            "from",
        ],
    ),
    (
        Column::Port(0),
        &[
            "startport",
            "sourceport",
            "fromport",
            "aport",
            "porta",
            "port1",
        ],
    ),
    (
        Column::Device(1),
        &[
            "enddevice",
            "destinationdevice",
            "todevice",
            "bdevice",
            "zdevice",
            "deviceb",
            "device2",
            "destination",
            "to",
        ],
    ),
    (
        Column::Port(1),
        &[
            "endport",
            "destinationport",
            "toport",
            "bport",
            "zport",
            "portb",
            "port2",
        ],
    ),
    (Column::Speed, &["speed", "rate", "linkspeed"]),
    (
        Column::Length,
        &["cablelength", "length", "lengthm", "cablelengthm"],
    ),
    (
        Column::Part,
        &["partnumber", "cablepartnumber", "part", "pn", "cablepart"],
    ),
    (Column::Label, &["label", "cablelabel", "cableid", "cable"]),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Device(usize),
    Port(usize),
    Speed,
    Length,
    Part,
    Label,
}

/// Max number of lines before the line of column names.
const LINES_ABOVE: usize = 20;

impl Plan {
    /// Adds the cables of a file. Messages name the file `name`.
    ///
    /// # Errors
    /// Returns an error if the file has none of the formats, or no cable.
    pub fn add(&mut self, bytes: &[u8], name: &str) -> Result<(), PlanError> {
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        let (cables, remarks) = (self.cables.len(), self.remarks.len());
        if !self.add_csv(&text, name) && !self.add_topo(&text, name) {
            let net = net_file::parse(bytes, name).map_err(|error| PlanError::Format {
                name: name.to_owned(),
                error,
            })?;
            self.add_net(&net);
        }
        if self.cables.len() == cables {
            let first = self.remarks.get(remarks).cloned().unwrap_or_default();
            return Err(PlanError::NoCable {
                name: name.into(),
                first,
            });
        }
        Ok(())
    }

    /// Adds the cables of a net file, without those of aggregation nodes.
    fn add_net(&mut self, net: &NetFile) {
        let fabric = &net.fabric;
        for device in fabric.devices() {
            if fabric.is_aggregation_node(device) {
                continue;
            }
            for (port, peer) in device.linked() {
                let far = fabric
                    .find(peer.guid, peer.port)
                    .map(|id| fabric.device(id));
                let is_first = (device.guid, port.num) < (peer.guid, peer.port);
                if far.is_some_and(|far| {
                    fabric.is_aggregation_node(far)
                        || !is_first && far.port(peer.port).is_some_and(|back| back.peer.is_some())
                }) {
                    continue;
                }
                let end = |guid, port, name: &str| PlannedEnd::Port {
                    guid,
                    port,
                    name: name.to_owned(),
                };
                self.cables.push(PlannedCable {
                    at: format!("{}:{}", net.name(), port.line),
                    ends: [
                        end(device.guid, port.num, &device.name),
                        end(peer.guid, peer.port, &peer.name),
                    ],
                    gbps: port.rate.data_gbps(),
                    part: None,
                    length_m: None,
                    label: None,
                });
            }
        }
    }

    /// Adds the cables of a CSV file. Returns `false` for another format.
    fn add_csv(&mut self, text: &str, name: &str) -> bool {
        let Some((delimiter, header)) = [b',', b';', b'\t']
            .into_iter()
            .find_map(|delimiter| Some((delimiter, header(text, delimiter)?)))
        else {
            return false;
        };
        let mut names_seen = false;
        for record in records(text, delimiter) {
            let Ok(record) = record else { continue };
            let line = record.position().map_or(0, csv::Position::line);
            let field = |column: Column| {
                let at = header.iter().position(|found| *found == Some(column))?;
                record.get(at).filter(|field| !field.is_empty())
            };
            let ends = [0, 1].map(|end| (field(Column::Device(end)), field(Column::Port(end))));
            if !names_seen {
                names_seen = columns(&record) == header;
                continue;
            }
            if record.iter().all(str::is_empty)
                || record.get(0).is_some_and(|first| first.starts_with('#'))
            {
                continue;
            }
            let [(Some(device), Some(port)), (Some(far), Some(far_port))] = ends else {
                // A list beside the table, or a heading between two tables.
                if ends.iter().any(|end| end.0.is_some() || end.1.is_some()) {
                    self.remarks.push(format!(
                        "{name}:{line}: the line needs two devices and two ports"
                    ));
                }
                continue;
            };
            let end = |device: &str, port: &str| PlannedEnd::Named {
                device: device.to_owned(),
                port: port.to_owned(),
            };
            let mut value = |column, what, read: fn(&str) -> Option<f64>| {
                let text = field(column)?;
                let value = read(text);
                if value.is_none() {
                    let at = format!("{name}:{line}");
                    self.remarks.push(not_read(&at, what, text));
                }
                value
            };
            let (gbps, length_m) = (
                value(Column::Speed, "speed", gbps),
                value(Column::Length, "length", length_m),
            );
            self.cables.push(PlannedCable {
                at: format!("{name}:{line}"),
                ends: [end(device, port), end(far, far_port)],
                gbps,
                part: field(Column::Part).map(str::to_owned),
                length_m,
                label: field(Column::Label).map(str::to_owned),
            });
        }
        true
    }

    /// Adds the cables of a `.topo` file of ibdm. Returns `false` for another format.
    fn add_topo(&mut self, text: &str, name: &str) -> bool {
        let is_cable = |line: &str| {
            line.split_once("->").is_some_and(|(left, _)| {
                left.split_ascii_whitespace()
                    .nth(1)
                    .is_some_and(|word| word.starts_with('-'))
            })
        };
        if !text.lines().any(is_cable) {
            return false;
        }
        let mut system = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let Some((left, right)) = line.split_once("->").filter(|_| is_cable(line)) else {
                system = line.split_ascii_whitespace().nth(1);
                continue;
            };
            let mut left = left.split_ascii_whitespace();
            let mut right = right.split_ascii_whitespace().skip(1);
            let (Some(device), Some(port), Some(rate), Some(far), Some(far_port)) =
                (system, left.next(), left.next(), right.next(), right.next())
            else {
                self.remarks.push(format!(
                    "{name}:{number}: expected PORT -WIDTH-SPEED-> TYPE NAME PORT below a system"
                ));
                continue;
            };
            let end = |device: &str, port: &str| PlannedEnd::Named {
                device: device.to_owned(),
                port: port.to_owned(),
            };
            let (at, gbps) = (format!("{name}:{number}"), topo_gbps(rate));
            if gbps.is_none() {
                self.remarks.push(not_read(&at, "speed", rate));
            }
            self.cables.push(PlannedCable {
                at,
                ends: [end(device, port), end(far, far_port)],
                gbps,
                part: None,
                length_m: None,
                label: None,
            });
        }
        true
    }
}

/// Describes a value that cannot be read.
fn not_read(at: &str, what: &str, text: &str) -> String {
    format!("{at}: cannot read the {what} `{text}`, so it is not compared")
}

fn records(text: &str, delimiter: u8) -> csv::StringRecordsIntoIter<&[u8]> {
    csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes())
        .into_records()
}

/// Returns the columns of the first line that names two devices and two ports.
fn header(text: &str, delimiter: u8) -> Option<Vec<Option<Column>>> {
    let needed = [
        Column::Device(0),
        Column::Port(0),
        Column::Device(1),
        Column::Port(1),
    ];
    records(text, delimiter)
        .take(LINES_ABOVE)
        .filter_map(Result::ok)
        .map(|record| columns(&record))
        .find(|columns| needed.iter().all(|column| columns.contains(&Some(*column))))
}

fn columns(record: &csv::StringRecord) -> Vec<Option<Column>> {
    let column = |name: &str| {
        let name: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        let found = COLUMNS.iter().find(|(_, names)| names.contains(&&*name));
        found.map(|(column, _)| *column)
    };
    record.iter().map(column).collect()
}

/// Returns the data rate in Gb/s of `200000` (Mb/s), `200G`, `HDR`, `4x HDR` or `2xNDR`.
fn gbps(text: &str) -> Option<f64> {
    let text = text.to_ascii_uppercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    match (number.parse::<f64>(), unit.trim()) {
        (Ok(number), "") if number >= 2500.0 => Some(number / 1000.0),
        (Ok(number), unit) if unit.is_empty() || unit.starts_with('G') => Some(number),
        (Ok(_), unit) if unit.starts_with('X') => {
            LinkRate::new(&format!("{number}x"), unit[1..].trim()).data_gbps()
        }
        (Err(_), unit) => LinkRate::new("4x", unit).data_gbps(),
        _ => None,
    }
}

/// Returns the data rate in Gb/s of `-4x-25G`: the width, and the speed of a lane.
fn topo_gbps(word: &str) -> Option<f64> {
    let mut parts = word.split('-').filter(|part| !part.is_empty());
    let (width, lane) = (parts.next()?, parts.next()?);
    let lane: f64 = lane.strip_suffix('G')?.parse().ok()?;
    let speed = match lane {
        2.5 => "SDR",
        5.0 => "DDR",
        10.0 => "QDR",
        14.0 => "FDR",
        25.0 => "EDR",
        50.0 => "HDR",
        100.0 => "NDR",
        200.0 => "XDR",
        _ => return None,
    };
    LinkRate::new(width, speed).data_gbps()
}

/// Returns the length in meters of `10`, `2.5m` or `30 m`.
fn length_m(text: &str) -> Option<f64> {
    text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let mut plan = Plan::default();
        plan.add(text.as_bytes(), "plan").unwrap();
        plan
    }

    fn ends(plan: &Plan) -> Vec<String> {
        let text = |end: &PlannedEnd| match end {
            PlannedEnd::Port { guid, port, .. } => format!("{guid} {port}"),
            PlannedEnd::Named { device, port } => format!("{device} {port}"),
        };
        let cable = |cable: &PlannedCable| {
            let [one, two] = cable.ends.each_ref().map(text);
            format!("{one} - {two}")
        };
        plan.cables.iter().map(cable).collect()
    }

    #[test]
    fn ndt_file_with_a_list_beside_the_table_is_read() {
        let text = ",rack #,U height,#Fields:StartDevice,StartPort,StartDeviceLocation,EndDevice,EndPort,\
                    EndDeviceLocation,U height,LinkType,Speed,,Cable Length,,,\n\
                    ,Rack IB0,U41,leaf01,Port 21,C04,core1,Blade 1_Port 1/1,C05,U25,Data,200000,200G HDR cable,10,,Racks,\n\
                    ,,,,,,,,,,,,,,,leaf02,C06\n\
                    ,Rack IB0,U41,leaf01,Port 22,C04,core1,,C05,U25,Data,200000,200G HDR cable,10,,,\n";
        let plan = plan(text);
        assert_eq!(ends(&plan), ["leaf01 Port 21 - core1 Blade 1_Port 1/1"]);
        let cable = &plan.cables[0];
        assert_eq!((cable.gbps, cable.length_m), (Some(200.0), Some(10.0)));
        assert_eq!(cable.at, "plan:2");
        assert_eq!(
            plan.remarks,
            ["plan:4: the line needs two devices and two ports"]
        );
    }

    #[test]
    fn separators_and_names_of_columns_vary() {
        for text in [
            "A Device;A Port;B Device;B Port\nn1;mlx5_0;leaf1;3\n",
            "Length\tFrom\tFrom Port\tTo\tTo Port\n2\tn1\tmlx5_0\tleaf1\t3\n",
            "\u{feff}Cables of hall 2\n\"Source\",\"Source Port\",Destination,destination_port\r\nn1,mlx5_0,leaf1,3\r\n",
        ] {
            assert_eq!(ends(&plan(text)), ["n1 mlx5_0 - leaf1 3"], "{text}");
        }
    }

    #[test]
    fn topo_file_is_read() {
        let text = "# A fat tree\nMTS2400 SL1-1\n\t P1 -4x-5G-> MT23108 H-1 P1\n\t P13 -4x-50G-> MTS2400 SL2-1\n";
        let plan = plan(text);
        assert_eq!(ends(&plan), ["SL1-1 P1 - H-1 P1"]);
        assert_eq!(plan.cables[0].gbps, Some(16.0));
        assert_eq!(plan.remarks.len(), 1);
    }

    #[test]
    fn speeds_and_lengths_of_all_forms_are_read() {
        for (text, expected) in [
            ("200000", Some(200.0)),
            ("400G", Some(400.0)),
            ("400 Gb/s", Some(400.0)),
            ("100", Some(100.0)),
            ("HDR", Some(200.0)),
            ("4x NDR", Some(400.0)),
            ("2xHDR", Some(100.0)),
            ("fast", None),
            ("", None),
        ] {
            assert_eq!(gbps(text), expected, "{text}");
        }
        for (text, expected) in [
            ("10", Some(10.0)),
            ("2.5m", Some(2.5)),
            ("30 m", Some(30.0)),
            ("long", None),
        ] {
            assert_eq!(length_m(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        /// Any text is read or refused, and each line with two devices and two ports is a cable.
        #[test]
        fn any_text_is_read_or_refused(text in "(StartDevice,StartPort,EndDevice,EndPort\n)?([a-zP0-9/,; _:>\"\u{e9}-]{0,24}\n){0,6}") {
            let mut plan = Plan::default();
            let _ = plan.add(text.as_bytes(), "plan");
            if text.starts_with("StartDevice") && !text.contains('"') {
                let full = text.lines().skip(1).filter(|line| {
                    let fields: Vec<_> = line.split(',').map(str::trim).collect();
                    fields.len() > 3 && fields[..4].iter().all(|field| !field.is_empty())
                });
                proptest::prop_assert_eq!(plan.cables.len(), full.count());
            }
        }
    }
}
