//! `--host-metrics` and `--host-metric`: metrics of hosts beside those of the fabric.

use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet::http_client::Access;
use ibnet_analysis::heat::grid::Grid;
use ibnet_analysis::heat::order::{RowId, RowLabel};
use ibnet_analysis::host_metrics::panels::{self, Columns};
use ibnet_analysis::host_metrics::{self, HostMetrics, Range, Request, Source};
use ibnet_analysis::hosts::HostNames;
use ibnet_analysis::job::all::JobsTraffic;
use ibnet_analysis::when::Zone;
use ibnet_record::limits;
use ibnet_record::types::Printable;
use ibnet_view::picture::timeline::Timeline;
use ibnet_view::terminal;

use self::http::HttpServer;
use crate::Failure;
use crate::format::{Document, Format};

mod http;

#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    /// Also show metrics of the hosts, on the same time axis. SOURCE is the address of Prometheus
    /// (`http://HOST:9090`), or files: JSON lines, CSV, or those of the LDMS store_csv. Repeatable
    #[arg(long = "host-metrics", value_name = "SOURCE")]
    sources: Vec<String>,
    /// Metric of the hosts: ipoib, nfs, lustre (the default is all three), ipoib-in, ipoib-out,
    /// nfs-reads, nfs-writes, nfs-retransmits, or a name of the source, such as
    /// `node_network_*_bytes_total{device=ib*}`. Counters become rates. Repeatable
    #[arg(long = "host-metric", value_name = "NAME", requires = "sources")]
    requests: Vec<Request>,
    /// File with the password of the user in the address of Prometheus, or with a bearer token
    #[arg(long, value_name = "FILE", requires = "sources")]
    host_metrics_password_file: Option<PathBuf>,
    /// PEM file with the certificate of the authority that signed the certificate of Prometheus, or
    /// with the certificate of Prometheus itself. Without it, the certificates of this system
    #[arg(long, value_name = "FILE", requires = "sources")]
    host_metrics_ca_file: Option<PathBuf>,
}

impl HostArgs {
    /// Rejects sources if the output has no place for host metrics. A picture has one, and so do
    /// the JSON rows of one job.
    pub(crate) fn need_place(
        &self,
        format: Format,
        output: Option<&Path>,
        is_one_job: bool,
    ) -> Result<(), Failure> {
        let is_json = |path: &Path| {
            path.extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
        };
        let has_picture = format == Format::Text && output.is_some_and(|path| !is_json(path));
        let has_rows = is_one_job && format == Format::Document(Document::Json);
        if self.sources.is_empty() || has_picture || has_rows {
            Ok(())
        } else {
            Err(Failure::HostMetricsWithoutPicture)
        }
    }

    /// Reads the metrics of these hosts, and reports on standard error what was left out. Returns
    /// `None` if no source was given.
    pub(crate) fn load(
        &self,
        names: &HostNames,
        range: Range,
    ) -> Result<Option<HostMetrics>, Failure> {
        if self.sources.is_empty() {
            return Ok(None);
        }
        let sources: Vec<Source> = self
            .sources
            .iter()
            .map(|source| Source::from(&**source))
            .collect();
        let requests = if self.requests.is_empty() {
            Request::defaults()
        } else {
            self.requests.clone()
        };
        let secret = self
            .host_metrics_password_file
            .as_deref()
            .map(|path| cli::read(path, limits::SECRET))
            .transpose()?;
        let secret = secret.map(|secret| {
            String::from_utf8_lossy(&secret)
                .trim_end_matches(['\r', '\n'])
                .to_owned()
        });
        let access = Access {
            secret,
            ca_file: self.host_metrics_ca_file.clone(),
        };
        let loaded = host_metrics::load(
            &sources,
            |url| Ok(Box::new(HttpServer::new(url, &access)?)),
            &requests,
            names,
            range,
        )?;
        loaded
            .notes
            .iter()
            .for_each(|note| cli::note(&format!("hosts     {note}\n")));
        Ok(Some(loaded))
    }
}

/// Appends the metrics of these hosts to a picture over time, stacked by host, if a source was
/// given.
pub(crate) fn below(
    args: &HostArgs,
    picture: Timeline,
    hosts: impl Iterator<Item = String>,
) -> Result<Timeline, Failure> {
    let grid = grid(args, picture.columns(), hosts)?;
    Ok(grid.iter().fold(picture, Timeline::with_hosts))
}

/// Appends the metrics of all hosts to a picture of all jobs, stacked by job, if a source was
/// given.
pub(crate) fn below_jobs(
    args: &HostArgs,
    picture: Timeline,
    traffic: &JobsTraffic,
) -> Result<Timeline, Failure> {
    let hosts = traffic
        .jobs
        .iter()
        .flat_map(|job| &job.nodes)
        .map(|node| node.host.clone());
    let grid = grid(args, picture.columns(), hosts)?;
    Ok(grid.iter().fold(picture, |picture, grid| {
        picture.with_hosts_by_job(grid, traffic)
    }))
}

/// Returns the metrics of these hosts on a time axis, and summarizes them on standard error.
/// Returns `None` if no source was given.
pub(crate) fn grid(
    args: &HostArgs,
    columns: Columns,
    hosts: impl Iterator<Item = String>,
) -> Result<Option<Grid>, Failure> {
    let end_ns = columns
        .start_ns
        .saturating_add(columns.step_ns.saturating_mul(columns.count as u64));
    let names = HostNames::new(hosts);
    let Some(HostMetrics { metrics, .. }) = args.load(
        &names,
        Range {
            from: columns.start_ns,
            to: end_ns,
        },
    )?
    else {
        return Ok(None);
    };
    let grid = panels::grid(&metrics, names.iter().map(row_of_host).collect(), columns);
    for panel in &grid.panels {
        cli::note(&terminal::summary(panel, &grid, &Zone::local()));
    }
    Ok(Some(grid))
}

pub(crate) fn row_of_host(host: &str) -> RowLabel {
    RowLabel {
        id: RowId {
            node: Some(host.to_owned()),
            ..RowId::default()
        },
        ..RowLabel::new(Printable(host).to_string())
    }
}
