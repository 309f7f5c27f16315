//! Reads files of all forms, and checks the values of a few hosts.

use std::fs;
use std::path::Path;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn load_from(
    dir: &Path,
    files: &[(&str, &str)],
    requests: &[&str],
) -> Result<HostMetrics, HostMetricsError> {
    for (name, text) in files {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), text).unwrap();
    }
    let sources: Vec<Source> = files
        .iter()
        .filter(|(name, _)| !name.contains("HEADER"))
        .map(|(name, _)| Source::Files(dir.join(name)))
        .collect();
    let requests: Vec<Request> = if requests.is_empty() {
        Request::defaults()
    } else {
        requests
            .iter()
            .map(|request| request.parse().unwrap())
            .collect()
    };
    let names = HostNames::new(["n1", "n2", "n3"].map(str::to_owned));
    load(
        &sources,
        |_| unreachable!("the sources are files"),
        &requests,
        &names,
        Range {
            from: 1000 * SECOND,
            to: 1010 * SECOND,
        },
    )
}

fn values(metric: &HostMetric) -> Vec<(&str, u64, Option<f64>)> {
    let of = |(host, pieces): &'_ (String, Vec<Piece>)| -> Vec<(u64, Option<f64>)> {
        let _ = host;
        pieces
            .iter()
            .map(|piece| (piece.time.to() / SECOND, piece.value))
            .collect()
    };
    metric
        .series
        .iter()
        .flat_map(|series| {
            of(series)
                .into_iter()
                .map(|(to, value)| (&*series.0, to, value))
        })
        .collect()
}

const LINES: &str = r#"{"time":1000,"host":"n1.example","metric":"node_network_receive_bytes_total","device":"ib0","value":100}
{"time":"1970-01-01T00:16:41Z","host":"n1.example","metric":"node_network_receive_bytes_total","device":"ib0","value":300}
{"time":1001.0,"host":"n1.example","metric":"node_network_receive_bytes_total","device":"eth0","value":300}

