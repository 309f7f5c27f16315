//! `ibnet-sweep check`: walks all that a sweep needs, from the configuration to one reply of each device, and says what to do about what is wrong.
//!
//! Each step is a line as soon as it is known: `ok`, `warn`, `fail`, or `skip` where a step before it is missing. What is wrong has its remedy below.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use ibnet::assignments::Device;
use ibnet::cli::{self, Progress};
use ibnet::config::{Config, Plan as Source};
use ibnet::mad::header::MadStatus;
use ibnet::mad::pma::{self, CLASS_PORT_INFO};
use ibnet::mad::query::Query;
use ibnet::mad::smp::{self, NodeInfo};
use ibnet::mad::transport::sim::SimTransport;
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::sweep::driver::{Address, DeviceClient, SystemClock};
use ibnet::sweep::query::{Client, NoAnswer};
use ibnet::types::{Guid, Lid, PortNum, Printable};
use miette::Diagnostic;

use super::lanes::{self, Lane, Work};
use super::{Failure, Flags};

/// Checks configuration, HCA, subnet and assignments, and asks each device once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// A line for each device that is well, too
    #[arg(short, long)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep check -c /etc/ibnet/ibnet.toml
  ibnet-sweep check --assignments plan.toml --ca mlx5_0
  ibnet-sweep check --simulate fabric.p --verbose

Put `check` before the arguments of your sweep. Nothing is swept and nothing is
written. Each device is asked who it is, and whether its agent for performance
management answers: two MADs, one device after another.

Exit codes: 0 nothing failed; 1 something did; 2 the arguments are wrong.";

/// How long an answer is waited for; a MAD is sent three times at most.
const PATIENCE: Duration = Duration::from_millis(100);

/// So many devices with the same fault are named; more are counted.
const MOST_NAMED: usize = 10;

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut report = Report::default();
    let known = report.step("configuration", args.flags.config().map_err(Failure::from), |config| args.describe(config))?;
    let Some(config) = known else {
        report.line(Verdict::Skip, "the rest", "needs a configuration that can be used", None)?;
        return report.end();
    };
    if config.engine.path_sl {
        let remedy = "a device to which another service level leads may seem dead here; in a sweep each has that of its path record";
        report.warn("service level", "path records are not asked here: service level 0 is used", remedy)?;
    }
    let work = report.step("assignments", Work::load(&config), |work| work.describe(&config))?;
    let fabric = match lanes::simulated(&config) {
        Ok(fabric) => fabric,
        Err(failure) => {
            report.fail("fabric", &failure)?;
            return report.end();
        }
    };
    let lanes = work.map(|work| work.lanes(&config)).unwrap_or_default();
    if let Some(fabric) = fabric {
        report.line(Verdict::Ok, "HCA", "simulated: none is needed", None)?;
        for lane in &lanes {
            report.devices(
                lane,
                DeviceClient::new(SimTransport::new(fabric.clone()), SystemClock::start(), address(&config, 0), cli::random_seed()),
                args.verbose,
            )?;
        }
        return report.end();
    }
    #[cfg(feature = "umad")]
    {
        // Without assignments the HCA is still worth a look.
        let cas = if lanes.is_empty() { vec![config.cas.first().cloned().unwrap_or_default()] } else { Vec::new() };
        for ca in cas.iter().chain(lanes.iter().map(|lane| &lane.ca)).enumerate().map(|(place, ca)| (lanes.get(place), ca)) {
            match (report.hca(&config, ca.1)?, ca.0) {
                (Some((transport, pkey_index)), Some(lane)) => {
                    report.devices(
                        lane,
                        DeviceClient::new(transport, SystemClock::start(), address(&config, pkey_index), cli::random_seed()),
                        args.verbose,
                    )?;
                }
                (None, Some(lane)) => {
                    let devices = lane.share.devices.len();
                    report.line(Verdict::Skip, "devices", &format!("{devices} are not asked: there is no way to them yet"), None)?;
                }
                (_, None) => {}
            }
        }
    }
    #[cfg(not(feature = "umad"))]
    report.fail("HCA", &Failure::NoUmad)?;
    report.end()
}

