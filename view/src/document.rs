//! Results for programs: rows as one JSON document or as CSV. Both escape characters that a
//! terminal would interpret.
//!
//! A JSON document is `{"from_ns", "to_ns", "rows"}`. Each row has a line of its own, so that
//! line-based tools can filter rows.
//!
//! CSV has a header and these rules:
//! - The first two columns of each line are `from_ns` and `to_ns`.
//! - A field of a nested object has the column `OUTER_INNER`. A list of plain values is one cell
//!   with `;` between the values.
//! - A list of objects gives one line for each object, on which the other cells of the row are
//!   repeated. An empty list gives one line with empty cells.
//! - An unknown value is an empty cell.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ibnet_analysis::rows::Row;
use ibnet_record::text;
use ibnet_record::types::Printable;
use serde_json::Value;

/// Returns rows as one JSON document. `span` is the time range in nanoseconds since 1970.
///
/// # Errors
/// Returns an error if a row has no JSON form.
pub fn to_json<R: Row>((from, to): (u64, u64), rows: &[R]) -> io::Result<Vec<u8>> {
    let mut json = Vec::new();
    write!(json, "{{\"from_ns\":{from},\"to_ns\":{to},\"rows\":[")?;
    for (index, row) in rows.iter().enumerate() {
        json.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
        row.serialize(&mut text::compact(&mut json))?;
    }
    json.extend_from_slice(if rows.is_empty() { b"]}\n" } else { b"\n]}\n" });
    Ok(json)
}

/// Returns rows as CSV with a header. `span` is the time range in nanoseconds since 1970.
///
/// # Errors
/// Returns an error if a row has no JSON form.
pub fn to_csv<R: Row>((from, to): (u64, u64), rows: &[R]) -> io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(["from_ns", "to_ns"].iter().chain(R::COLUMNS))?;
    let span = [from.to_string(), to.to_string()];
    for row in rows {
        for line in lines(&serde_json::to_value(row)?, R::COLUMNS) {
            let cells = R::COLUMNS
                .iter()
                .map(|column| line.get(*column).map_or("", String::as_str));
            csv.write_record(span.iter().map(String::as_str).chain(cells))?;
        }
    }
    csv.into_inner().map_err(|error| error.into_error())
}

/// The cells of a line by their columns.
type Line = BTreeMap<String, String>;

/// Returns the lines of a row: one for each element of its list of objects, or a single one without
/// such a list.
fn lines(row: &Value, columns: &[&str]) -> Vec<Line> {
    let mut line = Line::new();
    let mut list = None;
    add(&mut line, &mut list, String::new(), row, columns);
    let Some((name, elements)) = list.filter(|(_, elements)| !elements.is_empty()) else {
        return vec![line];
    };
    let with_element = |element: &Value| {
        let mut line = line.clone();
        add(&mut line, &mut None, name.clone(), element, columns);
        line
    };
    elements.iter().map(with_element).collect()
}

/// Adds the cells of a value. If the value contains a list of objects that has columns, stores the
/// list in `list`.
fn add<'a>(
    line: &mut Line,
    list: &mut Option<(String, &'a [Value])>,
    name: String,
    value: &'a Value,
    columns: &[&str],
) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() {
                    field.clone()
                } else {
                    format!("{name}_{field}")
                };
                add(line, list, name, value, columns);
            }
        }
        Value::Array(elements) if !columns.contains(&&*name) => {
            let prefix = format!("{name}_");
            if columns.iter().any(|column| column.starts_with(&prefix)) {
                *list = Some((name, elements));
            }
        }
        Value::Array(elements) => {
            line.insert(
                name,
                elements.iter().map(cell).collect::<Vec<_>>().join(";"),
            );
        }
        _ => {
            line.insert(name, cell(value));
        }
    }
}

