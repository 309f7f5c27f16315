//! Why the program ends with an error.

use ibnet::assignments::AssignmentsError;
use ibnet::config::ConfigError;
use ibnet::mad::transport::TransportError;
use ibnet::sink::SinkError;
use ibnet::topology::NetFileError;
use ibnet::types::{Lid, PortNum};
use miette::Diagnostic;

/// Whatever ends the program with exit code 1.
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
    Sink(#[from] SinkError),
    #[cfg(feature = "umad")]
    #[error(transparent)]
    #[diagnostic(transparent)]
    Umad(#[from] ibnet::mad::transport::umad::UmadError),
    #[cfg(not(feature = "umad"))]
    #[error("this ibnet-sweep was built without InfiniBand")]
    #[diagnostic(help("build it with the feature `umad` (the default), or try --simulate FILE"))]
    NoUmad,
    #[error("ca: the assignments give this host ports of several subnets, and an HCA port reaches one")]
    #[diagnostic(help("leave --ca out: the assignments name an HCA for each; or sweep one of them with --sampler: {known}"))]
    SeveralSubnets { known: String },
    #[error("{source_name}: no linked port in it: nothing to sweep")]
    #[diagnostic(help("run `ibnetdiscover -p` on a host whose link is up"))]
    NothingLinked { source_name: String },
    #[error("simulated.dead: there is no device {name:?} in {net}")]
    #[diagnostic(help("give a node's whole name, or its first word, as it stands in the net file"))]
    NoSuchDevice { name: String, net: String },
    #[error("LID {lid} does not answer")]
    #[diagnostic(help(
        "is it the LID of a switch or an adapter that is up (`ibnetdiscover -p` lists them), and is there a way to it? A slow one may need --timeout 2s"
    ))]
    NoAnswer { lid: Lid },
    #[error("LID {lid} says who it is, but nothing of its performance management")]
    #[diagnostic(help(
        "those MADs need a P_Key of its partition (--pkey) and a service level that leads there (--sl); or the device wants a PM_Key"
    ))]
    NoAgent { lid: Lid },
    #[error("LID {lid} answered none of the groups for port {port}")]
    #[diagnostic(help("has the device that port? The notes above say what it said of each group; every device has the group base"))]
    NoGroup { lid: Lid, port: PortNum },
    #[error("LID {lid} does not say who it is (NodeInfo), and a record is nothing without its GUID")]
    #[diagnostic(help("ask without --json to see the counters; a device that wants an M_Key answers no subnet management"))]
    Nameless { lid: Lid },
    #[error("the way to the fabric was lost")]
    #[diagnostic(help("is the HCA still there (`ibstat`)? Start ibnet-sweep again once it is"))]
    Lost(#[source] TransportError),
    #[error("standard output cannot be written")]
    #[diagnostic(help("is there room where it goes to?"))]
    Stdout(#[source] std::io::Error),
    #[error("the last {lines} lines could not be written")]
    #[diagnostic(help("is there room on the disk? is the server there? What stands above says what failed"))]
    Unwritten { lines: u64 },
    #[error("{output}: is the {input} too; nothing was written")]
    #[diagnostic(help("give the records a file of their own with -o FILE"))]
    OverInput { output: String, input: &'static str },
    #[error("a part of the program ended early; this is a mistake in ibnet")]
    #[diagnostic(help("please report it, with what stands above"))]
    Crashed,
    #[error("cpus: a thread cannot be kept on CPU {cpu}")]
    #[diagnostic(help("give CPUs that this process may use (`nproc` counts them, `taskset -p $$` shows them), or none"))]
    Pin {
        cpu: usize,
        #[source]
        source: std::io::Error,
    },
    #[error("{key}: only a start can change it")]
    #[diagnostic(help("start ibnet-sweep again: systemctl restart ibnet-sweep"))]
    NeedsStart { key: String },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Metrics(#[from] ibnet::metrics::ServerError),
    #[error("the program's threads could not be started")]
    Runtime(#[source] std::io::Error),
}
