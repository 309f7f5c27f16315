//! `ibnet-view pack`: JSON lines to Parquet.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ibnet::cli::{self, Progress};
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::input::blocks::{Block, Blocks};
use ibnet_analysis::input::{FileFault, IncompleteFile, Inputs};
use ibnet_record::types::Printable;
use ibnet_store::inputs::{Hours, InputFile};
use ibnet_store::pack::{PackOptions, Packed, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::retain::{self, Keep, Removed};
use rayon::prelude::*;

use crate::Failure;
use crate::common;

/// Pack records into an archive of Parquet files, which is much smaller and faster to read
///
/// Records that the archive already has are not added again. Files that were packed before and have
/// not changed are not read again. All other commands read the archive
/// like the files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files with records of ibnet-sweep: names, patterns in quotes, or `-` for standard input. The
    /// files can be compressed with zstd
    #[arg(value_name = "FILES", required_unless_present_any = ["keep_age", "keep_total"])]
    files: Vec<PathBuf>,
    /// Folder of the archive. It is created if necessary
    #[arg(short, long, value_name = "ARCHIVE")]
    output: PathBuf,
    /// Read each new file again and compare it with the records
    #[arg(long)]
    verify: bool,
    /// Remove the files after --verify has compared all of their records. Files with lines that are
    /// not records, and files that a sampler still writes, are kept
    #[arg(long)]
    remove_inputs: bool,
    /// Then remove the hours of a table that are older than AGE: ports=30d,ports_1m=5y. The
    /// one-minute means in ports_1m are kept when the records in ports are removed
    #[arg(long, value_name = "TABLE=AGE", value_delimiter = ',', value_parser = Keep::of_age)]
    keep_age: Vec<Keep>,
    /// Then remove the oldest hours of a table until its files have at most SIZE: ports=500GiB
    #[arg(long, value_name = "TABLE=SIZE", value_delimiter = ',', value_parser = Keep::of_total)]
    keep_total: Vec<Keep>,
    /// Let --keep-age and --keep-total remove any number of hours. Without this flag, a run removes
    /// at most a tenth of the hours of a table, or 48 hours if that is more
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-view pack 'lines/*.jsonl*' -o archive
  ibnet-view heatmap archive 'lines/*.jsonl' --metric xmit_gbps -o heat.png
  ibnet-view pack '/var/log/ibnet/*.jsonl.zst' -o /var/lib/ibnet/archive --remove-inputs
  ibnet-view pack -o archive --keep-age ports=30d --keep-total ports=500GiB,ports_1m=50GiB";

/// Number of blocks of lines that are parsed at a time, for each thread.
const BLOCKS: usize = 2;

/// An input in progress.
struct Input {
    path: PathBuf,
    /// Size and modification time before the file was read. `None` for a pipe.
    before: Option<(u64, i64, i64)>,
    lines: u64,
    invalid: u64,
    first_invalid: Option<(u64, String)>,
    is_cut: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !args.files.is_empty() {
        pack(args)?;
    }
    let keep = [&args.keep_age[..], &args.keep_total].concat();
    if keep.is_empty() {
        return Ok(());
    }
    let removed = retain::retain(&args.output, &keep, common::now(), args.force)?;
    for Removed { table, left, .. } in removed.iter().filter(|removed| removed.left > 0) {
        let table = table.as_str();
        cli::note(&format!(
            "warning   {left} more hours of {table} are beyond --keep-age or --keep-total: a run removes at most a tenth of the hours, or 48; \
             check the clock of this host, and give --force to remove them\n"
        ));
    }
    let line = |Removed {
                    table,
                    number,
                    octets,
                    hours: (first, last),
                    ..
                }: &Removed| {
        let size = *octets as f64 / f64::from(1 << 20);
        format!(
            "removed   {} of {number} hours, {size:.1} MiB, {first} to {last} (UTC)\n",
            table.as_str()
        )
    };
    let text: String = removed.iter().map(line).collect();
    cli::print(text.as_bytes()).map_err(|source| cli::OutputError {
        path: "-".into(),
        source,
    })?;
    Ok(())
}

fn pack(args: &Args) -> Result<(), Failure> {
    let inputs = Inputs::new(&args.files)?;
    let options = PackOptions {
        verify: args.verify || args.remove_inputs,
    };
    let mut packer = Packer::new(&args.output, options)?;
    let bar = common::bar(inputs.size());
    let (mut read, mut before, mut unchanged) = (Vec::new(), 0, 0);
    let mut unread: Option<Failure> = None;
    for path in &inputs.files {
        let identity = InputFile::of(path).map_err(|source| {
            Failure::from(AnalysisError::Read {
                name: cli::name_of(path),
                source,
            })
        });
        // Only what this run has read is verified and may be removed.
        let is_unchanged = |identity: &Option<InputFile>| {
            identity
                .as_ref()
                .is_some_and(|identity| packer.has(identity))
        };
        if !args.remove_inputs && identity.as_ref().is_ok_and(is_unchanged) {
            unchanged += 1;
        } else {
            let progress = |done| bar.set((before + done) >> 20);
            match identity.and_then(|identity| add_file(path, identity, &mut packer, &progress)) {
                Ok(input) => read.push(input),
                // A file that matched a pattern can vanish, because a closed file is compressed or
                // retention removes it.
                Err(_) if !path.exists() && !args.files.contains(path) => {
                    cli::note(&format!(
                        "skipped   {}: it vanished\n",
                        Printable(&cli::name_of(path))
                    ));
                }
                // One damaged file must not keep the others out of the archive.
                Err(failure @ Failure::Analysis(AnalysisError::Read { .. }))
                    if inputs.files.len() > 1 && path.exists() =>
                {
                    cli::note(&format!(
                        "skipped   {}: it cannot be read completely; it is kept\n",
                        Printable(&cli::name_of(path))
                    ));
                    unread = unread.or(Some(failure));
                }
                Err(failure) => return Err(failure),
            }
        }
        before += path.metadata().map_or(0, |file| file.len());
    }
    bar.finish();
    if !read.is_empty() && read.iter().all(|input| input.lines == input.invalid) {
        return Err(no_record(&read).into());
    }
    let hours = std::cell::OnceCell::new();
    let packed =
        packer.finish(&|done, all| hours.get_or_init(|| Progress::new(all, "hours")).set(done));
    hours.into_inner().iter().for_each(Progress::finish);
    let packed = packed?;
    note_faults(&read);
    let removed = match args.remove_inputs {
        true if packed.expired > 0 => {
            cli::note(
                "kept      all inputs: the archive did not add some of their records, see `expired`\n",
            );
            0
        }
        true => remove(&read),
        false => 0,
    };
    cli::print(report(&args.output, &read, unchanged, &packed, removed).as_bytes()).map_err(
        |source| cli::OutputError {
            path: "-".into(),
            source,
        },
    )?;
    unread.map_or(Ok(()), Err)
}

fn add_file(
    path: &Path,
    identity: Option<InputFile>,
    packer: &mut Packer,
    progress: &dyn Fn(u64),
) -> Result<Input, Failure> {
    let unreadable = |source| AnalysisError::Read {
        name: cli::name_of(path),
        source,
    };
    let before = state(path);
    let mut input = Input {
        path: path.to_owned(),
        before,
        lines: 0,
        invalid: 0,
        first_invalid: None,
        is_cut: false,
    };
    let mut blocks = Blocks::open(path).map_err(unreadable)?;
    let mut next = some_blocks(&mut blocks).map_err(unreadable)?;
    let mut hours = Hours::new();
    while !next.is_empty() {
        let some = std::mem::take(&mut next);
        let (read, batches) = rayon::join(
            || some_blocks(&mut blocks),
            || {
                some.par_iter()
                    .map(|block| (block.first_line, Batch::parse(&block.text)))
                    .collect::<Vec<_>>()
            },
        );
        for (first_line, batch) in batches {
            input.lines += batch.lines;
            input.invalid += batch.invalid.len() as u64;
            if let Some((line, why)) = batch.invalid.first()
                && input.first_invalid.is_none()
            {
                input.first_invalid = Some((first_line + *line as u64, why.clone()));
            }
            hours.extend(batch.tables.keys());
            packer.add(batch)?;
        }
        next = read.map_err(unreadable)?;
        progress(blocks.done());
    }
    input.is_cut = blocks.is_cut;
    // A file that changed while it was read is read again in the next run.
    let is_same =
        |identity: &InputFile| InputFile::of(path).is_ok_and(|now| now.as_ref() == Some(identity));
    if let Some(identity) = identity.filter(is_same) {
        packer.note_input(identity, hours);
    }
    Ok(input)
}

fn some_blocks(blocks: &mut Blocks) -> io::Result<Vec<Block>> {
    let mut some = Vec::new();
    while some.len() < BLOCKS * rayon::current_num_threads().max(1) {
        match blocks.read()? {
            Some(block) => some.push(block),
            None => break,
        }
    }
    Ok(some)
}

/// Returns size and modification time of a regular file.
fn state(path: &Path) -> Option<(u64, i64, i64)> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((file.len(), file.mtime(), file.mtime_nsec()))
}