fn cell(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), |text| Printable(text).to_string())
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    struct Sample {
        name: &'static str,
        at: Option<Point>,
        modes_ns: Vec<u64>,
        share: Option<f64>,
        points: Vec<Point>,
        /// This list has no columns.
        steps: Vec<Point>,
    }

    #[derive(Clone, Serialize)]
    struct Point {
        x: i32,
        is_end: bool,
    }

    impl Row for Sample {
        const COLUMNS: &'static [&'static str] = &[
            "name",
            "at_x",
            "at_is_end",
            "modes_ns",
            "share",
            "points_x",
            "points_is_end",
        ];
    }

    fn rows() -> [Sample; 2] {
        let (one, two) = (
            Point {
                x: -1,
                is_end: false,
            },
            Point { x: 2, is_end: true },
        );
        [
            Sample {
                name: "a,\"b\"\u{1b}\n",
                at: Some(one.clone()),
                modes_ns: vec![65_000, 150_000],
                share: Some(0.1),
                points: vec![one.clone(), two],
                steps: vec![one],
            },
            Sample {
                name: "",
                at: None,
                modes_ns: Vec::new(),
                share: Some(f64::NAN),
                points: Vec::new(),
                steps: Vec::new(),
            },
        ]
    }

    #[test]
    fn json_has_the_time_range_and_one_row_per_line() {
        let json = String::from_utf8(to_json((1, u64::MAX), &rows()).unwrap()).unwrap();
        let parsed: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&parsed["from_ns"], &parsed["to_ns"]),
            (&1.into(), &u64::MAX.into())
        );
        assert_eq!(
            (&parsed["rows"][0]["name"], &parsed["rows"][1]["share"]),
            (&"a,\"b\"\u{1b}\n".into(), &Value::Null)
        );
        assert_eq!(json.lines().count(), 4, "{json}");
        assert_eq!(
            to_json((1, 2), &[] as &[Sample]).unwrap(),
            b"{\"from_ns\":1,\"to_ns\":2,\"rows\":[]}\n"
        );
    }

    #[test]
    fn csv_has_one_line_for_each_element_of_a_list() {
        let csv = to_csv((1, 2), &rows()).unwrap();
        let mut reader = csv::Reader::from_reader(&csv[..]);
        let header: Vec<String> = reader
            .headers()
            .unwrap()
            .iter()
            .map(str::to_owned)
            .collect();
        assert_eq!(header[..3], ["from_ns", "to_ns", "name"]);
        assert_eq!(header[2..], *Sample::COLUMNS);
        let lines: Vec<Vec<String>> = reader
            .records()
            .map(|line| line.unwrap().iter().map(str::to_owned).collect())
            .collect();
        let first = [
            "1",
            "2",
            "a,\"b\"\\u{1b}\\u{a}",
            "-1",
            "false",
            "65000;150000",
            "0.1",
        ];
        assert_eq!(lines[0], [&first[..], &["-1", "false"]].concat());
        assert_eq!(lines[1], [&first[..], &["2", "true"]].concat());
        assert_eq!(lines[2], ["1", "2", "", "", "", "", "", "", ""]);
        assert_eq!(lines.len(), 3);
    }

    #[derive(Serialize)]
    struct Named {
        name: String,
    }

    impl Row for Named {
        const COLUMNS: &'static [&'static str] = &["name"];
    }

    #[test]
    fn every_character_is_read_back_and_visible() {
        let characters: Vec<char> = ('\0'..=char::MAX).collect();
        let rows: Vec<Named> = characters
            .chunks(256)
            .map(|of| Named {
                name: String::from_iter(of),
            })
            .collect();
        let hidden = |text: &str| {
            text.chars()
                .any(|c| c != '\n' && ibnet_record::types::misleads(c))
        };

        let json = String::from_utf8(to_json((1, 2), &rows).unwrap()).unwrap();
        assert!(!hidden(&json));
        assert_eq!(json.lines().count(), rows.len() + 2);
        let parsed: Value = serde_json::from_str(&json).unwrap();
        let names = parsed["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["name"].as_str().unwrap());
        assert!(names.eq(rows.iter().map(|row| row.name.as_str())));

        let csv = String::from_utf8(to_csv((1, 2), &rows).unwrap()).unwrap();
        assert!(!hidden(&csv));
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let names: Vec<String> = reader
            .records()
            .map(|line| line.unwrap()[2].to_owned())
            .collect();
        assert!(
            names.iter().eq(rows
                .iter()
                .map(|row| Printable(&row.name).to_string())
                .collect::<Vec<_>>()
                .iter())
        );
    }

    #[test]
    fn csv_without_rows_has_its_header() {
        let csv = to_csv((1, 2), &[] as &[Sample]).unwrap();
        assert_eq!(
            csv,
            b"from_ns,to_ns,name,at_x,at_is_end,modes_ns,share,points_x,points_is_end\n"
        );
    }
}
