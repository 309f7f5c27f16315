//! Time to draw a heat map of one hour of 1,000 ports at 1 Hz, and the time of DuckDB for the same
//! lines.
//!
//!     cargo bench -p ibnet-view --bench view -- [LINES]
//!
//! `LINES` is 3,600,000 by default. A line has 1.5 kB. The file is written to `target/tmp` and
//! removed at the end.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results"
)]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ibnet_analysis::heat::HeatMap;
use ibnet_analysis::heat::order::RowKind;
use ibnet_analysis::heat::range::Range;
use ibnet_analysis::input::{self, Inputs};
use ibnet_analysis::when::Zone;
use ibnet_view::draw::{Format, render};
use ibnet_view::picture::heat::HeatPicture;

const PORTS: u64 = 1000;
const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 12:00:00 UTC.
const FIRST_SLOT: u64 = 1_795_262_400;

fn main() {
    let lines = std::env::args()
        .skip(1)
        .find_map(|word| word.parse().ok())
        .unwrap_or(3600 * PORTS);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder).unwrap();
    let path = folder.join("view.jsonl");
    write(&path, lines);
    let octets = fs::metadata(&path).unwrap().len();
    println!(
        "lines     {lines}, {:.2} GB, {} octets each, {} threads",
        octets as f64 / 1e9,
        octets / lines,
        rayon::current_num_threads()
    );
    for metric in ["xmit_gbps", "port_xmit_wait_ticks"] {
        let took = heat_map(&path, metric, lines);
        println!(
            "heatmap   {metric}: {took:.2} s, {:.2} GB/s, {:.2} million lines a second",
            octets as f64 / took / 1e9,
            lines as f64 / took / 1e6
        );
    }
    println!("memory    {}", most_memory());
    duckdb(&path);
    fs::remove_file(&path).unwrap();
}

/// Reads the file, draws a PNG and returns the time in seconds.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn heat_map(path: &Path, metric: &str, lines: u64) -> f64 {
    let start = Instant::now();
    let inputs = Inputs {
        files: vec![path.to_owned()],
        ..Inputs::default()
    };
    let (heat, summary) =
        input::read(&inputs, &HeatMap::new(vec![metric.parse().unwrap()], None)).unwrap();
    assert_eq!((summary.lines, summary.invalid), (lines, 0));
    let grid = heat.finish(RowKind::Port).unwrap();
    let png = render(
        &HeatPicture::new(&grid, None, &Range::default(), Zone::utc(), None),
        Format::Png,
    )
    .unwrap();
    assert!(png.starts_with(b"\x89PNG"));
    start.elapsed().as_secs_f64()
}

/// Returns the peak memory use of this process, as reported by the kernel.
fn most_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or("?", str::trim)
        .to_owned()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn duckdb(path: &Path) {
    // If the columns are given, as in packaging/duckdb/ibnet.sql, DuckDB reads the file only once.
    let columns = "{slot: 'UBIGINT', guid: 'VARCHAR', port: 'UTINYINT', xmit_gbps: 'DOUBLE'}";
    let query = format!(
        "select count(*) from (select slot, guid, port, avg(xmit_gbps) from read_json('{}', format = 'newline_delimited', columns = {columns}) group by all)",
        path.display()
    );
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/tools/python/bin/python");
    let program = "import sys, duckdb; print(duckdb.sql(sys.argv[1]).fetchall())";
    let start = Instant::now();
    match Command::new(python).args(["-c", program, &query]).output() {
        Ok(output) if output.status.success() => {
            println!("duckdb    {:.2} s", start.elapsed().as_secs_f64());
        }
        Ok(output) => println!(
            "duckdb    failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        Err(error) => println!("duckdb    SKIPPED, `make tools` fetches it: {error}"),
    }
}

/// Writes records with the counters of the default groups.
fn write(path: &Path, lines: u64) {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    for line in 0..lines {
        let (slot, port) = (FIRST_SLOT + line / PORTS, line % PORTS);
        let (switch, number, age) = (port / 36, port % 36 + 1, line / PORTS);
        let (ts, gbps) = (
            slot * SECOND + port * 10_000,
            ((port * 7 + age) % 100) as f64 + 0.123_456,
        );
        let octets = (age + 1) * (port + 1) * 12_345_678;
        let packets = octets / 4096;
        writeln!(file, r#"{{"type":"port","ts":{ts},"slot":{slot},"sampler":"node00001","guid":"0x{:016x}","port":{number},"lid":{},"node":"leaf{switch:02}","kind":"switch","hops":1,"peer_guid":"0x{:016x}","peer_port":1,"peer":"node{port:05} mlx5_0","link":"4xEDR","link_source":"live","status":"ok","rtt_ns":706037,"mads":4,"identity":"ok","port_xmit_data_bytes":{octets},"port_rcv_data_bytes":{octets},"port_xmit_pkts":{packets},"port_rcv_pkts":{packets},"port_unicast_xmit_pkts":{packets},"port_unicast_rcv_pkts":{packets},"port_multicast_xmit_pkts":0,"port_multicast_rcv_pkts":0,"symbol_error_counter":0,"link_error_recovery_counter":0,"link_downed_counter":0,"port_rcv_errors":0,"port_rcv_remote_physical_errors":0,"port_rcv_switch_relay_errors":0,"port_xmit_discards":0,"port_xmit_constraint_errors":0,"port_rcv_constraint_errors":0,"local_link_integrity_errors":0,"excessive_buffer_overrun_errors":0,"vl15_dropped":0,"port_xmit_wait_ticks":{packets},"port_inactive_discards":0,"port_neighbor_mtu_discards":0,"port_sw_lifetime_limit_discards":0,"port_sw_hoq_lifetime_limit_discards":0,"port_local_physical_errors":0,"port_malformed_packet_errors":0,"port_buffer_overrun_errors":0,"port_dlid_mapping_errors":0,"port_vl_mapping_errors":0,"port_looping_errors":0,"dt_ns":1000000000,"xmit_gbps":{gbps},"rcv_gbps":{gbps},"xmit_utilization":{:.6},"rcv_utilization":{:.6},"xmit_blocked":0.012345}}"#,
            0x200_000 + switch, switch + 1, 0x100_000 + port, gbps / 100.0, gbps / 100.0).unwrap();
    }
    file.flush().unwrap();
}