fn no_record(inputs: &[Input]) -> AnalysisError {
    let first = inputs
        .iter()
        .find(|input| input.first_invalid.is_some())
        .or_else(|| inputs.first());
    let name = first
        .map(|input| cli::name_of(&input.path))
        .unwrap_or_default();
    AnalysisError::NoRecord {
        name,
        why: first
            .and_then(|input| input.first_invalid.clone())
            .map(|(_, why)| why),
    }
}

/// Reports on standard error what was not packed.
fn note_faults(inputs: &[Input]) {
    for input in inputs {
        let file = cli::name_of(&input.path);
        if let Some((line, why)) = &input.first_invalid {
            let (name, why) = (Printable(&file), Printable(why));
            let Input { invalid, lines, .. } = input;
            cli::note(&format!(
                "skipped   {invalid} of {lines} lines are not records; the first is {name}:{line}: {why}\n"
            ));
        }
        if input.is_cut {
            common::note_incomplete(&IncompleteFile {
                file,
                fault: FileFault::Cut,
            });
        }
    }
}

/// Removes the inputs whose lines are all in the archive. Returns their number.
fn remove(inputs: &[Input]) -> usize {
    let mut removed = 0;
    for input in inputs {
        match removable(input)
            .and_then(|()| fs::remove_file(&input.path).map_err(|error| error.to_string()))
        {
            Ok(()) => removed += 1,
            Err(why) => cli::note(&format!(
                "kept      {}: {why}\n",
                Printable(&cli::name_of(&input.path))
            )),
        }
    }
    removed
}