/// Where a device is asked; its LID comes later.
fn address(config: &Config, pkey_index: u16) -> Address {
    Address { lid: Lid(0), sl: config.engine.sl, pkey_index, timeout: PATIENCE }
}

impl Args {
    fn describe(&self, config: &Config) -> String {
        let file = self.flags.config.as_ref().map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
        let groups = config.engine.groups.len();
        format!("{file}: {groups} groups every {}, window {}", humantime::format_duration(config.interval), config.engine.window)
    }
}

impl Work {
    /// Whose they are, how much it is and of which file.
    fn describe(&self, config: &Config) -> String {
        let (ports, devices) =
            self.blocks().iter().fold((0, 0), |(ports, devices), block| (ports + block.port_count, devices + block.devices.len()));
        let host = self.blocks().first().map(|block| block.host.as_str()).unwrap_or_default();
        let (Source::Assignments(path) | Source::Net(path)) = &config.plan;
        let path = path.display();
        match (self.sha256(), self.blocks().len()) {
            (None, _) => format!("{path}: all of it, {ports} ports of {devices} devices, swept by {host}"),
            (Some(sha256), 1) => format!("{path}: {ports} ports of {devices} devices for {host}, SHA-256 {sha256:.12}..."),
            (Some(sha256), blocks) => {
                format!("{path}: {ports} ports of {devices} devices for {host} in {blocks} blocks, SHA-256 {sha256:.12}...")
            }
        }
    }
}

/// How a step went.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warn,
    Fail,
    Skip,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }

    /// What a terminal shows before and after the word.
    const fn colour(self) -> &'static str {
        match self {
            Self::Ok => "\u{1b}[32m",
            Self::Warn => "\u{1b}[33m",
            Self::Fail => "\u{1b}[1;31m",
            Self::Skip => "\u{1b}[2m",
        }
    }
}

/// What was found so far.
#[derive(Default)]
struct Report {
    ok: u32,
    warned: u32,
    failed: u32,
}

impl Report {
    /// Prints a line, and its remedy below. No terminal obeys what stands in them.
    fn line(&mut self, verdict: Verdict, what: &str, found: &str, remedy: Option<&str>) -> Result<(), Failure> {
        match verdict {
            Verdict::Ok => self.ok += 1,
            Verdict::Warn => self.warned += 1,
            Verdict::Fail => self.failed += 1,
            Verdict::Skip => {}
        }
        let found: Vec<_> = found.lines().map(|line| Printable(line).to_string()).collect();
        let (before, after) = if cli::colours_stdout() { (verdict.colour(), "\u{1b}[0m") } else { ("", "") };
        let mut text = format!("{before}{:<4}{after}  {what:<13}  {}\n", verdict.word(), shown(&found.join(" ")));
        for (number, line) in remedy.unwrap_or_default().lines().enumerate() {
            let lead = if number == 0 { "remedy:" } else { "" };
            text.push_str(&format!("      {lead:<13}  {}\n", shown(&Printable(line.trim()).to_string())));
        }
        cli::print(text.as_bytes()).map_err(Failure::Stdout)
    }

    fn warn(&mut self, what: &str, found: &str, remedy: &str) -> Result<(), Failure> {
        self.line(Verdict::Warn, what, found, Some(remedy))
    }

    fn fail(&mut self, what: &str, error: &dyn Diagnostic) -> Result<(), Failure> {
        let mut found = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            found.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        self.line(Verdict::Fail, what, &found, error.help().map(|help| help.to_string()).as_deref())
    }

    /// A step that gives what later ones need.
    fn step<V, E: Diagnostic>(
        &mut self,
        what: &str,
        done: Result<V, E>,
        describe: impl FnOnce(&V) -> String,
    ) -> Result<Option<V>, Failure> {
        match done {
            Ok(value) => self.line(Verdict::Ok, what, &describe(&value), None).map(|()| Some(value)),
            Err(error) => self.fail(what, &error).map(|()| None),
        }
    }

