//! Runs `ibnet-view jobs` and `ibnet-view job` with commands that print recorded output of Slurm.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// Writes a shell script into a folder.
fn script(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a command that prints recorded output with the separator that its arguments request.
fn recorded(folder: &Path, name: &str, file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data/jobs")
        .join(file);
    // The separator is between the first two tildes of the arguments.
    let text = format!(
        "separator=$(echo \"$*\" | cut -d'~' -f2)\nsed \"s/~7d0e~/~$separator~/g\" '{}'",
        file.display()
    );
    script(folder, name, &text);
}

fn view(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ibnet-view"));
    command
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("TZ", "UTC")
        .current_dir(folder)
        .args(args);
    command
}

const FROM: &str = "1795340000";

fn rows(command: &mut Command) -> Vec<Value> {
    let document: Value =
        serde_json::from_slice(&command.assert().success().get_output().stdout).unwrap();
    document["rows"].as_array().unwrap().clone()
}

#[test]
fn jobs_of_both_commands_are_listed_once() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path(), "sacct", "slurm-22.05-sacct-delimiter.txt");
    recorded(folder.path(), "squeue", "slurm-22.05-squeue-delimiter.txt");
    let rows = rows(&mut view(
        folder.path(),
        &["jobs", "--from", FROM, "--format", "json", "--hide-users"],
    ));
    let mut ids: Vec<&str> = rows
        .iter()
        .map(|row| row["job"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(
        ids,
        ["1", "10_1", "10_2", "2", "3", "4_1", "4_2", "5", "7", "9"],
        "job 6 has not started"
    );
    assert!(rows.iter().all(|row| row["user"].is_null()));
    let solver = rows.iter().find(|row| row["job"] == "9").unwrap();
    assert_eq!(
        (&solver["name"], &solver["nodes"], &solver["end_ns"]),
        (&"solver".into(), &"node[001-004]".into(), &Value::Null)
    );
}

#[test]
fn without_accounting_the_table_still_has_history() {
    let folder = tempfile::tempdir().unwrap();
    script(
        folder.path(),
        "sacct",
        "echo 'Slurm accounting storage is disabled' >&2; exit 1",
    );
    recorded(folder.path(), "squeue", "slurm-22.05-squeue-delimiter.txt");
    let kept = view(
        folder.path(),
        &["jobs", "--keep", "jobs.jsonl", "--from", FROM],
    )
    .assert()
    .success();
    assert_eq!(
        String::from_utf8_lossy(&kept.get_output().stdout),
        "jobs.jsonl: 10 new runs, 0 updated, 10 in all\n"
    );
    // All jobs have left the queue.
    script(
        folder.path(),
        "squeue",
        "echo 'JOBID|STATE|NODELIST|START_TIME'",
    );
    let kept = view(
        folder.path(),
        &["jobs", "--keep", "jobs.jsonl", "--from", FROM],
    )
    .assert()
    .success();
    assert_eq!(
        String::from_utf8_lossy(&kept.get_output().stdout),
        "jobs.jsonl: 0 new runs, 3 updated, 10 in all\n"
    );
    let rows = rows(&mut view(
        folder.path(),
        &["jobs", "--slurm-file", "jobs.jsonl", "--format", "json"],
    ));
    let ended: Vec<&Value> = rows
        .iter()
        .filter(|row| row["end_is_lower_bound"] == true)
        .collect();
    assert_eq!(ended.len(), 3, "{rows:?}");
    assert!(
        ended
            .iter()
            .all(|row| row["state"] == "ended" && row["end_ns"].is_u64())
    );
}

#[test]
fn failure_of_slurm_names_the_command_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    script(
        folder.path(),
        "sacct",
        "echo 'Unable to contact slurmdbd' >&2; exit 1",
    );
    script(
        folder.path(),
        "squeue",
        "echo 'Unable to contact slurm controller' >&2; exit 1",
    );
    let failed = view(folder.path(), &["jobs"]).assert().code(1);
    let text = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    for part in [
        "cannot ask for jobs: `sacct -X",
        "exit status: 1",
        "Unable to contact slurmdbd",
        "--slurm-file",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn job_is_asked_of_both_commands_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lines.jsonl"), "").unwrap();
    let error = || {
        let failed = view(folder.path(), &["job", "lines.jsonl", "--slurm", "9"])
            .assert()
            .failure();
        String::from_utf8_lossy(&failed.get_output().stderr).into_owned()
    };
    // sacct ends after squeue has started.
    script(
        folder.path(),
        "sacct",
        "until [ -e started ]; do sleep 0.01; done; echo 'Unable to contact slurmdbd' >&2; exit 1",
    );
    recorded(folder.path(), "queued", "slurm-22.05-squeue-delimiter.txt");
    script(
        folder.path(),
        "squeue",
        "touch started; exec ./queued \"$@\"",
    );
    let text = error();
    assert!(!text.contains("cannot ask for jobs"), "{text}");
    // An answer of sacct is enough.
    recorded(folder.path(), "sacct", "slurm-22.05-sacct-delimiter.txt");
    script(folder.path(), "squeue", "exec sleep 600");
    let text = error();
    assert!(!text.contains("cannot ask for jobs"), "{text}");
}

#[test]
fn other_jobs_have_their_own_time_after_a_command_that_hangs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lines.jsonl"), "").unwrap();
    recorded(folder.path(), "squeue", "slurm-22.05-squeue-delimiter.txt");
    recorded(
        folder.path(),
        "accounting",
        "slurm-22.05-sacct-delimiter.txt",
    );
    // The question for one job takes all of its 30 s.
    script(
        folder.path(),
        "sacct",
        "case \" $* \" in *' -j '*) exec sleep 600;; esac; exec ./accounting \"$@\"",
    );
    let failed = view(folder.path(), &["job", "lines.jsonl", "--slurm", "9"])
        .assert()
        .failure();
    let text = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(!text.contains("cannot ask for jobs"), "{text}");
}
