//! Whole runs of `ibnet-gen discover` and `ibnetdiscover -p`, which take turns. A run of `smpquery`
//! with one SMP shows what starting a program and connecting it to ibsim take.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use super::fabric::Ibsim;
use super::{GEN, median, ms, pinned};

/// The flag that selects this table.
pub(crate) const FLAG: &str = "--discovery";

const TURNS: usize = 11;

/// Prints a row for a placement.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn row(place: &str, ibsim: &Ibsim, core: Option<&str>) {
    let programs: [(&str, &[&str]); 3] = [
        ("ibnetdiscover", &["-p"]),
        (GEN, &["discover"]),
        ("smpquery", &["-D", "nodeinfo", "0"]),
    ];
    let mut times = programs.map(|_| Vec::new());
    let mut mads = 0;
    for _ in 0..TURNS {
        for ((program, args), times) in programs.iter().zip(&mut times) {
            let mut command = pinned(ibsim, Path::new(program), core);
            command.args(*args).stdout(Stdio::piped());
            let begun = Instant::now();
            let done = command.output().expect("it runs");
            times.push(begun.elapsed().as_nanos() as u64);
            assert!(done.status.success(), "{program}");
            let report = String::from_utf8_lossy(&done.stderr).into_owned();
            let number = report.split(" MADs").next();
            let number = number.and_then(|text| text.rsplit(' ').next()?.parse().ok());
            mads = number.unwrap_or(mads);
        }
    }
    let [theirs, ours, start] = times.each_mut().map(|times| median(times));
    let each = ours.saturating_sub(start) as f64 / 1e3 / f64::from(mads);
    println!(
        "| {place} | {:.1} ms | {:.1} ms | {:.1} ms | {mads} | {each:.2} | {:.1} |",
        ms(theirs),
        ms(ours),
        ms(start),
        theirs as f64 / ours as f64
    );
}
