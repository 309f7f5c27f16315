//! `ibnet-view job`: the traffic of a job.

use std::path::{Path, PathBuf};

use ibnet::cli::{self, OutputError};
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::heat::grid::Grid;
use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::input::Inputs;
use ibnet_analysis::job::all::{AllJobs, JobList};
use ibnet_analysis::job::compare::Comparison;
use ibnet_analysis::job::marks::Mark;
use ibnet_analysis::job::row::JobRow;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::when::{self, Zone};
use ibnet_record::types::Printable;
use ibnet_view::draw::{self, Drawing, render};
use ibnet_view::picture::matrix::MatrixPicture;
use ibnet_view::picture::runs::RunsPicture;
use ibnet_view::{document, picture, text};

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::groups::{GroupArgs, Report};
use crate::host_metrics::{self, HostArgs};
use crate::job_runs::{self, Evaluated};
use crate::job_source::JobSource;
use crate::marks::MarkArgs;
use crate::routes_of::RoutesOf;
use crate::selection;

/// Report the traffic of a job and the time for which it was blocked
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Nodes of the job: `node[001-024]` or `oss*`, the first words of node descriptions. With
    /// --all: nodes whose received traffic is drawn by switch port
    #[arg(long, value_name = "HOSTLIST", required_unless_present_any = ["slurm", "all", "groups"], conflicts_with = "slurm")]
    nodes: Option<String>,
    /// ID of a job. Its nodes and times come from Slurm or PBS, or from --slurm-file
    #[arg(long, visible_alias = "job", value_name = "JOBID")]
    slurm: Option<String>,
    /// All jobs in the time range, the traffic without a job, and the total
    #[arg(long, conflicts_with_all = ["slurm", "steps"])]
    all: bool,
    #[command(flatten)]
    source: JobSource,
    /// Forwarding tables: output of dump_fts, ibdiagnet2.fdbs, or lines (.jsonl) or archives with
    /// `routes` records, whose tables of that time are used; also patterns. Repeatable. By default,
    /// the `routes` records in FILES. With tables, the shares of the jobs on all links are
    /// estimated; without them, they are bounded on the links of leaf switches
    #[arg(long, value_name = "FILE|FOLDER|-", conflicts_with_all = ["all", "groups"])]
    routes: Vec<PathBuf>,
    /// Traffic between each pair of hosts: an estimate in bytes, with bounds
    #[arg(long, conflicts_with_all = ["compare", "sources", "marks", "all", "groups"])]
    matrix: bool,
    /// Compare with another run: the ID of a job, or a job name for all its runs. Repeatable.
    /// With three runs and more: whether the runs that were blocked longer also took longer. A
    /// picture has a dot for each run
    #[arg(long, value_name = "JOBID|NAME", requires = "slurm", conflicts_with_all = ["nodes", "all"])]
    compare: Vec<String>,
    /// Largest number of time steps
    #[arg(long, value_name = "N", default_value_t = 240, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    steps: u16,
    /// Length of a time step with --all and --group, such as 10s; by default it fits the recording
    #[arg(long, value_name = "DURATION", value_parser = bin)]
    bin: Option<u64>,
    #[command(flatten)]
    marks: MarkArgs,
    #[command(flatten)]
    group: GroupArgs,
    #[command(flatten)]
    host_metrics: HostArgs,
    /// Format of the result
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json|csv"
    )]
    format: Format,
    /// Also write a picture over time, or all values as JSON. With --format json or csv: file of
    /// the result
    #[arg(short, long, value_name = "FILE.png|.svg|.json")]
    output: Option<PathBuf>,
}

/// Parses the length of a time step, in nanoseconds.
fn bin(text: &str) -> Result<u64, String> {
    let bin = when::nanos(text).filter(|ns| *ns >= 1_000_000);
    bin.ok_or_else(|| "expected a duration of at least 1ms, such as 10s or 1m".to_owned())
}

const EXAMPLES: &str = "\
Port counters have no destinations. So the traffic that stays on a leaf switch and the
job's part of a link are estimates; the report explains them. Nodes and times of a job
come from sacct and squeue, from qstat with --scheduler pbs, or from a file.

