//! `ibnet-sweep query`: reads the counters of one port once, and prints them in the format of
//! `perfquery` or as a record.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ibnet::cli;
use ibnet::config::{Ca, Config, ConfigError, Plan, Raw, Sl};
use ibnet::discovery;
use ibnet::mad::transport::Transport;
use ibnet::mad::transport::sim::SimTransport;
use ibnet::sweep::driver::{Address, DeviceClient, SystemClock};
use ibnet::sweep::query::{self, PortQuery, QueryResult};
use ibnet::sweep::routes::{Cables, Routes};
use ibnet_record::types::{Lid, PortNum};

use super::failure::Failure;
use super::flags::Flags;
use super::simulation;
use super::watch::Reader;
#[cfg(feature = "umad")]
use super::workers;
use super::workers::Work;

/// Query one port once and print its counters in the format of perfquery
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// LID of the device: 1 to 49151, or hexadecimal with 0x
    #[arg(value_parser = lid)]
    lid: Lid,
    /// Port of the device; 0 is the management port of a switch
    #[arg(value_parser = port)]
    port: PortNum,
    /// Configuration file: its keys ca, sl, pkey, groups, smp and simulate are used, and its plan
    /// for directed routes
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Counter groups in the order of the output, or all [default: extended,base,xmtdisc,rcverr]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    groups: Option<Vec<String>>,
    /// Print PortInfo instead of counters: state, width, speed, MTU, VLs, key violations
    #[arg(long, conflicts_with_all = ["groups", "json"])]
    portinfo: bool,
    /// Print the physical layer instead of counters: bit errors, error correction, module. The
    /// device must be of NVIDIA
    #[arg(long, conflicts_with_all = ["groups", "portinfo"])]
    physical: bool,
    /// Print the record of a sweep: one JSON line
    #[arg(long)]
    json: bool,
    /// HCA port that sends [default: the only active InfiniBand port]
    #[arg(long, value_name = "NAME[:PORT]")]
    ca: Option<String>,
    /// Service level [default: 0]
    #[arg(long, value_name = "N")]
    sl: Option<String>,
    /// P_Key [default: 0xffff]
    #[arg(long, value_name = "HEX")]
    pkey: Option<String>,
    /// Timeout of a MAD; each MAD is sent up to three times
    #[arg(long, value_name = "TIME", value_parser = timeout, default_value = "500ms")]
    timeout: Duration,
    /// Query the fabric of this net file, simulated in this process; no InfiniBand is needed
    #[arg(long, value_name = "FILE")]
    simulate: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep query 23 1
  ibnet-sweep query 0x17 1 --groups extended,rcverr
  ibnet-sweep query 23 1 --groups all 2>/dev/null
  ibnet-sweep query 23 1 --portinfo
  ibnet-sweep query 23 1 --physical
  ibnet-sweep query 23 1 --json | jq .port_xmit_data_bytes
  ibnet-sweep query 2 1 --simulate fabric.p

Values are those of the wire: data counters in words of 4 octets. A record has
octets. A group that the device lacks or does not answer is left out; standard
error has the reason.

Exit codes: 0 at least one group was answered; 1 none was, or the input or the
environment is wrong; 2 the arguments are wrong.";

/// Parses a decimal number, or a hexadecimal one with `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn lid(text: &str) -> Result<Lid, &'static str> {
    let lid = number(text)
        .and_then(|number| u16::try_from(number).ok())
        .map(Lid)
        .filter(|lid| lid.is_unicast());
    lid.ok_or("a LID is a number from 1 to 49151, or 0x and hexadecimal digits")
}

fn port(text: &str) -> Result<PortNum, &'static str> {
    let port = number(text)
        .and_then(|number| u8::try_from(number).ok())
        .filter(|port| *port < u8::MAX);
    port.map(PortNum).ok_or("a port is a number from 0 to 254")
}

fn timeout(text: &str) -> Result<Duration, &'static str> {
    let allowed = Duration::from_millis(1)..=Duration::from_secs(60);
    humantime::parse_duration(text)
        .ok()
        .filter(|time| allowed.contains(time))
        .ok_or("a duration from 1ms to 60s, such as 500ms")
}

/// Net file of a query without a plan.
const NO_PLAN: &str = "-";

/// Returns the cables of the configured plan, for directed routes. Without a plan that can be read,
/// SMPs go by LID.
fn cables(config: &Config) -> Arc<Cables> {
    let is_file = match &config.plan {
        Plan::Assignments(_) => true,
        Plan::Net(path) => path.as_os_str() != NO_PLAN && discovery::hca_of(path).is_none(),
        Plan::Published(_) => false,
    };
    let work = is_file.then(|| Work::load(config, &mut Reader::default()));
    let cables = work
        .and_then(Result::ok)
        .map(|work| Arc::clone(work.cables()));
    cables.unwrap_or_default()
}

/// Interval from which the slot number of the record is computed: the default of a sweep.
const INTERVAL_NS: u64 = 1_000_000_000;

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = args.config()?;
    let address = |pkey_index, pkey_table| Address {
        lid: args.lid,
        sl: config.engine.sl,
        pkey_index,
        pkey_table,
        timeout: args.timeout,
    };
    if let Some(fabric) = simulation::build(&config)? {
        return args.query(&config, address(0, Vec::new()), SimTransport::new(fabric));
    }
    #[cfg(feature = "umad")]
    {
        // One HCA port is sufficient for one query. If several are configured, this uses the
        // first one.
        let (port, pkey_index) =
            workers::hca_port(&config, &config.cas.first().cloned().unwrap_or_default())?;
        let transport = ibnet::mad::transport::umad::UmadTransport::open(&port)?;
        args.query(&config, address(pkey_index, port.pkeys), transport)
    }
    #[cfg(not(feature = "umad"))]
    Err(Failure::NoUmad)
}