    /// The sum of all, and the exit code.
    fn end(self) -> Result<ExitCode, Failure> {
        let Self { ok, warned, failed } = self;
        cli::print(format!("\n{failed} failed, {warned} warned, {ok} ok\n").as_bytes()).map_err(Failure::Stdout)?;
        Ok(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// A text as it stands in the last column: on a terminal broken between words, else as it is, so that it can be searched.
fn shown(text: &str) -> String {
    const WIDTH: usize = 80;
    let mut shown = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        match column {
            0 => {}
            _ if std::io::stdout().is_terminal() && column + 1 + length > WIDTH => {
                shown.push_str(&format!("\n{:21}", ""));
                column = 0;
            }
            _ => {
                shown.push(' ');
                column += 1;
            }
        }
        shown.push_str(word);
        column += length;
    }
    shown
}

/// What a device said when it was asked.
enum Found {
    /// Who it should be, and it can be asked for counters.
    Well,
    /// Its counters can be asked, but not who it is.
    Unnamed,
    /// Another device.
    Other(Guid, String),
    /// It has fewer ports than are assigned.
    Smaller(u8),
    /// It is there, but its agent for performance management is not.
    NoAgent(NoAnswer),
    /// Neither.
    Silent(NoAnswer),
}

/// Faults that devices share, in the order in which they are told: the verdict and what to do.
const FAULTS: [(Verdict, &str); 5] = [
    (Verdict::Fail, "the assignments are older than the fabric: run `ibnetdiscover -p` and `ibnet-gen` again"),
    (
        Verdict::Fail,
        "is it up (`ibnetdiscover -p` lists it)? If it is, it may be at another LID: run `ibnetdiscover -p` and `ibnet-gen` again. Its ports will be `timeout` or `unreachable`",
    ),
    (
        Verdict::Fail,
        "performance management needs a P_Key of the device's partition (--pkey) and a service level that leads there (--sl); or the device wants a PM_Key",
    ),
    (Verdict::Fail, "the assignments and the device differ: run `ibnetdiscover -p` and `ibnet-gen` again"),
    (
        Verdict::Warn,
        "it may demand an M_Key: its counters are swept, but its records say `unverified`, and its links are as in the net file",
    ),
];

impl Found {
    /// Its place in [`FAULTS`], and what to say.
    fn fault(&self) -> Option<(usize, String)> {
        match self {
            Self::Well => None,
            Self::Other(guid, name) => Some((0, format!("another device answers there: {guid} `{name}`"))),
            Self::Silent(NoAnswer::NotSent(errno)) => Some((1, NoAnswer::NotSent(*errno).to_string())),
            Self::Silent(_) => Some((1, "does not answer".to_owned())),
            Self::NoAgent(why) => Some((2, format!("answers NodeInfo, but not ClassPortInfo of performance management: {why}"))),
            Self::Smaller(ports) => Some((3, format!("has {ports} ports, fewer than are assigned"))),
            Self::Unnamed => Some((4, "does not say who it is (NodeInfo)".to_owned())),
        }
    }
}

impl Report {
    /// Asks each device of a lane.
    fn devices<T: Transport>(&mut self, lane: &Lane, mut asker: DeviceClient<T>, verbose: bool) -> Result<(), Failure> {
        let devices = &lane.share.devices;
        let bar = Progress::new(devices.len() as u64, "devices");
        let mut faults: [Vec<(&Device, String)>; FAULTS.len()] = Default::default();
        let mut well = Vec::new();
        for device in devices {
            match look(&mut asker, device).map_err(Failure::Lost)?.fault() {
                Some((place, said)) => faults[place].push((device, said)),
                None => well.push(device),
            }
            bar.advance();
        }
        bar.finish();
        let name = |device: &Device| format!("{} (LID {}, {})", device.name, device.lid, device.guid);
        for device in well.iter().filter(|_| verbose) {
            self.line(Verdict::Ok, "device", &name(device), None)?;
        }
        for ((verdict, remedy), of_kind) in FAULTS.into_iter().zip(&faults) {
            for (place, (device, said)) in of_kind.iter().take(MOST_NAMED).enumerate() {
                // Where several have the same fault, its remedy stands below the last.
                let is_last = place + 1 == of_kind.len();
                self.line(verdict, "device", &format!("{}: {said}", name(device)), is_last.then_some(remedy))?;
            }
            if let Some(more) = of_kind.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
                self.line(verdict, "devices", &format!("{more} more of the same"), Some(remedy))?;
            }
        }
        let found = format!("{} of {} answer who they are and for their performance management", well.len(), devices.len());
        if well.is_empty() && faults.iter().zip(FAULTS).any(|(of_kind, (verdict, _))| verdict == Verdict::Fail && !of_kind.is_empty()) {
            let remedy = "none does: is this the HCA port of that fabric (--ca), and are --pkey and --sl right?";
            return self.line(Verdict::Fail, "devices", &found, Some(remedy));
        }
        // Of those that do not it was told above.
        self.line(Verdict::Ok, "devices", &found, None)
    }
}

/// Asks a device who it is, and whether its counters can be asked.
fn look<T: Transport>(asker: &mut DeviceClient<T>, device: &Device) -> Result<Found, TransportError> {
    asker.turn_to(device.lid);
    let subnet = |attribute| Query::Smp(smp::Query { attribute, port: PortNum(0) });
    let info = asker.request(&subnet(smp::NODE_INFO))?.answer.map(|(_, data)| NodeInfo::parse(&data));
    if let Ok(info) = info
        && info.port_guid != device.guid
    {
        let name = asker.request(&subnet(smp::NODE_DESCRIPTION))?.answer;
        return Ok(Found::Other(info.port_guid, name.map(|(_, data)| smp::node_description(&data)).unwrap_or_default()));
    }
    let agent = asker.request(&Query::Pma(pma::Query { attribute: CLASS_PORT_INFO.id, port: None }))?.answer;
    let last = device.ports.iter().map(|port| port.num.0).max().unwrap_or(0);
    Ok(match (info, agent) {
        // A busy agent is there.
        (Ok(info), Ok(_) | Err(NoAnswer::Refused(MadStatus::BUSY))) if info.ports < last => Found::Smaller(info.ports),
        (Ok(_), Ok(_) | Err(NoAnswer::Refused(MadStatus::BUSY))) => Found::Well,
        (Ok(_), Err(why)) => Found::NoAgent(why),
        (Err(_), Ok(_)) => Found::Unnamed,
        (Err(why), Err(_)) => Found::Silent(why),
    })
}

#[cfg(feature = "umad")]
mod hca {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use ibnet::config::Config;
    use ibnet::mad::transport::umad::{HcaPort, UmadError, UmadTransport, ports};
    use ibnet::types::HcaName;