{"time":1002,"host":"n1.example","metric":"node_network_receive_bytes_total","device":"ib0","value":"150"}
{"time":1000,"host":"n9","metric":"node_network_receive_bytes_total","device":"ib0","value":0}
{"time":1000,"host":"n2","metric":"node_nfs_requests_total","value":0}
{"time":1001,"host":"n2","metric":"node_nfs_requests_total","value":5}
{"time":1001,"host":"n2","metric":"node_load1","value":5}
{"time":1003,"host":"n2","metric":"no"#;

#[test]
fn json_lines_have_presets_and_any_other_metric() {
    let dir = tempfile::tempdir().unwrap();
    let found = load_from(dir.path(), &[("a.jsonl", LINES)], &[]).unwrap();
    let names: Vec<&str> = found
        .metrics
        .iter()
        .map(|metric| metric.metric.name())
        .collect();
    assert_eq!(names, ["ipoib", "nfs"]);
    assert_eq!(
        values(&found.metrics[0]),
        [("n1", 1001, Some(200.0)), ("n1", 1002, None)],
        "the last reading is a reset"
    );
    assert_eq!(values(&found.metrics[1]), [("n2", 1001, Some(5.0))]);
    assert_eq!(
        found.notes,
        [
            "no source has the metric lustre for the selected hosts",
            "hosts of the sources that are not selected or not in the records: 1 (n9)",
            "selected hosts without host metrics: 1 (n3)",
        ]
    );
    let found = load_from(
        dir.path(),
        &[("a.jsonl", LINES)],
        &["node_load*", "node_network_*_bytes_total{device=eth*}"],
    );
    assert!(found.is_err(), "one reading of each has no value");
}

const CSV: &str = "time,host,metric,value,device\n1000,n1,node_network_transmit_bytes_total,10,ib0\n1001,n1,node_network_transmit_bytes_total,30,ib0\n\
                   1000,n1,node_memory_Active_bytes,7,\n1001,n1,node_memory_Active_bytes,9,\n";

#[test]
fn csv_has_counters_and_gauges() {
    let dir = tempfile::tempdir().unwrap();
    let found = load_from(dir.path(), &[("a.csv", CSV)], &["node_*"]).unwrap();
    let shown: Vec<_> = found
        .metrics
        .iter()
        .map(|metric| (metric.metric.name(), metric.metric.unit(), values(metric)))
        .collect();
    assert_eq!(
        shown,
        [
            (
                "node_memory_Active_bytes",
                Unit::Octets,
                vec![("n1", 1001, Some(9.0))]
            ),
            (
                "node_network_transmit_bytes_total",
                Unit::OctetsPerSecond,
                vec![("n1", 1001, Some(20.0))]
            ),
        ]
    );
}

#[test]
fn files_of_ldms_are_read_with_their_headers_and_devices() {
    let dir = tempfile::tempdir().unwrap();
    let netdev = "#Time,Time_usec,ProducerName,component_id,job_id,app_id,rx_bytes#ib0,tx_bytes#ib0,rx_bytes#eth0\n\
                  1000.000000,0,n1,1,0,0,100,50,7\n1001.000000,0,n1,1,0,0,110,60,9\n";
    let netdev2 = "#Time,Time_usec,ProducerName,component_id,netdev_list_entry_idx,netdev_list_name,netdev_list_rx_bytes\n\
                   1000.0,0,n2,1,0,ib0,100\n1000.0,0,n2,1,1,lo,5\n1001.0,0,n2,1,0,ib0,400\n1001.0,0,n2,1,1,lo,6\n1002.0,0,n";
    let nfs_header =
        "#\"Time_msec\",\"Time_usec\",\"ProducerName\",\"component_id\",\"numcalls\",\"read\"\n";
    let nfs = "1000000000000,0,n1,1,7,1\n1000000001000,0,n1,1,17,1\n";
    let found = load_from(
        dir.path(),
        &[
            ("procnetdev/procnetdev.1", netdev),
            ("procnetdev2/procnetdev2", netdev2),
            ("procnfs/procnfs.HEADER.5", nfs_header),
            ("procnfs/procnfs.5", nfs),
        ],
        &[],
    );
    let found = found.unwrap();
    assert_eq!(
        values(&found.metrics[0]),
        [
            ("n1", 1001, Some(10.0)),
            ("n1", 1001, Some(10.0)),
            ("n2", 1001, Some(300.0))
        ]
    );
    assert_eq!(found.metrics.len(), 1, "milliseconds of another century");
    let lustre = "#Time,Time_usec,ProducerName,fs_name,llite,read_bytes.sum,write_bytes.sum\n\
                  1000.5,500000,n3,scratch,x,0,0\n1001.5,500000,n3,scratch,x,8,2\n";
    let found = load_from(
        dir.path(),
        &[("lustre_client", lustre)],
        &["lustre", "read_bytes.*"],
    )
    .unwrap();
    assert_eq!(
        found
            .metrics
            .iter()
            .map(|metric| metric.metric.name())
            .collect::<Vec<_>>(),
        ["lustre", "read_bytes.sum"]
    );
    assert_eq!(values(&found.metrics[1]), [("n3", 1001, Some(8.0))]);
}

#[test]
fn faults_have_the_file_the_line_and_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let why = |name: &str, text: &str, requests: &[&str]| {
        load_from(dir.path(), &[(name, text)], requests).unwrap_err()
    };
    for (name, text, expected) in [
        (
            "a",
            "{\"time\":1,\"host\":\"n1\",\"metric\":\"m\",\"value\":1}\n{\"time\":1}\n",
            "a:2: the field `host` is missing",
        ),
        (
            "b",
            "{\"time\":true,\"host\":\"n1\",\"metric\":\"m\",\"value\":1}\n",
            "b:1: the field `time` is neither",
        ),
        (
            "c",
            "{\"time\":1,\"host\":\"n1\",\"metric\":\"m\",\"value\":1}\nx\n",
            "c:2: it is not JSON",
        ),
        (
            "d",
            "time,host,metric,value\n1,n1,m,x\n",
            "d:2: the value `x` is not a number",
        ),
        (
            "e",
            "time,host,metric,value\nnoon,n1,m,1\n",
            "e:2: the time `noon`",
        ),
        ("f", "a,b,c\n1,2,3\n", "f:1: it has neither the columns"),
        ("g", "", "g:1: the file is empty"),
        (
            "h",
            "#Time,ProducerName,x\n1,n1\n2,n1,3\n",
            "h:2: it has 2 columns instead of 3",
        ),
    ] {
        let error = why(name, text, &[]).to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    let error = why("i", LINES, &["node_lod1"]);
    let help = miette::Diagnostic::help(&error).unwrap().to_string();
    assert!(
        error.to_string().contains("no source has node_lod1") && help.contains("node_load1"),
        "{error} {help}"
    );
    let strange = why(
        "j",
        &LINES.replace("n1.example", "x1").replace("n2", "x2"),
        &[],
    )
    .to_string();
    assert!(
        strange
            .contains("only for hosts that are not selected or not in the records: 3 (n9, x1, x2)"),
        "{strange}"
    );
    assert!(load_from(dir.path(), &[], &[]).is_err());
}

#[test]
fn source_is_an_address_or_files() {
    assert_eq!(
        Source::from("HTTP://h:9090/"),
        Source::Prometheus("HTTP://h:9090".to_owned())
    );
    assert_eq!(
        Source::from("http.jsonl"),
        Source::Files("http.jsonl".into())
    );
}

#[test]
fn request_without_a_metric_is_reported_beside_one_that_has_some() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = ["ipoib-in", "node_lod1", "ipoib-out"];
    let found = load_from(dir.path(), &[("a.jsonl", LINES)], &wanted).unwrap();
    let of_metrics: Vec<_> = found
        .notes
        .iter()
        .filter(|note| note.contains("no source has"))
        .collect();
    assert_eq!(
        of_metrics,
        [
            "no source has the metric node_lod1 for the selected hosts; did you mean --host-metric node_load1?",
            "no source has the metric ipoib-out for the selected hosts"
        ]
    );
}

