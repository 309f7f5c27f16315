//! Files with host metrics: JSON lines, CSV, and the files of the LDMS plugin store_csv.
//!
//! The first line shows the form of a file:
//!
//! - It begins with `{`: JSON lines with `time`, `host`, `metric` and `value`.
//! - Its columns contain `Time` or `Time_msec`, and `ProducerName`: a file of LDMS (see the
//!   manual page `ldms-store_csv`). If there is no such line, the columns are in the file
//!   `NAME.HEADER`.
//! - Otherwise: CSV with the columns `time`, `host`, `metric` and `value`.
//!
//! All other fields, and columns with text, are labels of the metric.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Sink;
use super::error::HostMetricsError;
use super::readings::Kind;
use crate::input::files;
use crate::when::Zone;

/// Columns of an LDMS file that are no metrics.
const NOT_METRICS: [&str; 9] = [
    "component_id",
    "job_id",
    "app_id",
    "uid",
    "Time_usec",
    "DT",
    "DT_usec",
    "CompId",
    "instance",
];

/// LDMS samplers whose metrics are counters. The name of a file or of its folder begins with the
/// name of the sampler.
const COUNTERS: [&str; 3] = ["procnetdev", "procnfs", "lustre"];

/// A file and the number of its current line.
struct File<'a> {
    name: &'a str,
    line: u64,
}

impl File<'_> {
    fn wrong(&self, why: impl Into<String>) -> HostMetricsError {
        HostMetricsError::Line {
            file: self.name.to_owned(),
            line: self.line,
            why: why.into(),
        }
    }
}

pub(super) fn read(path: &Path, sink: &mut Sink<'_>) -> Result<(), HostMetricsError> {
    let name = crate::path::display_name(path);
    let failed = |source: io::Error| HostMetricsError::Read {
        name: name.clone(),
        source,
    };
    let mut text = BufReader::new(files::open(path).map_err(failed)?.0);
    let mut file = File {
        name: &name,
        line: 1,
    };
    let first = text
        .fill_buf()
        .map_err(failed)?
        .iter()
        .copied()
        .find(|octet| !octet.is_ascii_whitespace());
    match first {
        None => Err(file.wrong("the file is empty")),
        Some(b'{') => json_lines(text, &mut file, sink),
        Some(_) => columns(text, &mut file, path, sink),
    }
}

/// Parses a time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds
/// since 1970.
fn time(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let is_relative = text.starts_with(['-', '+']) || text.eq_ignore_ascii_case("now");
    let parsed = (!is_relative)
        .then(|| Zone::utc().parse(text, 0).ok())
        .flatten();
    parsed.ok_or_else(|| format!("the time `{text}` is neither a number since 1970 nor RFC 3339"))
}

fn json_lines(
    mut text: impl BufRead,
    file: &mut File<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), HostMetricsError> {
    let mut line = String::new();
    loop {
        line.clear();
        let read = text
            .by_ref()
            .take(ibnet_record::limits::LINE as u64)
            .read_line(&mut line);
        let read = read.map_err(|source| HostMetricsError::Read {
            name: file.name.to_owned(),
            source,
        })?;
        if read == 0 {
            return Ok(());
        }
        if !line.trim().is_empty() {
            match json_line(&line, sink) {
                Ok(()) => {}
                // A running collector may have written only a part of the last line.
                Err(_) if !line.ends_with('\n') => return Ok(()),
                Err(why) => return Err(file.wrong(why)),
            }
        }
        file.line += 1;
    }
}

fn json_line(line: &str, sink: &mut Sink<'_>) -> Result<(), String> {
    let value: Value =
        serde_json::from_str(line).map_err(|error| format!("it is not JSON: {error}"))?;
    let Value::Object(fields) = value else {
        return Err("it is not a JSON object".to_owned());
    };
    let field = |name: &str| {
        fields
            .get(name)
            .ok_or_else(|| format!("the field `{name}` is missing"))
    };
    let text = |name: &str| {
        field(name)?
            .as_str()
            .ok_or_else(|| format!("the field `{name}` is not a text"))
    };
    let ts = match field("time")? {
        Value::String(text) => time(text)?,
        Value::Number(number) => time(&number.to_string())?,
        _ => return Err("the field `time` is neither a number nor a text".to_owned()),
    };
    let (host, metric) = (text("host")?, text("metric")?);
    let value = match field("value")? {
        Value::Null => return Ok(()),
        Value::Number(number) => number.as_f64().ok_or("the field `value` is not a number")?,
        Value::String(text) => text
            .trim()
            .parse()
            .map_err(|_| format!("the value `{text}` is not a number"))?,
        _ => return Err("the field `value` is not a number".to_owned()),
    };
    let labels = fields
        .iter()
        .filter(|(name, _)| !["time", "host", "metric", "value"].contains(&&***name));
    let labels = labels
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect();
    sink.add(host, metric, labels, Kind::of(metric), (ts, value));
    Ok(())
}

