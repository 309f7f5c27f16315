//! `ibnet-view replay`: writes recorded lines at their relative times, as a live sweep does.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ibnet::cli::{self, OutputError};
use ibnet_analysis::replay::{Replay, ReplayOptions};

use crate::Failure;
use crate::common::{self, Recorded};

/// Write recorded lines again at any speed, to test dashboards and other readers of live records
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Speed relative to the recording; 0 means without pauses
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Keep `ts` and `slot`. Without this flag, the first line gets the current time
    #[arg(long)]
    keep_times: bool,
    /// File to append to; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

const EXAMPLES: &str = "\
Lines of several files are merged by time. Only `ts` and `slot` change; rates and
`dt_ns` are those of the recording at any speed.

Examples:
  ibnet-view replay lines/*.jsonl                    at the speed of the recording
  ibnet-view replay 'lines/*.zst' --speed 60 -o /run/ibnet/lines.jsonl
  ibnet-view replay day.jsonl --from 12:00 --to 12:10 --speed 0 --keep-times";

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text
        .trim_end_matches(['x', 'X'])
        .parse()
        .map_err(|_| "expected a number such as 10 or 0.5".to_owned())?;
    if speed.is_finite() && speed >= 0.0 {
        Ok(speed)
    } else {
        Err("expected 0 or more".to_owned())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "lines are written at their times"
)]
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let is_paced = args.speed > 0.0;
    let options = ReplayOptions {
        speed: if is_paced { args.speed } else { 1.0 },
        now: (!args.keep_times).then(common::now),
    };
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, Some(&args.output))?;
    let mut replay = Replay::new(&inputs, options)?;
    let failed = |source| OutputError {
        path: args.output.clone(),
        source,
    };
    let mut output = open(&args.output).map_err(failed)?;
    let start = Instant::now();
    while let Some(due) = replay.next_line()? {
        let ahead = if is_paced {
            due.after.saturating_sub(start.elapsed())
        } else {
            Duration::ZERO
        };
        let done = if ahead.is_zero() {
            Ok(())
        } else {
            let flushed = output.flush();
            thread::sleep(ahead);
            flushed
        };
        match done.and_then(|()| output.write_all(&due.line)) {
            // The reader has closed the pipe, which is a normal end.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            done => done.map_err(failed)?,
        }
    }
    match output.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        done => done.map_err(failed)?,
    }
    common::note_archive(&replay.archive_notes());
    replay.incomplete.iter().for_each(common::note_incomplete);
    if replay.skipped > 0 {
        cli::note(&format!(
            "skipped   {} lines are not records\n",
            replay.skipped
        ));
    }
    Ok(())
}

/// Opens a file to append to, or standard output.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Write>> {
    let to: Box<dyn Write> = if cli::is_dash(path) {
        Box::new(io::stdout())
    } else {
        Box::new(File::options().create(true).append(true).open(path)?)
    };
    Ok(Box::new(io::BufWriter::with_capacity(1 << 16, to)))
}
