//! Time to evaluate an archive.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use ibnet_store::archive::Archive;
use ibnet_store::hour::Hour;
use ibnet_store::schema::TableName;
use ibnet_store::write::FileWriter;

use crate::traffic::{FIRST_SLOT, PORTS, SECOND, Traffic};

const HOUR: u64 = 3600;

/// Ports of which the rows are in memory at a time.
const AT_A_TIME: usize = 50;

/// Writes an archive of some hours.
pub(crate) fn write(root: &Path, hours: u64) {
    let archive = Archive::create(root).unwrap();
    let mut traffic = Traffic::new();
    for hour in 0..hours {
        let slots = FIRST_SLOT + hour * HOUR..FIRST_SLOT + (hour + 1) * HOUR;
        let path = archive.path(TableName::Ports, Hour::of(slots.start * SECOND));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut writer = FileWriter::new(BufWriter::new(File::create(path).unwrap()), TableName::Ports).unwrap();
        for first in (0..PORTS).step_by(AT_A_TIME) {
            let table = traffic.by_port(first..first + AT_A_TIME, slots.clone());
            let order: Vec<u32> = (0..table.len() as u32).collect();
            writer.write(&table, &order).unwrap();
        }
        writer.finish().unwrap();
    }
}

pub(crate) fn run(folder: &Path, hours: u64) {
    let root = folder.join("archive");
    write(&root, hours);
}