Examples:
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' --from 12:00 --to 12:30
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' -o job.svg
  ibnet-view job lines/*.jsonl --slurm 4711 -o job.svg
  ibnet-view job lines/*.jsonl --slurm 4711 --slurm-file jobs.jsonl --format json
  ibnet-view job lines/*.jsonl --slurm 4711 --routes dump_fts.txt --compare 4650 --compare cfd
  ibnet-view job lines/*.jsonl --slurm 4711 --compare cfd --slurm-file jobs.jsonl -o runs.png
  ibnet-view job lines/*.jsonl --all --slurm-file jobs.txt --bin 10s -o jobs.png
  ibnet-view job lines/*.jsonl --all --slurm-file jobs.txt --nodes 'oss*' -o jobs.svg
  ibnet-view job lines/*.jsonl --group 'storage=oss*,mds*' -o storage.svg
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' --host-metrics http://prometheus:9090 -o job.svg";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    args.host_metrics.need_place(
        args.format,
        args.output.as_deref(),
        !args.all && args.group.is_empty(),
    )?;
    match args.group.is_empty() {
        true if args.all => run_all(args),
        true => run_one(args),
        false => run_groups(args),
    }
}

fn run_groups(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    // Without jobs, the senders are hosts.
    let jobs = if args.all || args.source.has_file() {
        jobs_during(args, &inputs)?
    } else {
        Vec::new()
    };
    let report = Report {
        groups: &args.group.groups()?,
        jobs: JobList::new(&jobs),
        bin_ns: args.bin,
        format: args.format,
        output: args.output.as_deref(),
        hosts: &args.host_metrics,
        marks: args.marks.read()?.unwrap_or_default(),
    };
    report.write(&inputs)
}

fn run_one(args: &Args) -> Result<(), Failure> {
    if args.bin.is_some() {
        return Err(Failure::BinOfOneJob);
    }
    let zone = Zone::local();
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let routes = RoutesOf::open_or(&args.routes, &inputs, args.matrix)?;
    let marks = args.marks.read()?;
    let evaluate = |run, others: Option<&[JobRun]>| {
        let marks = marks.as_deref();
        job_runs::evaluate(&inputs, run, others, &routes, args.steps, marks)
    };
    let (found, others) = match &args.slurm {
        Some(id) => {
            let (run, others) = args.source.job_and_others(id)?;
            let others = others.unwrap_or_else(|failure| {
                cli::note(&format!("warning   other jobs are not known: {failure}\n"));
                Vec::new()
            });
            (run, Some(others))
        }
        // The hosts of unknown jobs can exchange data with these nodes.
        None => (
            JobRun::new("", args.nodes.as_deref().unwrap_or_default(), None, None)?,
            (args.matrix || !args.routes.is_empty()).then(Vec::new),
        ),
    };
    let before = runs_to_compare(args, &inputs, &found, others.as_deref().unwrap_or_default())?;
    let one = evaluate(found, others.as_deref())?;
    let Evaluated {
        run,
        job,
        phases,
        summary,
        ..
    } = &one;
    let time_range = common::time_range(summary)?;
    if job.nodes.is_empty() {
        return Err(selection::no_port_of(&Printable(&run.nodes).to_string()).into());
    }
    if args.matrix {
        return write_matrix(args, &one, &time_range);
    }
    let mut compared = Vec::new();
    for (run, others) in before {
        compared.push(evaluate(run, Some(&others))?);
    }
    let comparison = (!compared.is_empty()).then(|| {
        let runs = [&one].into_iter().chain(&compared);
        Comparison::of(runs.map(|one| (&one.run, &one.job)))
    });
    if let Format::Document(document) = args.format {
        let hosts = host_metrics::grid(
            &args.host_metrics,
            job.columns(),
            job.nodes.iter().map(|node| node.host.clone()),
        )?;
        let mut rows = vec![JobRow {
            host_metrics: hosts.as_ref().map(Grid::heat_rows),
            comparison,
            ..one.row(args.slurm.as_deref())
        }];
        rows.extend(compared.iter().map(|other| other.row(Some(&other.run.id))));
        return document.write(common::span(summary)?, &rows, args.output.as_deref());
    }
    if let (Some(path), Some(comparison)) = (&args.output, &comparison) {
        let picture = RunsPicture::new(comparison, &run.id);
        write(path, || Ok(job.to_json().into_bytes()), &picture)?;
    } else if let Some(path) = &args.output {
        let is_own = |mark: &&Mark| job.nodes.iter().any(|node| mark.contains(&node.host));
        let own: Vec<Mark> = marks.iter().flatten().filter(is_own).cloned().collect();
        let picture = picture::job::of_job(job, &title(args, run), &zone)
            .trimmed(common::span(summary)?)
            .with_marks(&own);
        let picture = host_metrics::below(
            &args.host_metrics,
            picture,
            job.nodes.iter().map(|node| node.host.clone()),
        )?;
        write(path, || Ok(job.to_json().into_bytes()), &picture)?;
    }
    let mut report = text::job::report(job);
    if let Some(phases) = phases {
        report.push_str(&text::phases::report(phases));
    }
    if let Some(sharing) = &one.sharing {
        report.push_str(&text::sharing::report(sharing));
    }
    if let Some(comparison) = &comparison {
        let runs: Vec<_> = [&one]
            .into_iter()
            .chain(&compared)
            .map(|one| (&one.run, &one.job, one.sharing.as_ref()))
            .collect();
        report.push_str(&text::sharing::comparison(&runs, comparison, &zone));
    }
    Ok(cli::print_line(&format!(
        "{time_range}{}",
        report.trim_end()
    ))?)
}

fn write_matrix(args: &Args, one: &Evaluated, time_range: &str) -> Result<(), Failure> {
    let matrix = one.matrix.as_ref().ok_or(Failure::TooManyPairs)?;
    let output = args.output.as_deref();
    if let Format::Document(document) = args.format {
        return document.write(common::span(&one.summary)?, &matrix.cells, output);
    }
    if let Some((path, format)) = output.zip(format::of_picture(output)?) {
        let picture = MatrixPicture::new(matrix, &title(args, &one.run), time_range.trim_end());
        format::write(&render(&picture, format)?, Some(path))?;
    }
    let report = text::matrix::report(matrix);
    Ok(cli::print_line(&format!(
        "{time_range}{}",
        report.trim_end()
    ))?)
}

fn title(args: &Args, run: &JobRun) -> String {
    match &args.slurm {
        Some(id) => format!("Job {} on {}", Printable(id), Printable(&run.nodes)),
        None => format!("Traffic of {}", Printable(&run.nodes)),
    }
}

/// Returns the runs of `--compare`, each with the other jobs of its time. An argument that is not a
/// job ID is a job name, which stands for all other runs of this name.
fn runs_to_compare(
    args: &Args,
    inputs: &Inputs,
    run: &JobRun,
    others: &[JobRun],
) -> Result<Vec<(JobRun, Vec<JobRun>)>, Failure> {
    let mut found = Vec::new();
    if args.compare.is_empty() {
        return Ok(found);
    }
    // A file has all jobs. A resource manager is asked again, for the time of the records.
    let all = if args.source.has_file() {
        others.to_vec()
    } else {
        args.source.jobs(common::span_of(inputs)?.0, run.to)?.runs
    };
    let is_other = |other: &&JobRun| (&other.id, other.from) != (&run.id, run.from);
    for text in &args.compare {
        let by_id: Vec<&JobRun> = all
            .iter()
            .filter(is_other)
            .filter(|other| other.id == *text)
            .collect();
        let by_name = || {
            all.iter()
                .filter(is_other)
                .filter(|other| other.name.as_ref() == Some(text))
                .collect()
        };
        let mut runs: Vec<&JobRun> = if by_id.is_empty() { by_name() } else { by_id };
        if runs.is_empty() {
            let what = format!(
                "no other run with the job ID or name `{}` in the time of the records",
                Printable(text)
            );
            let help = "`ibnet-view jobs` lists the jobs with their names; a job table of --keep has older jobs".to_owned();
            return Err(AnalysisError::Nothing { what, help }.into());
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.from));
        found.extend(runs.into_iter().cloned().map(|run| (run, all.clone())));
    }
    Ok(found)
}

fn run_all(args: &Args) -> Result<(), Failure> {
    let zone = Zone::local();
    let into = args.nodes.as_deref().map(Hosts::parse).transpose()?;
    let inputs = args.recorded.inputs()?;
    let jobs = JobList::new(&jobs_during(args, &inputs)?);
    common::refuse_input(&inputs, args.output.as_ref())?;
    let marks = args.marks.read()?.unwrap_or_default();
    let empty = AllJobs::new(jobs, args.bin).with_marks(marks.clone());
    let (all, summary) = common::read(&inputs, &empty)?;
    let time_range = common::time_range(&summary)?;
    let traffic = all.finish(into.as_ref())?;
    let span = common::span(&summary)?;
    if let Format::Document(document) = args.format {
        return document.write(span, &traffic.jobs, args.output.as_deref());
    }
    if let Some(path) = &args.output {
        let json = || {
            document::to_json(span, &traffic.jobs).map_err(|source| OutputError {
                path: path.clone(),
                source,
            })
        };
        let picture = picture::job::of_all(&traffic, args.nodes.as_deref(), &zone)
            .trimmed(span)
            .with_marks(&marks);
        write(
            path,
            || Ok(json()?),
            &host_metrics::below_jobs(&args.host_metrics, picture, &traffic)?,
        )?;
    }
    let report = text::job::report_all(&traffic, &zone) + &text::phases::report(&traffic.phases);
    Ok(cli::print_line(&format!(
        "{time_range}{}",
        report.trim_end()
    ))?)
}

/// Returns the jobs that ran in the time of the inputs. A resource manager needs this time before
/// the records are evaluated, so without --from the inputs are read twice.
fn jobs_during(args: &Args, inputs: &Inputs) -> Result<Vec<JobRun>, Failure> {
    let from = match inputs.from {
        Some(from) => from,
        None if args.source.has_file() => 0,
        None => common::span_of(inputs)?.0,
    };
    Ok(args.source.jobs(from, inputs.to)?.runs)
}

/// Writes JSON or the picture, by the extension of the file name. A file name with an unknown
/// extension gets an SVG.
fn write(
    path: &Path,
    json: impl FnOnce() -> Result<Vec<u8>, Failure>,
    picture: &impl Drawing,
) -> Result<(), Failure> {
    let is_json = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let bytes = if is_json {
        json()?
    } else {
        render(picture, draw::Format::of(path).unwrap_or(draw::Format::Svg))?
    };
    format::write(&bytes, Some(path))
}