    use super::{Report, Verdict};
    use crate::Failure;

    /// The P_Key's bit that says that a member is a full one.
    const FULL: u16 = 0x8000;

    impl Report {
        /// Walks from the adapter to its P_Key; gives what MADs can be sent through, if nothing failed.
        pub(super) fn hca(&mut self, config: &Config, ca: &HcaName) -> Result<Option<(UmadTransport, u16)>, Failure> {
            let port = match ports::find(ca) {
                Ok(port) => port,
                Err(error) => {
                    let what = match error {
                        UmadError::NotInfiniband { .. } => "link layer",
                        UmadError::NotActive { .. } | UmadError::NoneActive { .. } => "port state",
                        _ => "HCA",
                    };
                    return self.fail(what, &error).map(|()| None);
                }
            };
            self.line(Verdict::Ok, "HCA", &port.to_string(), None)?;
            self.line(Verdict::Ok, "link layer", &port.link_layer, None)?;
            self.line(Verdict::Ok, "port state", &format!("active, LID {}", port.lid), None)?;
            let transport = self.step("permissions", UmadTransport::open(&port), |_| format!("{port} can be opened"))?;
            self.world()?;
            let prefix = format!("prefix {:#018x}", port.gid.prefix);
            if port.sm_lid.0 == 0 {
                let remedy = "LIDs may not lead anywhere: does a subnet manager run (`sminfo`)?";
                self.line(Verdict::Fail, "subnet", &format!("{prefix}, no subnet manager is known"), Some(remedy))?;
            } else {
                self.line(Verdict::Ok, "subnet", &format!("{prefix}, subnet manager at LID {}", port.sm_lid), None)?;
            }
            let pkey_index = self.pkey(&port, config.pkey)?;
            Ok(transport.zip(pkey_index))
        }

