use super::*;

const NOON: u64 = 1_795_262_400_000_000_000;

fn found(text: &str, id: &str) -> Result<JobRun, SourceError> {
    find(text, "jobs", id, &Zone::utc())
}

fn run(id: &str, nodes: &str, to: Option<u64>, state: &str) -> JobRun {
    JobRun {
        state: state.to_owned(),
        ..JobRun::new(id, nodes, Some(NOON), to).unwrap()
    }
}

/// Returns recorded output of a resource manager.
fn recorded(name: &str) -> String {
    std::fs::read_to_string(format!(
        "{}/../tests/data/jobs/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

#[test]
fn jobs_are_found_in_the_text_of_slurm() {
    let whole = run("7", "n[1-2,7]", Some(NOON + 60_000_000_000), "completed");
    let running = run("7", "n[1-2,7]", None, "");
    let sacct = "JobID|State|Start|End|NodeList\n6|COMPLETED|Unknown|Unknown|n9\n\
                 7|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-2,7]\n";
    assert_eq!(found(sacct, "7"), Ok(whole.clone()));
    let bare = "70|u|R|x|y|z\n7|u|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-2,7]\n";
    assert_eq!(
        found(bare, "7"),
        Ok(JobRun {
            user: Some("u".to_owned()),
            ..whole
        })
    );
    let squeue = "7|u|RUNNING|n[1-2,7]|2026-11-21T12:00:00\n";
    assert_eq!(
        found(squeue, "7"),
        Ok(JobRun {
            user: Some("u".to_owned()),
            state: "running".to_owned(),
            ..running.clone()
        })
    );
    let padded = "JobID      Start               End      NodeList\n------ ------- ----- ----\n7   2026-11-21T12:00:00  Unknown  n[1-2,7]\n";
    assert_eq!(found(padded, "7"), Ok(running));
}

#[test]
fn malformed_job_is_reported_with_its_place() {
    let missing = |tasks| {
        Err(SourceError::NoJob {
            name: "jobs".to_owned(),
            id: "7".to_owned(),
            tasks,
        })
    };
    assert_eq!(found("", "7"), missing(0));
    assert_eq!(found("JobID|NodeList\n7_1|n1\n7_2|n2\n", "7"), missing(2));
    for (text, place, what) in [
        (
            "JobID|NodeList\n7|n[1-2+\n",
            "jobs:2",
            "the list of nodes is truncated",
        ),
        (
            "JobID|NodeList\n7|n[1-\n",
            "jobs:2",
            "the list of nodes is malformed",
        ),
        (
            "JobID|NodeList\n7|None assigned\n",
            "job 7 of jobs",
            "the job has no nodes yet",
        ),
        (
            "JobID|NodeList|Start\n7|n1|yesterday\n",
            "jobs:2",
            "expected a time such as 2026-11-21T12:00:00",
        ),
        (
            "JobID|NodeList\n7\n",
            "jobs:2",
            "the list of nodes is missing",
        ),
        (
            "\n7|x\n",
            "jobs:2",
            "expected 5 or 6 columns, or their names in the first line",
        ),
        (
            "job,nodes,start\n7,n1,12:00:00\n",
            "jobs:2",
            "expected seconds since 1970 or a time such as 2026-11-21T12:00:00Z",
        ),
        (
            "{\"jobs\":[{\"job_id\":7,\"nodes\":\"n[1-\"}]}",
            "job 7 of jobs",
            "the list of nodes is malformed",
        ),
        (
            "{\"Jobs\":{\"7.s\":{\"stime\":\"noon\"}}}",
            "job 7 of jobs",
            "expected a time such as `Sat Nov 21 12:00:00 2026`",
        ),
    ] {
        let Err(SourceError::Malformed {
            place: at,
            what: found,
            ..
        }) = found(text, "7")
        else {
            panic!("{text}")
        };
        assert_eq!((&*at, found), (place, what));
    }
    for text in ["{\"x\":1}", "{\"job\":1}", "{\"job\":\"1\"}\n{", "{"] {
        assert!(
            matches!(found(text, "7"), Err(SourceError::Text { .. })),
            "{text}"
        );
    }
}

#[test]
fn all_jobs_with_nodes_and_a_start_are_found() {
    let text = "JobID|State|Start|End|NodeList\n\
                6|PENDING|Unknown|Unknown|None assigned\n\
                7|CANCELLED by 1000|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-2,7]\n\
                7.batch|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n1\n\
                8_1|RUNNING|2026-11-21T12:00:00|Unknown|n3\n";
    let jobs = all(text, "jobs", &Zone::utc()).unwrap();
    assert_eq!(
        jobs,
        [
            run("7", "n[1-2,7]", Some(NOON + 60_000_000_000), "cancelled"),
            run("8_1", "n3", None, "running")
        ]
    );
    assert_eq!(
        all("JobID|NodeList\n", "jobs", &Zone::utc()),
        Err(SourceError::NoJobs {
            name: "jobs".to_owned()
        })
    );
    assert!(matches!(
        all("7|n1\n", "jobs", &Zone::utc()),
        Err(SourceError::Malformed { .. })
    ));
}

/// ID, nodes, start and end in seconds, and state of a run.
type Summary = (String, String, Option<u64>, Option<u64>, String);

fn summary(runs: &[JobRun]) -> Vec<Summary> {
    let seconds = |ns: Option<u64>| ns.map(|ns| ns / 1_000_000_000);
    let mut all: Vec<_> = runs
        .iter()
        .map(|run| {
            (
                run.id.clone(),
                run.nodes.clone(),
                seconds(run.from),
                seconds(run.to),
                run.state.clone(),
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn text_and_json_of_the_real_slurm_agree() {
    let utc = Zone::utc();
    let read = |name: &str| all(&recorded(name), name, &utc).unwrap();
    let (stored, present) = (
        read("slurm-22.05-sacct.json"),
        read("slurm-22.05-squeue.json"),
    );
    assert_eq!(summary(&read("slurm-22.05-sacct.txt")), summary(&stored));
    let delimited = |name: &str| {
        let found = slurm_text::entries(&recorded(name), "~7d0e~", &utc);
        runs(found, name).unwrap()
    };
    assert_eq!(
        summary(&delimited("slurm-22.05-sacct-delimiter.txt")),
        summary(&stored)
    );
    assert_eq!(
        summary(&delimited("slurm-22.05-squeue-delimiter.txt")),
        summary(&present)
    );
    // The database is a little behind the controller: it does not have the task that just started.
    let missing: Vec<_> = summary(&present)
        .into_iter()
        .filter(|run| !summary(&stored).contains(run))
        .collect();
    assert_eq!(
        missing.iter().map(|run| &*run.0).collect::<Vec<_>>(),
        ["10_1"]
    );
    let third = stored.iter().find(|run| run.id == "3").unwrap();
    assert_eq!(
        (third.name.as_deref(), third.user.as_deref(), &*third.state),
        (Some("short"), Some("root"), "timeout")
    );
    // squeue has an expected end of this running job, which is not its end.
    let running = present.iter().find(|run| run.id == "10_2").unwrap();
    assert_eq!((running.to, &*running.state), (None, "running"));
}

#[test]
fn forms_of_all_versions_of_slurm_are_read_alike() {
    let expected = [
        (
            "4711".to_owned(),
            "node[001-024]".to_owned(),
            Some(1_795_262_400),
            Some(1_795_264_200),
            "completed".to_owned(),
        ),
        (
            "4712_3".to_owned(),
            "node[025-026]".to_owned(),
            Some(1_795_262_460),
            None,
            "running".to_owned(),
        ),
    ];
    for version in ["21.08", "23.02", "23.11", "24.05"] {
        for tool in ["sacct", "squeue"] {
            let name = format!("slurm-{version}-{tool}.documented.json");
            assert_eq!(
                summary(&all(&recorded(&name), &name, &Zone::utc()).unwrap()),
                expected,
                "{name}"
            );
        }
    }
}

#[test]
fn job_name_with_a_line_feed_is_not_another_job() {
    let text = "JobID~x~State~x~Start~x~End~x~NodeList~x~JobName\n7~x~RUNNING~x~1795262400~x~Unknown~x~n1~x~a\n8|RUNNING|1795262400|Unknown|n2|b\n";
    let found = runs(slurm_text::entries(text, "~x~", &Zone::utc()), "jobs").unwrap();
    assert_eq!(found.iter().map(|run| &*run.id).collect::<Vec<_>>(), ["7"]);
}

#[test]
fn jobs_are_found_in_the_json_of_pbs() {
    let text = r#"{"timestamp":1795264200,"pbs_version":"23.06.06","pbs_server":"s","Jobs":{
        "7.s":{"Job_Name":"cfd","Job_Owner":"user01@login1","job_state":"F","exec_host":"n1/0*32+n2/0*16+n2/1*16",
               "stime":"Sat Nov 21 12:00:00 2026","resources_used":{"walltime":"00:01:00"}},
        "8[1].s":{"Job_Owner":"ben@login1","job_state":"R","exec_host":"n3/0","stime":"Sat Nov 21 12:00:00 2026"},
        "9.s":{"job_state":"Q"}}}"#;
    let user = |run: JobRun, name: Option<&str>, user: &str| JobRun {
        name: name.map(str::to_owned),
        user: Some(user.to_owned()),
        ..run
    };
    let expected = [
        user(
            run("7", "n1,n2", Some(NOON + 60_000_000_000), "finished"),
            Some("cfd"),
            "user01",
        ),
        user(run("8[1]", "n3", None, "running"), None, "ben"),
    ];
    assert_eq!(all(text, "jobs", &Zone::utc()).unwrap(), expected);
}

#[test]
fn jobs_are_found_in_csv_and_in_a_job_table() {
    let csv = "job,user,nodes,start,end,state\n7,,\"n[1-2],n7\",1795262400,2026-11-21T12:01:00Z,completed\n8,u,n3,2026-11-21 12:00:00,,running\n";
    let expected = [
        run("7", "n[1-2],n7", Some(NOON + 60_000_000_000), "completed"),
        JobRun {
            user: Some("u".to_owned()),
            ..run("8", "n3", None, "running")
        },
    ];
    assert_eq!(all(csv, "jobs", &Zone::utc()).unwrap(), expected);
    let (table, _) = JobTable::default().update(&super::super::table::Listing {
        runs: expected.to_vec(),
        at: NOON,
        is_complete: true,
    });
    assert_eq!(all(&table, "jobs", &Zone::utc()).unwrap(), expected);
}
