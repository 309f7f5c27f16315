//! `--host-metrics` and `--host-metric`: metrics of hosts beside those of the fabric.

use std::path::PathBuf;

use ibnet::{cli, limits};
use ibnet_analysis::host_metrics::{self, Access, HostMetrics, Range, Request, Source};
use ibnet_analysis::hosts::HostNames;

use crate::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    /// Also show metrics of the hosts, on the same time axis. SOURCE is the address of Prometheus
    /// (`http://HOST:9090`), or files: JSON lines, CSV, or those of the LDMS store_csv. Repeatable
    #[arg(long = "host-metrics", value_name = "SOURCE")]
    sources: Vec<String>,
    /// Metric of the hosts: ipoib, nfs, lustre (the default is all three), or a name of the source,
    /// such as `node_network_*_bytes_total{device=ib*}`. Counters become rates. Repeatable
    #[arg(long = "host-metric", value_name = "NAME", requires = "sources")]
    requests: Vec<Request>,
    /// File with the password of the user in the address of Prometheus, or with a bearer token
    #[arg(long, value_name = "FILE", requires = "sources")]
    host_metrics_password_file: Option<PathBuf>,
}

impl HostArgs {
    /// Reads the metrics of these hosts, and reports on standard error what was left out. Returns
    /// `None` if no source was given.
    pub(crate) fn load(&self, names: &HostNames, range: Range) -> Result<Option<HostMetrics>, Failure> {
        if self.sources.is_empty() {
            return Ok(None);
        }
        let sources: Vec<Source> = self.sources.iter().map(|source| Source::from(&**source)).collect();
        let requests = if self.requests.is_empty() { Request::defaults() } else { self.requests.clone() };
        let secret = self.host_metrics_password_file.as_deref().map(|path| cli::read(path, limits::SECRET)).transpose()?;
        let access = Access { secret: secret.map(|secret| String::from_utf8_lossy(&secret).trim_end_matches(['\r', '\n']).to_owned()) };
        let loaded = host_metrics::load(&sources, &access, &requests, names, range)?;
        loaded.notes.iter().for_each(|note| cli::note(&format!("hosts     {note}\n")));
        Ok(Some(loaded))
    }
}
