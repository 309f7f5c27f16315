//! Speed and size of packing, speed of reading one column and one port, and the time of DuckDB for
//! the same lines.
//!
//!     cargo bench -p ibnet-store --bench archive -- [SECONDS]
//!
//! The lines are those of 1,000 ports with random traffic, `SECONDS` is 600 by default. They are
//! written to `target/tmp` and removed at the end.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints its results")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use ibnet_store::archive::Archive;
use ibnet_store::pack::{PackOptions, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use rayon::prelude::*;

const PORTS: usize = 1000;
const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 12:00:00 UTC.
const FIRST_SLOT: u64 = 1_795_262_400;
/// Octets that are parsed at a time.
const BLOCK: usize = 4 << 20;

fn main() {
    let seconds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(600);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archive");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let lines = folder.join("lines.jsonl");
    write(&lines, seconds);
    let (rows, octets) = (seconds * PORTS as u64, fs::metadata(&lines).unwrap().len());
    println!("lines     {rows}, {} octets each, {} threads", octets / rows, rayon::current_num_threads());

    let root = folder.join("archive");
    let (took, size) = timed(|| pack(&lines, &root));
    println!("pack      {took:.2} s, {:.0} records a second, {:.1} octets a record", rows as f64 / took, size as f64 / rows as f64);
    for (name, octets) in sizes(&root).into_iter().filter(|(_, octets)| *octets * 2 > rows) {
        println!("          {name:28} {:6.2}", octets as f64 / rows as f64);
    }
    let (took, sum) = timed(|| column(&root, "xmit_gbps"));
    println!("column    {took:.3} s, {:.1} million rows a second, sum {sum:.3}", rows as f64 / took / 1e6);
    duckdb(
        &folder,
        "COPY of the lines",
        &format!(
            "COPY (SELECT * FROM read_json('{0}/lines.jsonl', format = 'newline_delimited', sample_size = -1) ORDER BY guid, port, ts) TO '{0}/duckdb.parquet' (COMPRESSION zstd)",
            folder.display()
        ),
    );
    duckdb(&folder, "column of the archive", &format!("SELECT sum(xmit_gbps) FROM '{}/archive/ports/**/*.parquet'", folder.display()));
    fs::remove_dir_all(&folder).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed().as_secs_f64(), result)
}

/// Packs the file and returns the size of the archive.
fn pack(lines: &Path, root: &Path) -> u64 {
    let text = fs::read(lines).unwrap();
    let mut packer = Packer::new(root, PackOptions::default()).unwrap();
    let mut rest = &text[..];
    while !rest.is_empty() {
        let mut blocks = Vec::new();
        while !rest.is_empty() && blocks.len() < 2 * rayon::current_num_threads() {
            let end = rest.iter().skip(BLOCK).position(|octet| *octet == b'\n').map_or(rest.len(), |end| BLOCK + end + 1);
            let (block, after) = rest.split_at(end);
            blocks.push(block);
            rest = after;
        }
        let batches: Vec<Batch> = blocks.into_par_iter().map(Batch::parse).collect();
        batches.into_iter().for_each(|batch| packer.add(batch).unwrap());
    }
    packer.finish(&|_, _| {}).unwrap().files.iter().map(|(_, octets)| octets).sum()
}

fn files(root: &Path) -> Vec<ArchiveFile> {
    let files = Archive::open(root).unwrap().files(TableName::Ports).unwrap();
    files.into_iter().map(|(_, path)| ArchiveFile::open(&path).unwrap()).collect()
}

/// Returns the compressed size of each column, the largest first.
fn sizes(root: &Path) -> Vec<(&'static str, u64)> {
    let mut sizes: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    files(root).iter().flat_map(ArchiveFile::sizes).for_each(|(name, octets)| *sizes.entry(name).or_default() += octets);
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by_key(|(_, octets)| std::cmp::Reverse(*octets));
    sizes
}

