//! The result of a comparison as text, JSON and CSV.

use std::fmt;

use ibnet_record::count::count;
use ibnet_record::text;
use ibnet_record::types::Printable;
use serde::Serialize;

use crate::topology::system;

use super::compare::{Action, Comparison, End, Finding, Kind, NotFound, Step};

/// Version of the JSON schema.
const SCHEMA: u32 = 1;

/// The text of a comparison, with lines of 80 columns unless names are long.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The comparison.
    pub comparison: &'a Comparison,
    /// Names of the planned files.
    pub plan: &'a str,
    /// Names of the net files.
    pub fabric: &'a str,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison {
            planned,
            right,
            beyond,
            replaced,
            findings,
            steps,
            not_found,
            remarks,
        } = self.comparison;
        writeln!(
            f,
            "planned   {} in {}",
            count(*planned, "cable"),
            Printable(self.plan)
        )?;
        writeln!(f, "right     {right} in {}", Printable(self.fabric))?;
        let kinds = Kind::ALL.map(|kind| {
            (
                kind,
                findings
                    .iter()
                    .filter(|finding| finding.kind == kind)
                    .count(),
            )
        });
        let kinds: Vec<_> = kinds
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| format!("{count} {}", kind.as_str()))
            .collect();
        match kinds.len() {
            0 => writeln!(f, "wrong     0")?,
            _ => writeln!(f, "wrong     {}: {}", findings.len(), kinds.join(", "))?,
        }
        if *beyond > 0 {
            writeln!(
                f,
                "beyond    {} at devices that the plan does not name",
                count(*beyond, "cable")
            )?;
        }
        if *replaced > 0 {
            writeln!(
                f,
                "replaced  {} found by name: the GUID is not the planned one",
                count(*replaced, "device")
            )?;
        }
        if !not_found.is_empty() {
            writeln!(
                f,
                "not found {} of the plan",
                count(not_found.len(), "device")
            )?;
            for NotFound {
                name,
                line,
                similar,
                ..
            } in not_found
            {
                write!(f, "          `{}` ({})", Printable(name), Printable(line))?;
                match similar {
                    Some(similar) => writeln!(f, ": did you mean `{}`?", Printable(similar))?,
                    None => writeln!(f)?,
                }
            }
        }
        if !remarks.is_empty() {
            writeln!(f, "remarks   {}", remarks.len())?;
            for remark in remarks {
                writeln!(f, "          {}", Printable(remark))?;
            }
        }
        let mut kind = None;
        for finding in findings {
            if kind.replace(finding.kind) != Some(finding.kind) {
                writeln!(f, "\n{}", finding.kind.as_str())?;
            }
            write_finding(f, finding)?;
        }
        if !steps.is_empty() {
            writeln!(f, "\nsteps     {}; no list is shorter", steps.len())?;
            let exchanged = |step: &&Step| {
                steps
                    .iter()
                    .filter(|other| other.group == step.group)
                    .count()
                    > 1
            };
            if steps
                .iter()
                .filter(|step| step.action == Action::Move)
                .any(|step| exchanged(&step))
            {
                writeln!(
                    f,
                    "          unplug all ends of a group before you plug in the first"
                )?;
            }
        }
        let mut group = 0;
        for (number, step) in (1..).zip(steps) {
            if step.group != group {
                group = step.group;
                writeln!(f, "group {group}")?;
            }
            write_step(f, number, step)?;
        }
        Ok(())
    }
}

/// An end of a cable as text: the name and the port. A managed switch has its system name, which is
/// also on its label.
struct Shown<'a>(&'a End);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let End { name, port, .. } = self.0;
        match system(name) {
            Some((system, 0, 1)) => write!(f, "{} port {port}", Printable(system)),
            Some((system, board, asic)) => {
                write!(f, "{} L{board:02}/U{asic} port {port}", Printable(system))
            }
            None => write!(f, "{} port {port}", Printable(name)),
        }
    }
}

fn write_finding(f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
    let Finding {
        planned,
        found,
        label,
        values,
        kind,
        ..
    } = finding;
    let of = |[one, two]: &[End; 2]| format!("{} - {}", Shown(one), Shown(two));
    let label = label.as_ref().map_or_else(String::new, |label| {
        format!(" (label {})", Printable(label))
    });
    match (planned, found) {
        (Some(planned), _) if *kind == Kind::Missing => writeln!(f, "  {}{label}", of(planned)),
        (Some(planned), _) if values.is_some() => {
            let [wanted, is] = values
                .as_ref()
                .map_or(["", ""], |[wanted, is]| [wanted, is]);
            writeln!(f, "  {}{label}", of(planned))?;
            writeln!(f, "    planned {}, is {}", Printable(wanted), Printable(is))
        }
        (Some(planned), Some(found)) => {
            // The end that is right is not repeated.
            let fixed = usize::from(found.contains(&planned[1]));
            let is = found
                .iter()
                .find(|end| **end != planned[fixed])
                .unwrap_or(&found[0]);
            writeln!(
                f,
                "  {} - {}{label}",
                Shown(&planned[fixed]),
                Shown(&planned[1 - fixed])
            )?;
            writeln!(f, "    is in {}", Shown(is))
        }
        (_, Some(found)) => writeln!(f, "  {}", of(found)),
        _ => Ok(()),
    }
}

