//! `ibnet-sweep check`: tests everything that a sweep needs, from the configuration to one reply
//! from each device.
//!
//! Each step prints one line: `ok`, `warn`, `fail`, or `skip` if an earlier step failed. Warnings
//! and failures are followed by a remedy.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ibnet::cli;
use ibnet::config::{Config, Plan as Source};
use ibnet::mad::transport::sim::SimTransport;
use ibnet::sweep::driver::{Address, DeviceClient, SystemClock};
use ibnet::sweep::routes::Routes;
use ibnet_record::types::Lid;

use self::report::{Report, Verdict};
use super::USAGE;
use super::failure::Failure;
use super::flags::{DEFAULT_CONFIG, Flags};
use super::simulation;
use super::watch::Reader;
use super::workers::Work;

mod clear;
mod devices;
#[cfg(feature = "umad")]
mod hca;
mod outputs;
mod physical;
pub(super) mod report;
mod routes;

/// Check configuration, outputs, HCA, subnet and assignments, and query each device once
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Also print a line for each device without a fault
    #[arg(short, long)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep check -c /etc/ibnet/ibnet.toml
  ibnet-sweep check --assignments plan.toml --ca mlx5_0
  ibnet-sweep check --simulate fabric.p --verbose

Insert `check` before or after the arguments of your sweep. Nothing is swept and nothing
is written. Each device gets two MADs, one device after the other: NodeInfo, and
ClassPortInfo of performance management. A file must be writable, a socket free, and a
NATS server must have a stream with the subjects of the records.

Exit codes: 0 nothing failed; 1 something failed; 2 the arguments are wrong.";

/// Timeout of a MAD. Each MAD is sent at most three times.
const TIMEOUT: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let mut report = Report::default();
    let config = args.flags.config().map_err(Failure::from);
    let is_argument = config
        .as_ref()
        .err()
        .is_some_and(|failure| args.flags.gave(failure));
    let config = report.step("configuration", config, |config| args.describe(config))?;
    let Some(config) = config else {
        report.line(
            Verdict::Skip,
            "the rest",
            "needs a valid configuration",
            None,
        )?;
        let code = report.end()?;
        return Ok(if is_argument { USAGE } else { code });
    };
    if config.engine.path_sl {
        let remedy = "a device that needs another service level may not answer this check; a sweep uses the service level of its path record";
        report.warn(
            "service level",
            "path records are not queried here: service level 0 is used",
            remedy,
        )?;
    }
    let traps = if config.traps {
        "on: InformInfo (Set) and ReportResp go to the subnet manager; not tested here"
    } else {
        "off: the subnet manager gets only Get requests"
    };
    report.line(Verdict::Ok, "traps", traps, None)?;
    let states = if config.engine.state_tables {
        "on: switches with SwitchPortStateTable get a Get for it in each slot, at most one a second; not tested here"
    } else {
        "off: PortInfo shows the states of links in the round of identity checks"
    };
    report.line(Verdict::Ok, "link states", states, None)?;
    let work = report.step(
        "assignments",
        Work::load(&config, &mut Reader::default()).and_then(Work::present),
        |work| work.describe(&config),
    )?;
    if let Some(problem) = work
        .as_ref()
        .and_then(|work| work.published()?.problem.as_deref())
    {
        let remedy = "the sweep starts with this copy of the plan; check the server and [plan_server], so that new plans arrive";
        report.warn("plan server", problem, remedy)?;
    }
    report.outputs(&config, work.as_ref())?;
    let fabric = match simulation::build(&config) {
        Ok(fabric) => fabric,
        Err(failure) => {
            report.fail("fabric", &failure)?;
            return report.end();
        }
    };
    let shares = work.map(|work| work.shares(&config)).unwrap_or_default();
    clear::report(&mut report, &config, &shares)?;
    physical::report(&mut report, &config, &shares)?;
    routes::report(&mut report, &config, &shares)?;
    let has_registers = config.engine.physical.is_some();
    if let Some(fabric) = fabric {
        report.line(Verdict::Ok, "HCA", "simulated: none is needed", None)?;
        for share in &shares {
            let client = DeviceClient::new(
                SimTransport::new(fabric.clone()),
                SystemClock::start(),
                address(&config, 0, Vec::new()),
                cli::random_seed(),
            );
            let client =
                client.with_routes(config.engine.smp, Routes::new(Arc::clone(share.cables())));
            report.devices(share, client, (args.verbose, has_registers))?;
        }
        return report.end();
    }
    #[cfg(feature = "umad")]
    {
        // Without assignments, only the HCA is checked.
        let cas = if shares.is_empty() {
            vec![config.cas.first().cloned().unwrap_or_default()]
        } else {
            Vec::new()
        };
        for (place, ca) in cas
            .iter()
            .chain(shares.iter().map(|share| &share.ca))
            .enumerate()
        {
            match (report.hca(&config, ca)?, shares.get(place)) {
                (Some((transport, pkey_index, pkey_table)), Some(share)) => {
                    let client = DeviceClient::new(
                        transport,
                        SystemClock::start(),
                        address(&config, pkey_index, pkey_table),
                        cli::random_seed(),
                    );
                    let client = client
                        .with_routes(config.engine.smp, Routes::new(Arc::clone(share.cables())));
                    report.devices(share, client, (args.verbose, has_registers))?;
                }
                (None, Some(share)) => {
                    let devices = share.block.devices.len();
                    report.line(
                        Verdict::Skip,
                        "devices",
                        &format!("{devices} are not queried: they need a usable HCA port"),
                        None,
                    )?;
                }
                (_, None) => {}
            }
        }
    }
    #[cfg(not(feature = "umad"))]
    report.fail("HCA", &Failure::NoUmad)?;
    report.end()
}

