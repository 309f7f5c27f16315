//! `ibnet-sweep verify`: compares the decoding and the queries of ibnet with those of libibmad,
//! on devices of the site. Each step prints one line.

use std::path::{Path, PathBuf};

#[cfg(feature = "umad")]
use ibnet::cli::{self, Staged};
#[cfg(feature = "umad")]
use ibnet::verify::report::{ProgramReport, Report as Document};

#[cfg(feature = "umad")]
use self::fabric::Fabric;
#[cfg(feature = "umad")]
use super::check::report::{Report, Verdict};
use super::failure::Failure;
use super::flags::{DEFAULT_CONFIG, Flags};

#[cfg(feature = "umad")]
mod fabric;
#[cfg(feature = "umad")]
mod lines;
#[cfg(feature = "umad")]
mod programs;
#[cfg(feature = "umad")]
mod run;
#[cfg(feature = "umad")]
mod slot;
#[cfg(feature = "umad")]
mod vendor;

/// Compare the results of ibnet with those of libibmad on devices of this fabric
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Number of devices of each model that are compared [default: 2; with --vendor, 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    devices: Option<u16>,
    /// Read every register of the physical layer once instead, from one device of each model and
    /// firmware, and compare nothing: the replies are the report
    #[arg(long)]
    vendor: bool,
    /// With --vendor, also print the octets of the replies
    #[arg(long, requires = "vendor")]
    raw: bool,
    /// Also write the results as JSON, without the names and GUIDs of the site; `-` is standard
    /// output
    #[arg(long, value_name = "FILE|-")]
    report: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep verify --net fabric.p
  ibnet-sweep verify -c /etc/ibnet/ibnet.toml --devices 5 --report verify.json
  ibnet-sweep verify --simulate fabric.p
  ibnet-sweep verify --net fabric.p --vendor --report vendor.json

Each attribute of a device is read three times: by ibnet, by libibmad, and by
ibnet again. A counter of libibmad must be between the two values of ibnet, and
any other field must be equal. Only Get requests are sent, one after another;
the exceptions are bursts of four requests in flight to one device of each
model, and one burst to a LID that does not exist. The number of MADs is printed
before the first one is sent, and about 80 for each device. Where ibnetdiscover
and perfquery are installed, their output is compared too.

A report has LIDs, port numbers and device IDs, and the same substitutes for
names and GUIDs as `ibnet-gen anonymise`. It also has the type, the firmware and
the board of the HCA, the release of the kernel and the version of rdma-core.

With --vendor, at most 1,000 devices are asked for model and firmware, and one of
each is read: at most 50 Gets a second, and 2,900 in all. Serial numbers, and the
GUIDs of peers, become zeros.

On a simulated fabric a second client of ibnet replaces the queries of libibmad;
libibmad decodes its replies. This compares the decoders and the values of two
readings, but not the queries.

Exit codes: 0 everything is equal; 1 the input or the environment is wrong;
2 the arguments are wrong; 3 something is different.";

/// Exit code: ibnet and libibmad differ.
#[cfg(feature = "umad")]
const DIFFERENT: u8 = 3;

#[cfg(not(feature = "umad"))]
pub(super) fn run(_args: &Args) -> Result<u8, Failure> {
    Err(Failure::NoUmad)
}

#[cfg(feature = "umad")]
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let config = args.flags.config()?;
    let devices = args.devices.map(usize::from);
    if args.vendor {
        return vendor::run(
            &config,
            devices.unwrap_or(1),
            args.raw,
            args.report.as_deref(),
        );
    }
    let mut step = Steps {
        lines: Report::default(),
        document: Document::default(),
        per_model: devices.unwrap_or(2),
    };
    let fabric = Fabric::load(&config)?;
    run::run(&config, &fabric, &mut step)?;
    let Steps { document, .. } = step;
    if let Some(path) = &args.report {
        Staged::new(path, document.to_json().as_bytes())?.commit()?;
    }
    let Document {
        differences,
        mads_sent,
        ..
    } = document;
    let verdict = if differences == 0 {
        "equal"
    } else {
        "different"
    };
    let next = match &args.report {
        _ if differences == 0 => String::new(),
        Some(path) => format!("attach {} to an issue of the project\n", path.display()),
        None => "run the command again with --report verify.json, and attach the file to an issue of the project\n".to_owned(),
    };
    cli::print(
        format!("\n{verdict}: {differences} differences, {mads_sent} MADs sent\n{next}").as_bytes(),
    )
    .map_err(Failure::Stdout)?;
    Ok(if differences == 0 { 0 } else { DIFFERENT })
}

impl Args {
    /// Takes over the flags before the command. Returns false if a flag is given in both places.
    /// Uses the default configuration file if none is given.
    pub(super) fn take_flags(&mut self, before: &Flags) -> bool {
        let is_once = self.flags.merge(before);
        self.flags.use_default_config(Path::new(DEFAULT_CONFIG));
        is_once
    }

    /// Returns whether the invalid value of this failure came from a flag.
    pub(super) fn gave(&self, failure: &Failure) -> bool {
        self.flags.gave(failure)
    }
}

/// The lines printed so far, the document, and the options of the steps.
#[cfg(feature = "umad")]
struct Steps {
    lines: Report,
    document: Document,
    /// Number of devices of each model to compare.
    per_model: usize,
}

#[cfg(feature = "umad")]
impl Steps {
    fn line(&mut self, verdict: Verdict, what: &str, found: &str) -> Result<(), Failure> {
        self.lines.line(verdict, what, found, None)
    }

    /// Prints a line, counts the differences, and adds an entry to the document.
    fn program(&mut self, entry: ProgramReport, found: &str) -> Result<(), Failure> {
        let (program, different) = (entry.program, entry.different);
        let version = entry
            .version
            .as_ref()
            .map(|version| format!(" (rdma-core {version})"))
            .unwrap_or_default();
        self.document.programs.push(entry);
        self.document.differences += different;
        self.line(
            if different == 0 {
                Verdict::Ok
            } else {
                Verdict::Differ
            },
            program,
            &format!("{found}{version}"),
        )
    }
}