/// Returns the sum of a column.
fn column(root: &Path, name: &str) -> f64 {
    let columns: Vec<bool> = TableName::Ports.schema().columns.iter().map(|column| column.name == name).collect();
    let of_file = |file: &ArchiveFile| {
        let groups = (0..file.groups()).into_par_iter();
        let sum = |group: usize| {
            let table = file.read(group, &columns).unwrap();
            table.floats(name).unwrap().iter().filter(|value| !value.is_nan()).sum::<f64>()
        };
        groups.map(sum).sum::<f64>()
    };
    files(root).iter().map(of_file).sum()
}

fn duckdb(folder: &Path, name: &str, query: &str) {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/tools/python/bin/python");
    let program = "import sys, time, duckdb; start = time.time(); duckdb.execute(sys.argv[1]).fetchall(); print(time.time() - start)";
    match Command::new(python).current_dir(folder).args(["-c", program, query]).output() {
        Ok(output) if output.status.success() => {
            let took: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
            println!("duckdb    {took:.2} s, {name}");
        }
        Ok(output) => println!("duckdb    failed: {}", String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => println!("duckdb    SKIPPED, `make tools` fetches it: {error}"),
    }
}

/// Writes records of the default groups. Four ports of five have traffic.
fn write(path: &Path, seconds: u64) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let mut ports = vec![([1_u64 << 40; 2], [1_u64 << 30; 2], 0_u64); PORTS];
    let errors: String = [
        "symbol_error_counter",
        "link_error_recovery_counter",
        "link_downed_counter",
        "port_rcv_errors",
        "port_rcv_remote_physical_errors",
        "port_rcv_switch_relay_errors",
        "port_xmit_discards",
        "port_xmit_constraint_errors",
        "port_rcv_constraint_errors",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
        "vl15_dropped",
        "port_xmit_wait_ticks",
    ]
    .map(|name| format!(r#""{name}":0,"#))
    .concat();
    for second in 0..seconds {
        for (number, (octets, packets, last)) in ports.iter_mut().enumerate() {
            let (switch, slot) = (number / 20, FIRST_SLOT + second);
            let ts = slot * SECOND + number as u64 * 9000 + random.u64(..200_000);
            let grown = if number.is_multiple_of(5) { [0; 2] } else { [0; 2].map(|_: u64| random.u64(..175_000_000) * 4) };
            octets.iter_mut().zip(grown).for_each(|(octets, grown)| *octets += grown);
            packets
                .iter_mut()
                .zip(grown)
                .for_each(|(packets, grown)| *packets += grown / 1500 + if grown > 0 { random.u64(..50) } else { 0 });
            let dt_ns = ts - std::mem::replace(last, ts).max(ts - SECOND - 200_000);
            let gbps = grown.map(|grown| (grown as f64 * 8e6 / dt_ns as f64).round() / 1e6);
            let share = gbps.map(|gbps| (gbps * 1e4).round() / 1e6);
            writeln!(file, r#"{{"type":"port","ts":{ts},"slot":{slot},"sampler":"s{:02}","guid":"0x{:016x}","port":{},"lid":{switch},"node":"leaf{switch:02}","kind":"switch","hops":1,"peer_guid":"0x{:016x}","peer_port":1,"peer":"node{number:05} mlx5_0","link":"4xEDR","link_source":"live","status":"ok","rtt_ns":{},"rtt_min_ns":{},"mads":4,"identity":"ok","port_xmit_data_bytes":{},"port_rcv_data_bytes":{},"port_xmit_pkts":{},"port_rcv_pkts":{},"port_unicast_xmit_pkts":{},"port_unicast_rcv_pkts":{},{errors}"dt_ns":{dt_ns},"xmit_gbps":{},"rcv_gbps":{},"xmit_utilization":{},"rcv_utilization":{},"xmit_blocked":0.0}}"#,
                switch / 6, 0x200_000 + switch, number % 20 + 1, 0x100_000 + number, 24_000 + random.u64(..12_000), 6000 + random.u64(..3000), octets[0], octets[1], packets[0], packets[1], packets[0], packets[1], gbps[0], gbps[1], share[0], share[1]).unwrap();
        }
    }
    file.flush().unwrap();
}
