//! `ibnet-view replay`: recorded lines as if live.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ibnet::cli::{self, OutputError};
use ibnet_view::replay::{Manner, Player};

use crate::Failure;
use crate::common::{self, Recorded};

/// Write recorded lines as if live, at any speed, for trying dashboards
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Seconds of the recording in one second; 0 is as fast as it can be read
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Leave `ts` and `slot` as they were recorded; otherwise the first line is of now
    #[arg(long)]
    keep_times: bool,
    /// Where to, appended to if it is a file; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

const EXAMPLES: &str = "\
Lines of several files are put together by their times. Only `ts` and `slot` are
written anew; rates and `dt_ns` stay those of the recording at any speed.

Examples:
  ibnet-view replay lines/*.jsonl                    as fast as it was recorded
  ibnet-view replay 'lines/*.zst' --speed 60 -o /run/ibnet/lines.jsonl
  ibnet-view replay day.jsonl --from 12:00 --to 12:10 --speed 0 --keep-times";

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.trim_end_matches(['x', 'X']).parse().map_err(|_| "expected a number such as 10 or 0.5".to_owned())?;
    if speed.is_finite() && speed >= 0.0 { Ok(speed) } else { Err("expected 0 or more".to_owned()) }
}

#[expect(clippy::disallowed_methods, reason = "lines come at their times")]
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let is_paced = args.speed > 0.0;
    let manner = Manner { speed: if is_paced { args.speed } else { 1.0 }, now: (!args.keep_times).then(common::now) };
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, Some(&args.output))?;
    let mut player = Player::new(&inputs, manner)?;
    let failed = |source| OutputError { path: args.output.clone(), source };
    let mut output = open(&args.output).map_err(failed)?;
    let start = Instant::now();
    while let Some(due) = player.next_line()? {
        let ahead = if is_paced { due.after.saturating_sub(start.elapsed()) } else { Duration::ZERO };
        let done = if ahead.is_zero() {
            Ok(())
        } else {
            let flushed = output.flush();
            thread::sleep(ahead);
            flushed
        };
        match done.and_then(|()| output.write_all(&due.line)) {
            // Nobody reads on: a quiet end.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            done => done.map_err(failed)?,
        }
    }
    match output.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        done => done.map_err(failed)?,
    }
    if player.skipped > 0 {
        cli::note(&format!("skipped   {} lines are no records\n", player.skipped));
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<Box<dyn Write>> {
    let to: Box<dyn Write> =
        if cli::is_dash(path) { Box::new(io::stdout()) } else { Box::new(File::options().create(true).append(true).open(path)?) };
    Ok(Box::new(io::BufWriter::with_capacity(1 << 16, to)))
}
