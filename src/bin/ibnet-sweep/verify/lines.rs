//! Formats the results of devices and bursts.

use std::collections::BTreeMap;
use std::time::Duration;

use ibnet::verify::compare::{Difference, Fault, Values};
use ibnet::verify::device::{DeviceResult, Lacking, Outcome};
use ibnet::verify::timing::Times;

/// Max number of differences of a device that are printed. Further ones are only counted.
const MAX_SHOWN: usize = 5;

/// Describes a device without differences.
pub(super) fn equal(result: &DeviceResult) -> String {
    let (attributes, values) = result.compared();
    let mut text = format!("{values} values of {attributes} attributes are equal");
    let mut lacking: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, how) in result.lacking() {
        let how = match how {
            Lacking::Refused => "refused",
            Lacking::Silent => "not answered",
            Lacking::Answered => "answered although its masks lack them",
        };
        lacking.entry(how).or_default().push(name);
    }
    for (how, groups) in lacking {
        text.push_str(&format!(
            "; {} {how}: {}",
            if groups.len() == 1 { "group" } else { "groups" },
            groups.join(" ")
        ));
    }
    let unanswered: Vec<&str> = result
        .attributes
        .iter()
        .filter(|attribute| matches!(attribute.outcome, Outcome::Unanswered(..)))
        .map(|a| a.name)
        .collect();
    if !unanswered.is_empty() {
        text.push_str(&format!(
            "; without an answer on both paths: {}",
            unanswered.join(" ")
        ));
    }
    if let Some(lid) = result.redirected_to {
        text.push_str(&format!("; both paths were redirected to LID {lid}"));
    }
    text
}

/// Describes each difference of a device. `reader` is the name of the second reader.
pub(super) fn differences(result: &DeviceResult, reader: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for attribute in &result.attributes {
        let name = attribute.name;
        match &attribute.outcome {
            Outcome::Compared(comparison) => {
                texts.extend(
                    comparison
                        .differences
                        .iter()
                        .map(|difference| format!("{name}: {}", one(difference, reader))),
                );
            }
            Outcome::OnlyOurs(reason) => texts.push(format!(
                "{name}: ibnet was answered, {reader} was not: {reason}"
            )),
            Outcome::OnlyTheirs(reason) => texts.push(format!(
                "{name}: {reader} was answered, ibnet was not: {reason}"
            )),
            Outcome::Unanswered(..) | Outcome::Lacking(_) => {}
        }
    }
    if let Some((ours, theirs)) = &result.other_agent {
        texts.push(format!(
            "redirection: ibnet was answered by LID {} (queue pair {}, SL {}), {reader} by LID {} (queue pair {}, SL {})",
            ours.lid, ours.qp, ours.sl, theirs.lid, theirs.qp, theirs.sl
        ));
    }
    let more = texts.len().saturating_sub(MAX_SHOWN);
    texts.truncate(MAX_SHOWN);
    if more > 0 {
        texts.push(format!("{more} more differences"));
    }
    texts
}

fn one(difference: &Difference, reader: &str) -> String {
    let Difference {
        field,
        index,
        values:
            Values {
                before,
                theirs,
                theirs_by_us,
                after,
            },
        fault,
    } = difference;
    let name = if field.len > 1 {
        format!("{}[{index}]", field.name)
    } else {
        field.name.to_owned()
    };
    match fault {
        Fault::Decoding => format!(
            "{name}: libibmad decodes {theirs}, ibnet decodes {theirs_by_us} from the same bytes"
        ),
        Fault::NotBetween => {
            format!("{name}: {reader} read {theirs}, not between {before} and {after} of ibnet")
        }
        Fault::Changed => {
            format!("{name}: ibnet read {before}, {reader} {theirs}, ibnet again {after}")
        }
    }
}

/// Describes the service times in a burst to a device.
pub(super) fn times(times: &Times) -> String {
    let (Some(first), Some(median), Some(last)) =
        (times.replies.first(), times.median(), times.replies.last())
    else {
        return "no reply".to_owned();
    };
    let lost = times.timeouts.len() + times.lost as usize;
    let lost = if lost == 0 {
        String::new()
    } else {
        format!(", {lost} without a reply")
    };
    format!(
        "{} to {} us, median {} us{lost}",
        micros(*first),
        micros(*last),
        micros(median)
    )
}

/// Returns microseconds with one decimal.
fn micros(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e6)
}

/// Returns milliseconds with one decimal.
pub(super) fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