impl Args {
    /// Takes the configuration file from `ibnet-sweep -c FILE query`. Returns false if
    /// there are other flags, or if it is given twice.
    pub(super) fn take_flags(&mut self, before: &Flags) -> bool {
        let Some(config) = before.only_config() else {
            return false;
        };
        let is_twice = config.is_some() && self.config.is_some();
        self.config = self.config.take().or(config);
        !is_twice
    }

    /// Returns the configuration, overridden by the flags.
    fn config(&self) -> Result<Config, ConfigError> {
        let mut raw = self
            .config
            .as_deref()
            .map(Raw::read)
            .transpose()?
            .unwrap_or_default();
        for (flag, key) in [
            (&self.simulate, &mut raw.simulate),
            (&self.pkey, &mut raw.pkey),
        ] {
            if let Some(flag) = flag {
                key.clone_from(flag);
            }
        }
        if let Some(ca) = &self.ca {
            raw.ca = Ca::One(ca.clone());
        }
        if let Some(groups) = &self.groups {
            raw.groups.clone_from(groups);
        }
        if let Some(sl) = &self.sl {
            raw.sl = Sl::Word(sl.clone());
        }
        // A query needs no plan, except for directed routes. This net file is never read.
        raw.sampler.clear();
        if raw.assignments.is_empty() && raw.net.is_empty() {
            raw.net = NO_PLAN.to_owned();
        }
        raw.check()
    }

    /// Returns whether the invalid value of this failure came from a flag.
    pub(super) fn gave(&self, failure: &Failure) -> bool {
        let Failure::Config(ConfigError::Value { key, .. }) = failure else {
            return false;
        };
        match *key {
            "groups" => self.groups.is_some(),
            "ca" => self.ca.is_some(),
            "sl" => self.sl.is_some(),
            "pkey" => self.pkey.is_some(),
            _ => false,
        }
    }

    fn query<T: Transport>(
        &self,
        config: &Config,
        address: Address,
        transport: T,
    ) -> Result<(), Failure> {
        let path_sl = config.engine.path_sl;
        let sl = address.sl;
        let mut client =
            DeviceClient::new(transport, SystemClock::start(), address, cli::random_seed())
                .with_routes(config.engine.smp, Routes::new(cables(config)));
        if self.portinfo {
            let (lid, port) = (self.lid, self.port);
            let text = query::port_info(lid, port, &mut client).map_err(Failure::TransportLost)?;
            let text = text.map_err(|reason| Failure::NoPortInfo { lid, port, reason })?;
            return cli::print(text.as_bytes()).map_err(Failure::Stdout);
        }
        if self.physical {
            return self.physical(&mut client);
        }
        let question = PortQuery {
            lid: self.lid,
            port: self.port,
            groups: config.engine.groups.clone(),
            record: self.json,
        };
        let answers = query::run(question, &mut client).map_err(Failure::TransportLost)?;
        if path_sl {
            cli::note(&format!(
                "note: sl: the path record is not queried for a single port; service level {sl} is used\n"
            ));
        }
        if !answers.has_answers() {
            return Err(self.no_answer(&answers));
        }
        report_missing(&answers);
        let shown = if self.json {
            let ts = client.wall(answers.at());
            answers
                .record(ts, ts / INTERVAL_NS, &cli::short_host_name())
                .ok_or(Failure::NoGuid { lid: self.lid })?
        } else {
            answers.text().into_bytes()
        };
        cli::print(&shown).map_err(Failure::Stdout)
    }

    /// Reads the physical layer and prints it.
    fn physical<T: Transport>(&self, client: &mut DeviceClient<T>) -> Result<(), Failure> {
        let (lid, port) = (self.lid, self.port);
        let result = query::physical(lid, port, client).map_err(Failure::TransportLost)?;
        let result = result.map_err(|reason| Failure::NoPhysical { lid, port, reason })?;
        for (page, reason) in result.missing() {
            cli::note(&format!("note: {page}: {reason}\n"));
        }
        if !result.has_answers() {
            let reason = result
                .missing()
                .next()
                .map_or(query::NoAnswer::Silent, |(_, reason)| reason);
            return Err(Failure::NoPhysical { lid, port, reason });
        }
        let shown = if self.json {
            let ts = client.wall(result.at());
            result.records(ts, ts / INTERVAL_NS, &cli::short_host_name())
        } else {
            result.text().into_bytes()
        };
        cli::print(&shown).map_err(Failure::Stdout)
    }

    /// Returns the error for a port that answered no query.
    fn no_answer(&self, answers: &QueryResult) -> Failure {
        let (lid, port) = (self.lid, self.port);
        if answers.is_silent() {
            return Failure::NoAnswer { lid };
        }
        if answers.is_agent_silent() {
            return Failure::NoAgent { lid };
        }
        report_missing(answers);
        Failure::NoGroup { lid, port }
    }
}

/// Prints the reason for each group that has no answer.
fn report_missing(answers: &QueryResult) {
    for (group, missing) in answers.missing() {
        cli::note(&format!("note: {group}: {missing}\n"));
    }
    if answers.is_fec_unknown() {
        cli::note(
            "note: extended_speeds: PortInfoExtended does not give the FEC of the port, so the counters of its lanes are left out\n",
        );
    }
}