/// Reads CSV or a file of LDMS.
fn columns(
    text: impl Read,
    file: &mut File<'_>,
    path: &Path,
    sink: &mut Sink<'_>,
) -> Result<(), HostMetricsError> {
    rows(text, file, path, |header, row| header.row(row, sink))
}

/// Reads a file of LDMS, and passes each row to `each`.
///
/// # Errors
/// Returns an error if the file cannot be read, has no header, or if `each` rejects a row.
pub(crate) fn ldms_rows(
    path: &Path,
    mut each: impl FnMut(&Header, &csv::StringRecord) -> Result<(), String>,
) -> Result<(), HostMetricsError> {
    let name = crate::path::display_name(path);
    let text = files::open(path).map_err(|source| HostMetricsError::Read {
        name: name.clone(),
        source,
    })?;
    let mut file = File {
        name: &name,
        line: 1,
    };
    rows(text.0, &mut file, path, |header, row| {
        if header.one.is_some() {
            return Err("it has no column Time or Time_msec".to_owned());
        }
        each(header, row)
    })
}

fn rows(
    text: impl Read,
    file: &mut File<'_>,
    path: &Path,
    mut each: impl FnMut(&Header, &csv::StringRecord) -> Result<(), String>,
) -> Result<(), HostMetricsError> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text);
    let mut rows = reader.records();
    let mut next = |file: &mut File<'_>| -> Result<Option<csv::StringRecord>, HostMetricsError> {
        let Some(row) = rows.next() else {
            return Ok(None);
        };
        let row = row.map_err(|error| match error.position() {
            Some(at) => HostMetricsError::Line {
                file: file.name.to_owned(),
                line: at.line(),
                why: error.to_string(),
            },
            None => file.wrong(error.to_string()),
        })?;
        file.line = row.position().map_or(file.line, csv::Position::line);
        Ok(Some(row))
    };
    let Some(first) = next(file)? else {
        return Ok(());
    };
    let is_data = |row: &csv::StringRecord| {
        row.get(0)
            .is_some_and(|field| field.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut header = Header::of(&first, path);
    let mut row = Some(first);
    if header.is_none() && row.as_ref().is_some_and(is_data) {
        header = separate_header(path);
    } else {
        row = next(file)?;
    }
    let Some(mut header) = header else {
        return Err(HostMetricsError::Line {
            file: file.name.to_owned(),
            line: 1,
            why: "it has neither the columns time, host, metric and value nor those of LDMS (Time and ProducerName)".to_owned(),
        });
    };
    while let Some(current) = row {
        // LDMS writes the header again when its daemon restarts.
        if current
            .get(0)
            .is_some_and(|field| field.starts_with(['#', 't', 'T']))
            && let Some(again) = Header::of(&current, path)
        {
            header = again;
            row = next(file)?;
            continue;
        }
        let after = next(file)?;
        let line = current.position().map_or(file.line, csv::Position::line);
        match each(&header, &current) {
            Ok(()) => {}
            // A running daemon may have written only a part of the last line.
            Err(_) if after.is_none() && current.len() < header.columns.len() => return Ok(()),
            Err(why) => {
                return Err(HostMetricsError::Line {
                    file: file.name.to_owned(),
                    line,
                    why,
                });
            }
        }
        row = after;
    }
    Ok(())
}

/// What the columns of a file mean.
pub(crate) struct Header {
    pub(crate) columns: Vec<Column>,
    /// Indices of the time and the host.
    time: usize,
    host: usize,
    /// Indices of the metric and the value. `None` for LDMS.
    one: Option<(usize, usize)>,
    is_counter: bool,
}

/// A column of an LDMS file: its metric and its device.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) device: Option<String>,
}