fn write_step(f: &mut fmt::Formatter<'_>, number: usize, step: &Step) -> fmt::Result {
    let Step {
        action,
        end,
        from,
        to,
        label,
        serial,
        ..
    } = step;
    let shown = |end: &Option<End>| {
        end.as_ref()
            .map_or_else(String::new, |end| Shown(end).to_string())
    };
    match action {
        Action::Move => {
            writeln!(f, "{number:4}  move     {}", shown(from))?;
            write!(
                f,
                "      to       {}\n      cable of {}",
                shown(to),
                Shown(end)
            )?;
        }
        Action::Connect => write!(
            f,
            "{number:4}  connect  {}\n      to       {}",
            Shown(end),
            shown(to)
        )?,
        Action::Remove => write!(
            f,
            "{number:4}  remove   {}\n      from     {}",
            Shown(end),
            shown(from)
        )?,
    }
    if let Some(label) = label {
        write!(f, ", label {}", Printable(label))?;
    }
    if let Some(serial) = serial {
        write!(f, ", serial {}", Printable(serial))?;
    }
    writeln!(f)
}

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'static str,
    command: &'a str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// Formats a comparison as JSON. `command` is the command line.
pub fn to_json(comparison: &Comparison, command: &str) -> String {
    let document = Document {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        command,
        comparison,
    };
    // Serializing numbers, strings and lists does not fail.
    let mut json = text::to_string_pretty(&document).unwrap_or_default();
    json.push('\n');
    json
}

/// Formats the findings and then the steps as CSV, one per line.
pub fn to_csv(comparison: &Comparison) -> String {
    let mut rows = vec![
        [
            "what", "group", "kind", "name_a", "port_a", "guid_a", "name_b", "port_b", "guid_b",
            "is_name", "is_port", "is_guid", "label", "serial", "line", "planned", "found",
        ]
        .map(str::to_owned),
    ];
    let end = |end: Option<&End>| {
        end.map_or_else(Default::default, |end| {
            let guid = end.guid.map_or_else(String::new, |guid| guid.to_string());
            [Printable(&end.name).to_string(), end.port.to_string(), guid]
        })
    };
    let mut push =
        |what: &str, group: usize, kind: &str, ends: [Option<&End>; 3], more: [Option<&str>; 5]| {
            let head = [what.to_owned(), group.to_string(), kind.to_owned()];
            let more = more.map(|text| Printable(text.unwrap_or_default()).to_string());
            let row: Vec<_> = head
                .into_iter()
                .chain(ends.into_iter().flat_map(end))
                .chain(more)
                .collect();
            rows.extend(row.try_into());
        };
    for finding in &comparison.findings {
        let (planned, found) = (finding.planned.as_ref(), finding.found.as_ref());
        let [one, two] = match planned.or(found) {
            Some([one, two]) => [Some(one), Some(two)],
            None => [None, None],
        };
        let is = planned.and_then(|planned| found?.iter().find(|end| !planned.contains(end)));
        let [wanted, value] = finding
            .values
            .as_ref()
            .map_or([None, None], |[wanted, value]| {
                [Some(&**wanted), Some(&**value)]
            });
        let kind = finding.kind.as_str().replace(' ', "_");
        push(
            "finding",
            finding.group,
            &kind,
            [one, two, is],
            [
                finding.label.as_deref(),
                None,
                finding.line.as_deref(),
                wanted,
                value,
            ],
        );
    }
    for step in &comparison.steps {
        let action = match step.action {
            Action::Move => "move",
            Action::Connect => "connect",
            Action::Remove => "remove",
        };
        let ends = [Some(&step.end), step.to.as_ref(), step.from.as_ref()];
        push(
            "step",
            step.group,
            action,
            ends,
            [
                step.label.as_deref(),
                step.serial.as_deref(),
                None,
                None,
                None,
            ],
        );
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        // Writing to a vector does not fail, and all rows have as many fields.
        let _ = writer.write_record(row);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}