        fn pkey(&mut self, port: &HcaPort, pkey: u16) -> Result<Option<u16>, Failure> {
            match membership(port, pkey) {
                Ok((verdict, found, remedy, index)) => self.line(verdict, "P_Key", &found, remedy).map(|()| index),
                Err(error) => self.fail("P_Key", &error).map(|()| None),
            }
        }

        /// Warns of devices that all may open: whoever holds one can send any MAD.
        fn world(&mut self) -> Result<(), Failure> {
            let nodes = fs::read_dir("/dev/infiniband").into_iter().flatten().filter_map(Result::ok);
            let mut open: Vec<String> = nodes
                .filter(|node| node.file_name().to_string_lossy().starts_with("umad"))
                .filter(|node| node.metadata().is_ok_and(|found| found.mode() & 0o006 != 0))
                .map(|node| node.path().display().to_string())
                .collect();
            open.sort();
            if open.is_empty() {
                return Ok(());
            }
            let remedy = "whoever opens one can send any management packet: give a group the devices with this udev rule:\n\
                          SUBSYSTEM==\"infiniband_mad\", KERNEL==\"umad*\", GROUP=\"ibnet\", MODE=\"0660\"";
            self.warn("permissions", &format!("everybody on this host may open {}", open.join(" ")), remedy)
        }
    }

    /// What a P_Key of this port is worth: the verdict, what was found, the remedy, and its place in the table.
    type Worth = (Verdict, String, Option<&'static str>, Option<u16>);

    fn membership(port: &HcaPort, pkey: u16) -> Result<Worth, UmadError> {
        const LIMITED: &str = "a limited member cannot talk to a limited member, and most agents are such: have the subnet manager make this host a full member, or give another key with --pkey";
        const FULL_WANTED: &str = "only full members answer a limited one: give a full member's key with --pkey, such as 0xffff";
        match port.pkey_index(pkey) {
            Ok(index) if pkey & FULL == 0 => {
                Ok((Verdict::Warn, format!("{pkey:#06x} is a limited member's, at index {index}"), Some(FULL_WANTED), Some(index)))
            }
            Ok(index) => Ok((Verdict::Ok, format!("{pkey:#06x}, full member, at index {index}"), None, Some(index))),
            Err(_) if pkey & FULL != 0 && port.pkeys.contains(&(pkey & !FULL)) => {
                let found = format!("{pkey:#06x}: this host is a limited member only ({:#06x})", pkey & !FULL);
                Ok((Verdict::Fail, found, Some(LIMITED), None))
            }
            Err(error) => Err(error),
        }
    }

    #[cfg(test)]
    mod tests {
        use ibnet::mad::sa::Gid;
        use ibnet::types::{Lid, PortNum};

        use super::*;

        #[test]
        fn a_limited_member_is_told_so() {
            let port = |pkeys: &[u16]| HcaPort {
                ca: "mlx5_0".to_owned(),
                port: PortNum(1),
                lid: Lid(7),
                sm_lid: Lid(1),
                sm_sl: 0,
                gid: Gid::default(),
                state: 4,
                link_layer: "InfiniBand".to_owned(),
                pkeys: pkeys.to_vec(),
            };
            let told =
                |pkeys: &[u16], pkey| membership(&port(pkeys), pkey).map(|(verdict, found, _, index)| (verdict.word(), found, index));
            let full = told(&[0x7fff, 0xffff], 0xffff).expect("it is in the table");
            assert_eq!(full, ("ok", "0xffff, full member, at index 1".to_owned(), Some(1)));
            let asked = told(&[0x7fff], 0x7fff).expect("it is in the table");
            assert_eq!(asked, ("warn", "0x7fff is a limited member's, at index 0".to_owned(), Some(0)));
            let only = told(&[0x7fff], 0xffff).expect("it is told of its own");
            assert_eq!(only, ("fail", "0xffff: this host is a limited member only (0x7fff)".to_owned(), None));
            assert!(matches!(told(&[0x7fff], 0x8001), Err(UmadError::NoPkey { .. })));
        }
    }
}
