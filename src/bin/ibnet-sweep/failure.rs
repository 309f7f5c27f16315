//! Errors that end the program, and their exit codes.

use ibnet::assignments::AssignmentsError;
use ibnet::config::ConfigError;
use ibnet::discovery::DiscoveryError;
use ibnet::distribution::DistributionError;
use ibnet::mad::transport::TransportError;
use ibnet::output::OutputError;
use ibnet::sweep::query::NoAnswer;
use ibnet::topology::NetFileError;
use ibnet_record::types::{Lid, PortNum, Printable};
use miette::Diagnostic;

/// Exit code: the input or the environment is wrong.
const WRONG_INPUT: u8 = 1;

/// Exit code: records for a file, standard output or NATS were dropped at the end, or a worker
/// failed.
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
    Distribution(std::sync::Arc<DistributionError>),
    #[error(
        "cannot wait for the time of this plan ({at}): another plan or another reload came before it"
    )]
    #[diagnostic(help("none: the newest plan is read now"))]
    Superseded { at: String },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Net(#[from] NetFileError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Report(#[from] ibnet::cli::OutputError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Metrics(#[from] ibnet::metrics::ServerError),
    #[cfg(feature = "umad")]
    #[error(transparent)]
    #[diagnostic(transparent)]
    Umad(#[from] ibnet::mad::transport::umad::UmadError),
    #[cfg(not(feature = "umad"))]
    #[error("cannot sweep a real fabric: this ibnet-sweep was built without InfiniBand")]
    #[diagnostic(help(
        "build it with the feature `umad` (a default feature), or use --simulate FILE"
    ))]
    NoUmad,
    #[error(
        "cannot use ca: the assignments give this host ports of several subnets, and an HCA port reaches one subnet"
    )]
    #[diagnostic(help(
        "omit --ca: the assignments give an HCA for each subnet; or sweep one subnet with --sampler: {known}"
    ))]
    SeveralSubnets { known: String },
    #[error("cannot sweep {net}: the file has no linked port")]
    #[diagnostic(help("run `ibnet-gen discover` on a host whose link is up"))]
    NothingLinked { net: String },
    #[error("cannot use simulated.dead: there is no such device in {net} (found {name:?})")]
    #[diagnostic(help("give the whole node description of the net file, or its first word"))]
    NoSuchDevice { name: String, net: String },
    #[error("cannot simulate the scenario {scenario}: {net} has too few hosts")]
    #[diagnostic(help("use a net file with three hosts or more, or the scenario jobs"))]
    FabricTooSmall { scenario: &'static str, net: String },
    #[error(
        "cannot name a file after the sampler: its name is not a valid file name (found `{}`)",
        Printable(host)
    )]
    #[diagnostic(help(
        "write all samplers into one file with -o FILE; the records name their sampler"
    ))]
    SamplerFileName { host: String },
    #[error("cannot create the folder {folder}")]
    #[diagnostic(help(
        "give a folder in a directory with write permission, or a file with -o FILE"
    ))]
    Folder {
        folder: String,
        #[source]
        source: std::io::Error,
    },
    #[cfg(feature = "nats")]
    #[error("cannot write to the folder {folder}")]
    #[diagnostic(help("{}", folder_remedy(source)))]
    Collected {
        folder: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "cannot combine the outputs: some are folders with a file for each sampler, others are not"
    )]
    #[diagnostic(help("with --sampler all give either folders only (\"DIR/\"), or no folder"))]
    MixedOutputs,
    #[error(
        "cannot add the sampler `{}` while sweeping: its file is not open",
        Printable(host)
    )]
    #[diagnostic(help("start ibnet-sweep again"))]
    NewSampler { host: String },
    #[error("cannot query LID {lid}: it does not answer")]
    #[diagnostic(help(
        "check that the LID belongs to a switch or an HCA port that is up (`ibnet-gen discover` lists them) and that this host can reach it; a slow device may need --timeout 2s"
    ))]
    NoAnswer { lid: Lid },
    #[error("cannot query LID {lid}: it answers NodeInfo, but no query of performance management")]
    #[diagnostic(help(
        "these MADs need a P_Key of the device's partition (--pkey) and a service level that reaches it (--sl); or the device requires a PM_Key"
    ))]
    NoAgent { lid: Lid },
    #[error("cannot query port {port} of LID {lid}: none of the groups was answered")]
    #[diagnostic(help(
        "check that the device has this port; the notes above give the reason for each group; every device has the group base"
    ))]
    NoGroup { lid: Lid, port: PortNum },
    #[error("cannot read PortInfo of port {port} of LID {lid}: {reason}")]
    #[diagnostic(help(
        "check that the device has this LID (`ibnet-gen discover`) and this port; a device that requires an M_Key does not answer subnet management packets"
    ))]
    NoPortInfo {
        lid: Lid,
        port: PortNum,
        reason: NoAnswer,
    },
    #[error("cannot read the physical layer of port {port} of LID {lid}: {reason}")]
    #[diagnostic(help(
        "only devices of NVIDIA give it, if they have AccessRegisterGMP and the subnet manager has set no VS_Key; check the LID, the port (`ibnet-gen discover`) and --timeout"
    ))]
    NoPhysical {
        lid: Lid,
        port: PortNum,
        reason: NoAnswer,
    },
    #[error(
        "cannot make a record of LID {lid}: the device does not answer NodeInfo, so its GUID is unknown"
    )]
    #[diagnostic(help(
        "omit --json to see the counters; a device that requires an M_Key does not answer subnet management packets"
    ))]
    NoGuid { lid: Lid },
    #[error("cannot continue: the connection to the fabric was lost")]
    #[diagnostic(help("check that the HCA is present (`ibstat`), and run the command again"))]
    TransportLost(#[source] TransportError),
    #[error("cannot continue the sweep: the connection to the fabric was lost")]
    #[diagnostic(help("check that the HCA is present (`ibstat`), and start ibnet-sweep again"))]
    WorkerFailed(#[source] TransportError),
    #[error(
        "cannot write the records of the last slot: a worker did not stop within {time} after the signal"
    )]
    #[diagnostic(help(
        "the kernel did not accept a MAD: look for errors of the HCA in `dmesg`; `drain` sets this time"
    ))]
    WorkerHangs { time: String },
    #[error(
        "ended by a second signal before a worker closed its slot; the records of that slot are missing"
    )]
    #[diagnostic(help(
        "send one signal only: the workers and the outputs then have the time `drain`"
    ))]
    SecondSignal,
    #[error("cannot write to standard output")]
    #[diagnostic(help("check that the file system it is redirected to has free space"))]
    Stdout(#[source] std::io::Error),
    #[error("cannot write all records to {names}: {dropped} records were dropped at the end")]
    #[diagnostic(help(
        "check that the disk has free space, that the reader reads and that the server runs; the log above has the errors; `drain` sets the time after a signal"
    ))]
    Dropped { dropped: u64, names: String },
    #[error("cannot append records to {output}: it is also the {input}; nothing was written")]
    #[diagnostic(help("give the records their own file with -o FILE"))]
    OverInput { output: String, input: &'static str },
    #[error("cannot continue: a thread of the program panicked; this is a bug in ibnet")]
    #[diagnostic(help("report it with the messages above"))]
    Crashed,
    #[error("cannot use cpus: a thread cannot run on CPU {cpu}")]
    #[diagnostic(help(
        "give CPUs that this process may use (`nproc` counts them, `taskset -p $$` lists them), or none"
    ))]
    Pin {
        cpu: usize,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot change {key} while sweeping")]
    #[diagnostic(help("start ibnet-sweep again: systemctl restart ibnet-sweep"))]
    NeedsRestart { key: String },
    #[error("cannot read the state of the samplers: no source is given")]
    #[diagnostic(help(
        "give --from nats://HOST:4222 or --from http://HOST:8080 (ibnet-hub), or a configuration with a NATS output"
    ))]
    NoSource,
    #[error("cannot read from {from}: this ibnet-sweep was built without NATS")]
    #[cfg(not(feature = "nats"))]
    #[diagnostic(help(
        "build it with the feature `nats`, or give --from http://HOST:8080 (ibnet-hub)"
    ))]
    NoNats { from: String },
    #[error(
        "cannot use --from: expected nats://, tls:// or http:// (found {})",
        Printable(from)
    )]
    #[diagnostic(help(
        "give --from nats://HOST:4222 for a NATS server, or --from http://HOST:8080 for ibnet-hub"
    ))]
    WrongSource { from: String },
    #[error("cannot read from {from}: {}", Printable(reason))]
    #[diagnostic(help("{help}"))]
    Source {
        from: String,
        reason: String,
        help: &'static str,
    },
    #[cfg(feature = "nats")]
    #[error(
        "cannot read the subject {}: several streams have it (found {})",
        Printable(subject),
        Printable(streams)
    )]
    #[diagnostic(help("{help}"))]
    SeveralStreams {
        subject: String,
        streams: String,
        help: &'static str,
    },
    #[cfg(feature = "nats")]
    #[error(
        "cannot use the consumer {} of the stream {}: {}",
        Printable(consumer),
        Printable(stream),
        Printable(wrong)
    )]
    #[diagnostic(help(
        "give another name with --consumer; or delete this one (`nats consumer rm {} {}`): the next start creates it, and reads the whole stream",
        Printable(stream),
        Printable(consumer)
    ))]
    Consumer {
        consumer: String,
        stream: String,
        wrong: String,
    },
    #[error("cannot start the threads of the program")]
    Threads(#[source] std::io::Error),
}

/// Returns the remedy if the files of `collect` cannot be written.
#[cfg(feature = "nats")]
fn folder_remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            "check the free space (`df`), the quota and the largest size of files (`ulimit -f`); the server keeps the records that are not in a file"
        }
        _ => {
            "give a folder in a directory with write permission that no other ibnet-sweep collect uses"
        }
    }
}

impl Failure {
    /// Returns the exit code.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Dropped { .. }
            | Self::WorkerFailed(_)
            | Self::WorkerHangs { .. }
            | Self::SecondSignal
            | Self::Crashed => INCOMPLETE,
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
