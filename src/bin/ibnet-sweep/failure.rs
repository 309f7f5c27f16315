//! Errors that end the program, and their exit codes.

use ibnet::assignments::AssignmentsError;
use ibnet::config::ConfigError;
use ibnet::mad::transport::TransportError;
use ibnet::output::OutputError;
use ibnet::topology::NetFileError;
use ibnet::types::{Lid, PortNum, Printable};
use miette::Diagnostic;

/// Exit code: the input or the environment is wrong.
const WRONG_INPUT: u8 = 1;

/// Exit code: records for a file or for NATS were dropped at the end, or a worker failed.
const INCOMPLETE: u8 = 4;

/// An error that ends the program.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(super) enum Failure {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Assignments(#[from] AssignmentsError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Net(#[from] NetFileError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Metrics(#[from] ibnet::metrics::ServerError),
    #[cfg(feature = "umad")]
    #[error(transparent)]
    #[diagnostic(transparent)]
    Umad(#[from] ibnet::mad::transport::umad::UmadError),
    #[cfg(not(feature = "umad"))]
    #[error("cannot sweep a real fabric: this ibnet-sweep was built without InfiniBand")]
    #[diagnostic(help("build it with the feature `umad` (a default feature), or use --simulate FILE"))]
    NoUmad,
    #[error("cannot use ca: the assignments give this host ports of several subnets, and an HCA port reaches one subnet")]
    #[diagnostic(help("leave --ca out: the assignments name an HCA for each subnet; or sweep one subnet with --sampler: {known}"))]
    SeveralSubnets { known: String },
    #[error("{net}: nothing to sweep: the file has no linked port")]
    #[diagnostic(help("run `ibnetdiscover -p` on a host whose link is up"))]
    NothingLinked { net: String },
    #[error("cannot use simulated.dead: there is no such device in {net} (found {name:?})")]
    #[diagnostic(help("give the whole node description of the net file, or its first word"))]
    NoSuchDevice { name: String, net: String },
    #[error("cannot simulate the scenario {scenario}: {net} has too few hosts")]
    #[diagnostic(help("use a net file with three hosts or more, or the scenario jobs"))]
    FabricTooSmall { scenario: &'static str, net: String },
    #[error("cannot name a file after the sampler `{}`", Printable(host))]
    #[diagnostic(help("write all samplers into one file with -o FILE; the records name their sampler"))]
    SamplerFileName { host: String },
    #[error("cannot create the folder {folder}")]
    #[diagnostic(help("give a folder in a directory that you may write to, or a file with -o FILE"))]
    Folder {
        folder: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot combine the outputs: some are folders with a file for each sampler, others are not")]
    #[diagnostic(help("with --sampler all give either folders only (\"DIR/\"), or no folder"))]
    MixedOutputs,
    #[error("cannot add the sampler `{}` while sweeping: its file is not open", Printable(host))]
    #[diagnostic(help("start ibnet-sweep again"))]
    NewSampler { host: String },
    #[error("LID {lid} does not answer")]
    #[diagnostic(help(
        "is it the LID of a switch or an HCA port that is up (`ibnetdiscover -p` lists them), and can this host reach it? A slow device may need --timeout 2s"
    ))]
    NoAnswer { lid: Lid },
    #[error("LID {lid} answers NodeInfo, but no query of performance management")]
    #[diagnostic(help(
        "these MADs need a P_Key of the device's partition (--pkey) and a service level that reaches it (--sl); or the device requires a PM_Key"
    ))]
    NoAgent { lid: Lid },
    #[error("LID {lid} answered none of the groups for port {port}")]
    #[diagnostic(help("does the device have this port? The notes above give the reason for each group; every device has the group base"))]
    NoGroup { lid: Lid, port: PortNum },
    #[error("cannot make a record of LID {lid}: the device does not answer NodeInfo, so its GUID is unknown")]
    #[diagnostic(help("leave --json out to see the counters; a device that requires an M_Key does not answer subnet management packets"))]
    NoGuid { lid: Lid },
    #[error("the connection to the fabric was lost")]
    #[diagnostic(help("is the HCA still present (`ibstat`)? Run the command again once it is"))]
    TransportLost(#[source] TransportError),
    #[error("a worker failed: the connection to the fabric was lost")]
    #[diagnostic(help("is the HCA still present (`ibstat`)? Start ibnet-sweep again once it is"))]
    WorkerFailed(#[source] TransportError),
    #[error("a worker did not stop within {time} after the signal; the records of its last slot are missing")]
    #[diagnostic(help("a MAD could not be handed to the kernel: look for errors of the HCA in `dmesg`; `drain` sets this time"))]
    WorkerHangs { time: String },
    #[error("ended by a second signal before a worker closed its slot; the records of that slot are missing")]
    #[diagnostic(help("send one signal only: the workers and the outputs then have the time `drain`"))]
    SecondSignal,
    #[error("cannot write to standard output")]
    #[diagnostic(help("is there room on the disk it is redirected to?"))]
    Stdout(#[source] std::io::Error),
    #[error("{dropped} records were dropped at the end: cannot write them to {names}")]
    #[diagnostic(help(
        "is there room on the disk, does the reader read, is the server up? The log above has the errors; `drain` sets the time after a signal"
    ))]
    Dropped { dropped: u64, names: String },
    #[error("cannot append records to {output}: it is the {input} too; nothing was written")]
    #[diagnostic(help("give the records their own file with -o FILE"))]
    OverInput { output: String, input: &'static str },
    #[error("a thread of the program ended unexpectedly; this is a bug in ibnet")]
    #[diagnostic(help("please report it with the messages above"))]
    Crashed,
    #[error("cannot use cpus: a thread cannot run on CPU {cpu}")]
    #[diagnostic(help("give CPUs that this process may use (`nproc` counts them, `taskset -p $$` lists them), or none"))]
    Pin {
        cpu: usize,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot change {key} while sweeping")]
    #[diagnostic(help("start ibnet-sweep again: systemctl restart ibnet-sweep"))]
    NeedsRestart { key: String },
    #[error("cannot start the threads of the program")]
    Threads(#[source] std::io::Error),
}

impl Failure {
    /// Returns the exit code.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Dropped { .. } | Self::WorkerFailed(_) | Self::WorkerHangs { .. } | Self::SecondSignal | Self::Crashed => INCOMPLETE,
            _ => WRONG_INPUT,
        }
    }

    /// Returns the error with its causes on one line, for an event.
    pub(super) fn one_line(&self) -> String {
        let mut line = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            line.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        line.lines().collect::<Vec<_>>().join(" ")
    }
}