impl Header {
    fn of(row: &csv::StringRecord, path: &Path) -> Option<Self> {
        let names: Vec<&str> = row
            .iter()
            .map(|name| name.trim_start_matches('#').trim_matches('"'))
            .collect();
        let place = |wanted: &str| names.iter().position(|name| *name == wanted);
        let is_counter = path.components().rev().take(2).any(|part| {
            let part = part.as_os_str().to_string_lossy();
            COUNTERS.iter().any(|sampler| part.starts_with(sampler))
        });
        // In a list of LDMS, such as that of procnetdev2, the list name is the prefix of each
        // column.
        let list = names
            .iter()
            .find_map(|name| name.strip_suffix("_entry_idx"))
            .map(|list| format!("{list}_"));
        let column = |name: &&str| {
            let name = list
                .as_ref()
                .and_then(|list| name.strip_prefix(list.as_str()))
                .unwrap_or(name);
            match name.split_once('#') {
                Some((name, device)) => Column {
                    name: name.to_owned(),
                    device: Some(device.to_owned()),
                },
                None => Column {
                    name: name.to_owned(),
                    device: None,
                },
            }
        };
        let columns: Vec<Column> = names.iter().map(column).collect();
        if let (Some(time), Some(host)) = (
            place("Time").or_else(|| place("Time_msec")),
            // LDMS 2 and 3 have a number instead of a name.
            place("ProducerName").or_else(|| place("CompId")),
        ) {
            return Some(Self {
                columns,
                time,
                host,
                one: None,
                is_counter,
            });
        }
        let (time, host, one) = (
            place("time")?,
            place("host")?,
            (place("metric")?, place("value")?),
        );
        Some(Self {
            columns,
            time,
            host,
            one: Some(one),
            is_counter: false,
        })
    }

    /// Returns a column of a row.
    fn get<'r>(&self, row: &'r csv::StringRecord, index: usize) -> Result<&'r str, String> {
        row.get(index).ok_or_else(|| {
            let (found, wanted) = (row.len(), self.columns.len());
            format!("it has {found} columns instead of {wanted}")
        })
    }

    /// Returns the time and the host of a complete row.
    pub(crate) fn time_and_host<'r>(
        &self,
        row: &'r csv::StringRecord,
    ) -> Result<(u64, &'r str), String> {
        self.get(row, self.columns.len() - 1)?;
        Ok((time(self.get(row, self.time)?)?, self.get(row, self.host)?))
    }

    fn row(&self, row: &csv::StringRecord, sink: &mut Sink<'_>) -> Result<(), String> {
        let get = |index: usize| self.get(row, index);
        let (ts, host) = self.time_and_host(row)?;
        let is_other = |index: usize| index != self.time && index != self.host;
        if let Some((metric, value)) = self.one {
            let metric = get(metric)?;
            let value = get(value)?;
            let number = value
                .parse()
                .map_err(|_| format!("the value `{value}` is not a number"))?;
            let places = [self.one.map(|one| one.0), self.one.map(|one| one.1)];
            let labels = self
                .columns
                .iter()
                .enumerate()
                .filter(|(index, _)| is_other(*index) && !places.contains(&Some(*index)));
            let labels = labels.filter_map(|(index, column)| {
                Some((column.name.clone(), row.get(index)?.to_owned()))
            });
            sink.add(
                host,
                metric,
                labels.filter(|(_, value)| !value.is_empty()).collect(),
                Kind::of(metric),
                (ts, number),
            );
            return Ok(());
        }
        let fields = || {
            self.columns
                .iter()
                .enumerate()
                .filter(|(index, column)| is_other(*index) && !NOT_METRICS.contains(&&*column.name))
        };
        let label = |(index, column): (usize, &Column)| {
            let text = row
                .get(index)
                .filter(|text| text.parse::<f64>().is_err() && !text.is_empty())?;
            // Each entry of a list has a name, which is that of its device.
            Some((
                if column.name == "name" {
                    "device".to_owned()
                } else {
                    column.name.clone()
                },
                text.to_owned(),
            ))
        };
        let labels: Vec<(String, String)> = fields().filter_map(label).collect();
        for (index, column) in fields() {
            let Some(number) = row.get(index).and_then(|text| text.parse().ok()) else {
                continue;
            };
            let device = column
                .device
                .iter()
                .map(|device| ("device".to_owned(), device.clone()));
            let kind = if self.is_counter {
                Kind::Counter
            } else {
                Kind::of(&column.name)
            };
            sink.add(
                host,
                &column.name,
                labels.iter().cloned().chain(device).collect(),
                kind,
                (ts, number),
            );
        }
        Ok(())
    }
}

/// Reads the columns of an LDMS file from its header file: `procnetdev.HEADER` for `procnetdev`,
/// `procnetdev.HEADER.1700000000` for `procnetdev.1700000000`.
fn separate_header(path: &Path) -> Option<Header> {
    let name = path.file_name()?.to_str()?;
    let beside = |name: String| -> PathBuf { path.with_file_name(name) };
    let rolled = name
        .rsplit_once('.')
        .map(|(name, at)| beside(format!("{name}.HEADER.{at}")));
    let text = rolled
        .into_iter()
        .chain([beside(format!("{name}.HEADER"))])
        .find_map(|path| fs::read_to_string(path).ok())?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_bytes());
    Header::of(&reader.records().next()?.ok()?, path)
}