/// Returns an error with the reason why an input must not be removed.
fn removable(input: &Input) -> Result<(), String> {
    if input.invalid > 0 || input.is_cut {
        return Err("some of its lines are not records".to_owned());
    }
    if input.before.is_none() {
        return Err("it is not a regular file".to_owned());
    }
    // A sampler locks the file to which it writes.
    let file = File::open(&input.path).map_err(|error| error.to_string())?;
    if file.try_lock().is_err() {
        return Err("another process writes to it".to_owned());
    }
    if state(&input.path) != input.before {
        return Err("it changed while it was read".to_owned());
    }
    Ok(())
}

/// Returns the summary for standard output.
fn report(
    archive: &Path,
    inputs: &[Input],
    unchanged: usize,
    packed: &Packed,
    removed: usize,
) -> String {
    let Packed {
        added,
        copies,
        conflicts,
        files,
        hours,
        derived,
        expired,
        ..
    } = packed;
    let records: u64 = inputs.iter().map(|input| input.lines - input.invalid).sum();
    let tables: BTreeMap<&str, u64> = added
        .iter()
        .map(|(table, rows)| (table.as_str(), *rows))
        .collect();
    let tables: Vec<String> = tables
        .iter()
        .map(|(table, rows)| format!("{rows} {table}"))
        .collect();
    let octets: u64 = files.iter().chain(derived).map(|(_, octets)| octets).sum();
    let mut text = format!("read      {records} records in {} files\n", inputs.len());
    if unchanged > 0 {
        text += &format!("unchanged {unchanged} files that were packed before: not read\n");
    }
    if !tables.is_empty() {
        text += &format!("added     {}\n", tables.join(", "));
    }
    if *copies > 0 {
        text += &format!(
            "copies    {copies} records that the archive already has, or that occur twice\n"
        );
    }
    if *conflicts > 0 {
        text += &format!(
            "conflicts {conflicts} records have sampler, port and time of another record and other values: all are kept; \
             give each sampler its own name\n"
        );
    }
    if let Some((first, last)) = hours {
        let files = files.len() + derived.len();
        text += &format!(
            "wrote     {files} files, {:.1} MiB, {first} to {last} (UTC)\n",
            octets as f64 / f64::from(1 << 20)
        );
    }
    if *expired > 0 {
        text += &format!(
            "expired   {expired} records of hours that were removed from the archive: not added\n"
        );
    }
    if removed > 0 {
        text += &format!("removed   {removed} files; their records are verified\n");
    }
    text + &format!("archive   {}\n", Printable(&archive.display().to_string()))
}
