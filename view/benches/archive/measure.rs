//! Times of this program and of DuckDB for the same work, in turns.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Turns of each measurement. The table has the shortest times.
const TURNS: usize = 3;

/// Wall time and CPU time in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
}

impl Times {
    fn least(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            cpu: self.cpu.min(other.cpu),
        }
    }
}

/// The rows of a table.
pub(crate) struct Rows<'a> {
    /// Folder in which DuckDB runs.
    pub(crate) folder: &'a Path,
    /// Only the rows whose names contain this text are measured.
    pub(crate) only: &'a str,
}

impl Rows<'_> {
    /// Prints the head of the table.
    pub(crate) fn head(&self) {
        println!(
            "| work | ibnet wall / CPU | DuckDB wall / CPU | DuckDB / ibnet wall / CPU | memory of ibnet |"
        );
        println!("|---|---|---|---|---|");
    }

    /// Returns whether a row is measured.
    pub(crate) fn has(&self, name: &str) -> bool {
        name.contains(self.only)
    }

    /// Measures some work and the same work of DuckDB alternately, and prints a row of the table.
    pub(crate) fn compare(&self, name: &str, query: &str, work: impl FnMut()) {
        if self.has(name) {
            compare(name, self.folder, query, work);
        }
    }
}

fn compare(name: &str, folder: &Path, query: &str, mut work: impl FnMut()) {
    let mut least: Option<(Times, Option<Times>)> = None;
    // The highest memory of the process is counted from here.
    let _ = fs::write("/proc/self/clear_refs", "5");
    for _ in 0..TURNS {
        let own = timed(&mut work);
        let theirs = duckdb(folder, query);
        least = Some(match least {
            Some((before, duckdb)) => (
                before.least(own),
                duckdb.zip(theirs).map(|(a, b)| a.least(b)),
            ),
            None => (own, theirs),
        });
    }
    let Some((own, duckdb)) = least else { return };
    let of_duckdb = duckdb.map_or_else(
        || "SKIPPED".to_owned(),
        |times| format!("{:.2} s / {:.2} s", times.wall, times.cpu),
    );
    let ratio = duckdb.map_or_else(String::new, |times| format!("{:.1}", times.wall / own.wall));
    let cpu_ratio = duckdb.map_or_else(String::new, |times| format!("{:.1}", times.cpu / own.cpu));
    println!(
        "| {name} | {:.2} s / {:.2} s | {of_duckdb} | {ratio} / {cpu_ratio} | {} |",
        own.wall,
        own.cpu,
        most_memory()
    );
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn timed(work: &mut impl FnMut()) -> Times {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    work();
    Times {
        wall: start.elapsed().as_secs_f64(),
        cpu: cpu_seconds() - cpu,
    }
}

/// Returns the CPU time of all threads of this process.
fn cpu_seconds() -> f64 {
    /// Clock ticks per second on all Linux systems.
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    // The name of the program, in parentheses, can have blanks.
    let fields: Vec<&str> = text[text.rfind(')').unwrap()..]
        .split_whitespace()
        .collect();
    [fields[12], fields[13]]
        .iter()
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / TICKS
}

fn most_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or("", str::trim);
    most.trim_end_matches(" kB").parse::<f64>().map_or_else(
        |_| most.to_owned(),
        |kib| format!("{:.0} MiB", kib / 1024.0),
    )
}

/// Runs a query in DuckDB. Returns `None` without DuckDB.
fn duckdb(folder: &Path, query: &str) -> Option<Times> {
    const PROGRAM: &str = "
import resource, sys, time, duckdb
duckdb.execute(f'SET threads = {sys.argv[1]}')
duckdb.execute('SET enable_progress_bar = false')
start, before = time.time(), resource.getrusage(resource.RUSAGE_SELF)
duckdb.execute(sys.argv[2]).fetchall()
after = resource.getrusage(resource.RUSAGE_SELF)
print(time.time() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
";
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../out/tools/python/bin/python");
    let threads = rayon::current_num_threads().to_string();
    let output = match Command::new(python)
        .current_dir(folder)
        .args(["-c", PROGRAM, &threads, query])
        .output()
    {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: DuckDB, which `make tools` fetches: {error}");
            return None;
        }
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let (wall, cpu) = text
        .lines()
        .last()
        .and_then(|line| line.split_once(' '))
        .unwrap();
    Some(Times {
        wall: wall.parse().unwrap(),
        cpu: cpu.parse().unwrap(),
    })
}
