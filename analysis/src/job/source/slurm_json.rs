//! Reads the JSON output of Slurm: `sacct --json` and `squeue --json`.
//!
//! The form of this output depends on the version of Slurm. The fields that this module reads
//! differ as follows (source: recorded output of 22.05, and public reports of other versions):
//!
//! | field | forms |
//! |---|---|
//! | times, task IDs | number (to 22.05); object with `set`, `infinite` and `number` (from 23.02) |
//! | state | text (to 23.02); list of texts (from 23.11) |
//! | nodes | host list; object with `list` |
//!
//! Every form is accepted in every field, so the version does not matter.

use serde_json::Value;

use super::{Entry, Fields};

/// Returns the jobs of the array `jobs`.
pub(super) fn entries(jobs: &[Value]) -> Vec<Entry> {
    jobs.iter().map(entry).collect()
}

fn entry(job: &Value) -> Entry {
    let id = id(job);
    // sacct nests the times and the state; squeue does not.
    let from = number(&job["time"]["start"]).or_else(|| number(&job["start_time"]));
    let to = number(&job["time"]["end"]).or_else(|| number(&job["end_time"]));
    let state = text(&job["state"]["current"]).or_else(|| text(&job["job_state"]));
    let nodes = [
        &job["nodes"],
        &job["nodes"]["list"],
        &job["job_resources"]["nodes"],
        &job["job_resources"]["nodes"]["list"],
    ];
    let fields = Fields {
        id: &id,
        name: job["name"].as_str(),
        user: [&job["user_name"], &job["association"]["user"], &job["user"]]
            .into_iter()
            .find_map(Value::as_str),
        nodes: nodes
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or_default(),
        from: from.and_then(nanos),
        to: to.and_then(nanos),
        state: state.unwrap_or_default(),
    };
    Entry {
        run: fields.run(),
        id: id.clone(),
        line: None,
    }
}

/// Returns the ID in the form of the text output: `ARRAY_TASK` for a task of an array.
fn id(job: &Value) -> String {
    let own = number(&job["job_id"]).map_or_else(String::new, |id| id.to_string());
    let array = number(&job["array_job_id"])
        .or_else(|| number(&job["array"]["job_id"]))
        .filter(|id| *id > 0);
    let task = number(&job["array_task_id"]).or_else(|| number(&job["array"]["task_id"]));
    match (array, task) {
        (Some(array), Some(task)) => format!("{array}_{task}"),
        _ => own,
    }
}

/// Returns a number in either form, or `None` for an object that is not set or infinite.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let is_set =
            value["set"].as_bool().unwrap_or(true) && !value["infinite"].as_bool().unwrap_or(false);
        value["number"].as_u64().filter(|_| is_set)
    })
}

/// Converts seconds to nanoseconds. Slurm writes 0 for an unknown time.
fn nanos(seconds: u64) -> Option<u64> {
    seconds.checked_mul(1_000_000_000).filter(|ns| *ns > 0)
}

/// Returns a string, or the first string of a list.
fn text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value[0].as_str())
}
