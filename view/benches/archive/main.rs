//! Speed and size of an archive, and the time of DuckDB for the same work in the same run.
//!
//!     cargo bench -p ibnet-view --bench archive -- [--hours N] [--seconds N] [--only TEXT]
//!     cargo bench -p ibnet-view --bench archive -- --keep FOLDER [--hours N] [--minutes-only]
//!     cargo bench -p ibnet-view --bench archive -- --archive FOLDER [--only TEXT]
//!
//! | part | input |
//! |---|---|
//! | packing | lines of 1,000 ports and 300 seconds (`--seconds`), 1.4 kB each |
//! | reading | an archive of 1,000 ports and 4 hours (`--hours`), 150 MB for each hour |
//!
//! The files are written to `target/tmp` and removed at the end. `--keep` writes the archive of the
//! second part to a folder, and does nothing else. With `--minutes-only`, the archive is as after
//! retention: it has the one-minute means and no records. `--archive` measures reading with such a
//! folder, and does nothing else. `--only` measures only the rows whose names contain the text.
//! DuckDB has as many threads as ibnet.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark prints its results"
)]

use std::fs;
use std::path::Path;

use self::measure::Rows;

mod measure;
mod packing;
mod reading;
mod traffic;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| arguments.iter().skip_while(|word| *word != name).nth(1);
    let number = |name: &str, default: u64| {
        after(name).map_or(default, |word| word.parse().expect("a number"))
    };
    let hours = number("--hours", 4);
    if let Some(folder) = after("--keep") {
        let with_records = !arguments.iter().any(|word| word == "--minutes-only");
        reading::write(Path::new(folder), hours, with_records);
        return;
    }
    println!("threads   {}", rayon::current_num_threads());
    let only = after("--only").map_or("", String::as_str);
    if let Some(root) = after("--archive") {
        let root = fs::canonicalize(root).unwrap();
        reading::run(
            &root,
            &Rows {
                folder: &root,
                only,
            },
        );
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archive");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    packing::run(
        &Rows {
            folder: &folder,
            only,
        },
        number("--seconds", 300),
    );
    let root = folder.join("archive");
    reading::write(&root, hours, true);
    reading::run(
        &root,
        &Rows {
            folder: &folder,
            only,
        },
    );
    fs::remove_dir_all(&folder).unwrap();
}