/// Returns the parameters for reaching a device. The LID is set later.
fn address(config: &Config, pkey_index: u16, pkey_table: Vec<u16>) -> Address {
    Address {
        lid: Lid(0),
        sl: config.engine.sl,
        pkey_index,
        pkey_table,
        timeout: TIMEOUT,
    }
}

impl Args {
    /// Takes over the flags before the command. Returns false if a flag is given twice.
    pub(super) fn take_flags(&mut self, before: &Flags) -> bool {
        let is_once = self.flags.merge(before);
        self.flags.use_default_config(Path::new(DEFAULT_CONFIG));
        is_once
    }

    fn describe(&self, config: &Config) -> String {
        let file = self
            .flags
            .config
            .as_ref()
            .map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
        let groups = config.engine.groups.len();
        format!(
            "{file}: {groups} groups, interval {}, window {}",
            humantime::format_duration(config.interval),
            config.engine.window
        )
    }
}

impl Work {
    /// Describes the file, the sampler, and the number of ports.
    fn describe(&self, config: &Config) -> String {
        let (ports, devices) = self
            .blocks()
            .iter()
            .fold((0, 0), |(ports, devices), block| {
                (ports + block.port_count, devices + block.devices.len())
            });
        let hosts = self.hosts();
        let host = if hosts.len() > 1 {
            format!("{} samplers", hosts.len())
        } else {
            hosts.join("")
        };
        let path = match (&config.plan, self.published()) {
            (_, Some(plan)) => plan.name.clone(),
            (Source::Assignments(path) | Source::Net(path), None) => path.display().to_string(),
            (Source::Published(store), None) => store.to_string(),
        };
        match (self.sha256(), self.blocks().len()) {
            (None, _) => {
                format!("{path}: all of it, {ports} ports of {devices} devices, swept by {host}")
            }
            (Some(sha256), 1) => format!(
                "{path}: {ports} ports of {devices} devices for {host}, SHA-256 {sha256:.12}..."
            ),
            (Some(sha256), blocks) => {
                format!(
                    "{path}: {ports} ports of {devices} devices for {host} in {blocks} blocks, SHA-256 {sha256:.12}..."
                )
            }
        }
    }
}
