//! Writes the records of scenarios, and the truth about them.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use ibnet_truth::records::SECOND;
use ibnet_truth::scenario::{Conditions, Scenario, run, write_jobs, write_routes};
use rayon::prelude::*;

/// Makes recordings of congestion whose roots are known.
///
/// For each scenario and seed, it writes NAME-SEED.jsonl with the records, NAME-SEED.truth.jsonl
/// with the truth about each second, and NAME-SEED.jobs.csv with the hosts of the jobs. Recordings
/// with different seeds have different times, so that they can be read together. routes.txt has the
/// forwarding tables, by which switches send without --adaptive.
#[derive(Parser)]
struct Arguments {
    /// Scenarios: quiet, incast, roots-2, roots-4, roots-16, spine, slow-host, stuck-host, moving,
    /// noise, bursts. All if there is none.
    scenarios: Vec<String>,
    /// Seeds
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u64>,
    /// Switches choose the way up by their queues
    #[arg(long)]
    adaptive: bool,
    /// Readings of a port in a second
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10))]
    rate: u64,
    /// Share of the readings that are lost
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Folder for the files
    #[arg(short, long)]
    output: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.output)?;
    let known = |name: &String| {
        Scenario::ALL
            .into_iter()
            .find(|(known, _)| known == name)
            .with_context(|| format!("no scenario {name}; --help lists them"))
    };
    let mut scenarios = arguments
        .scenarios
        .iter()
        .map(known)
        .collect::<Result<Vec<_>>>()?;
    if scenarios.is_empty() {
        scenarios.extend(Scenario::ALL);
    }
    let runs: Vec<_> = scenarios
        .iter()
        .flat_map(|(name, scenario)| {
            arguments
                .seeds
                .iter()
                .map(move |seed| (name, *scenario, *seed))
        })
        .collect();
    let mut routes = BufWriter::new(File::create(arguments.output.join("routes.txt"))?);
    write_routes(&mut routes)?;
    routes.flush()?;
    runs.into_par_iter().try_for_each(|(name, scenario, seed)| {
        let path = |end: &str| arguments.output.join(format!("{name}-{seed}.{end}"));
        let create = |end: &str| {
            let path = path(end);
            let file = File::create(&path).with_context(|| path.display().to_string())?;
            anyhow::Ok(BufWriter::new(file))
        };
        let conditions = Conditions {
            seed,
            adaptive: arguments.adaptive,
            slot: SECOND / arguments.rate,
            loss: arguments.loss,
        };
        let mut records = create("jsonl")?;
        let truth = run(scenario, conditions, &mut records)?;
        records.flush()?;
        let mut jobs = create("jobs.csv")?;
        write_jobs(scenario, seed, &mut jobs)?;
        jobs.flush()?;
        let mut output = create("truth.jsonl")?;
        for slot in truth {
            serde_json::to_writer(&mut output, &slot)?;
            output.write_all(b"\n")?;
        }
        Ok(output.flush()?)
    })
}
