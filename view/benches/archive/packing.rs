//! Packing of lines, and `COPY` of DuckDB.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use ibnet_analysis::input::blocks::Blocks;
use ibnet_store::archive::Archive;
use ibnet_store::pack::{PackOptions, Packed, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use rayon::prelude::*;

use crate::measure::Rows;
use crate::traffic::{FIRST_SLOT, PORTS, Traffic};

pub(crate) fn run(table: &Rows<'_>, seconds: u64) {
    let (folder, name) = (
        table.folder,
        format!("pack {} lines", seconds * PORTS as u64),
    );
    if !table.has(&name) {
        return;
    }
    let lines = folder.join("lines.jsonl");
    write(&lines, seconds);
    let (rows, octets) = (seconds * PORTS as u64, fs::metadata(&lines).unwrap().len());
    println!("lines     {rows}, {} octets each", octets / rows);
    let root = folder.join("packed");
    let copy = format!(
        "COPY (SELECT * FROM read_json('{0}/lines.jsonl', format = 'newline_delimited', sample_size = -1) ORDER BY guid, port, ts) \
         TO '{0}/duckdb.parquet' (COMPRESSION zstd)",
        folder.display()
    );
    table.head();
    table.compare(&name, &copy, || {
        let _ = fs::remove_dir_all(&root);
        let packed = pack(&lines, &root);
        assert_eq!(packed.added[&TableName::Ports], rows);
    });
    let copied = fs::metadata(folder.join("duckdb.parquet")).map_or(0, |file| file.len());
    let sizes = sizes(&root);
    let all: u64 = sizes.iter().map(|(_, octets)| octets).sum();
    println!(
        "octets    {:.1} for each record, {:.1} in the file of DuckDB",
        per(all, rows),
        per(copied, rows)
    );
    for (name, octets) in sizes.into_iter().filter(|(_, octets)| *octets * 2 > rows) {
        println!("          {name:28} {:6.2}", per(octets, rows));
    }
    [lines, folder.join("duckdb.parquet")]
        .iter()
        .for_each(|file| drop(fs::remove_file(file)));
    fs::remove_dir_all(root).unwrap();
}

fn per(octets: u64, rows: u64) -> f64 {
    octets as f64 / rows as f64
}

fn write(path: &Path, seconds: u64) {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let (mut traffic, mut line) = (Traffic::new(), Vec::new());
    for second in 0..seconds {
        let table = traffic.by_time(FIRST_SLOT + second..FIRST_SLOT + second + 1);
        for row in 0..table.len() {
            table.write_line(row, &mut line);
            line.push(b'\n');
        }
        file.write_all(&line).unwrap();
        line.clear();
    }
    file.flush().unwrap();
}

/// Packs the file as `ibnet-view pack` does.
fn pack(lines: &Path, root: &Path) -> Packed {
    let mut packer = Packer::new(root, PackOptions::default()).unwrap();
    let mut blocks = Blocks::open(lines).unwrap();
    loop {
        let some: Vec<_> = (0..2 * rayon::current_num_threads())
            .map_while(|_| blocks.read().unwrap())
            .collect();
        if some.is_empty() {
            break;
        }
        let batches: Vec<Batch> = some
            .par_iter()
            .map(|block| Batch::parse(&block.text))
            .collect();
        batches
            .into_iter()
            .for_each(|batch| packer.add(batch).unwrap());
    }
    packer.finish(&|_, _| {}).unwrap()
}

/// Returns the compressed size of each column, the largest first.
fn sizes(root: &Path) -> Vec<(&'static str, u64)> {
    let files = Archive::open(root)
        .unwrap()
        .files(TableName::Ports)
        .unwrap();
    let mut sizes: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for (_, path) in files {
        ArchiveFile::open(&path)
            .unwrap()
            .sizes()
            .into_iter()
            .for_each(|(name, octets)| *sizes.entry(name).or_default() += octets);
    }
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by_key(|(_, octets)| std::cmp::Reverse(*octets));
    sizes
}