#[test]
fn presets_of_one_kind_select_a_direction_or_a_request() {
    let dir = tempfile::tempdir().unwrap();
    let net = "#Time,ProducerName,rx_bytes#ib0,tx_bytes#ib0,tx_bytes#eth0\n1000,n1,0,10,0\n1001,n1,5,30,900\n";
    let nfs =
        "#Time,ProducerName,numcalls,retransmitts,read,write\n1000,n1,0,0,0,0\n1001,n1,99,1,2,3\n";
    let lines = r#"{"time":1000,"host":"n2","metric":"node_nfs_requests_total","method":"Write","value":0}
{"time":1001,"host":"n2","metric":"node_nfs_requests_total","method":"Write","value":7}
{"time":1000,"host":"n2","metric":"node_nfs_requests_total","method":"Read","value":0}
{"time":1001,"host":"n2","metric":"node_nfs_requests_total","method":"Read","value":8}
"#;
    let files = [
        ("procnetdev/net", net),
        ("procnfs/nfs", nfs),
        ("a.jsonl", lines),
    ];
    let presets = [
        ("ipoib-in", vec![("n1", 5.0)]),
        ("ipoib-out", vec![("n1", 20.0)]),
        ("nfs-reads", vec![("n1", 2.0), ("n2", 8.0)]),
        ("nfs-writes", vec![("n1", 3.0), ("n2", 7.0)]),
        ("nfs-retransmits", vec![("n1", 1.0)]),
    ];
    for (preset, expected) in presets {
        let found = load_from(dir.path(), &files, &[preset]).unwrap();
        let mut last: Vec<_> = values(&found.metrics[0])
            .into_iter()
            .filter_map(|(host, to, value)| (to == 1001).then_some((host, value?)))
            .collect();
        last.sort_by(|a, b| a.0.cmp(b.0));
        assert_eq!(last, expected, "{preset}");
    }
}
