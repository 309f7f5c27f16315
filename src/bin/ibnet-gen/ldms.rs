//! Lid files of the LDMS sampler `ibnet`: read for `--from-ldms`, written for `--format ldms`.

use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet::partition::formats::adopt::{self, Adopted};
use ibnet::partition::hosts::{Place, Wanted};
use ibnet::partition::Plan;
use ibnet::partition::formats::ldms;
use ibnet::topology::Fabric;
use ibnet::types::{Guid, Printable};

use crate::Failure;

/// A lid file, and whose it is if that was said.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    host: Option<Wanted>,
    pub(crate) path: PathBuf,
}

/// Reads `FILE` or `HOST=FILE`.
pub(crate) fn source(text: &str) -> Result<Source, String> {
    match text.split_once('=').filter(|(host, _)| !host.contains('/')) {
        Some((host, path)) => {
            let host = ldms::wanted(host, Place::Argument).map_err(|_| format!("`{}` is no host", Printable(host)))?;
            Ok(Source { host: Some(host), path: path.into() })
        }
        None => Ok(Source { host: None, path: text.into() }),
    }
}

/// The plan of these lid files.
pub(crate) fn adopted(sources: &[Source], guids: &[(String, Guid)], fabric: &Fabric, cap: u32) -> Result<Adopted, Failure> {
    let mut lines = Vec::new();
    for Source { host, path } in sources {
        let bytes = cli::read(path)?;
        lines.extend(ldms::parse(&String::from_utf8_lossy(&bytes), &cli::name_of(path), host.as_ref())?);
    }
    Ok(adopt::adopt(fabric, &lines, guids, cap)?)
}

/// Each file with its text: one a sampler, `PREFIX.HOST.conf` as `ldms-ibnet-sampler-gen` names them; on standard output one after the other.
pub(crate) fn files(plan: &Plan, fabric: &Fabric, output: &Path) -> Vec<(PathBuf, String)> {
    let texts = plan.shares.iter().map(|share| (share, ldms::lid_file(fabric, share)));
    if cli::is_dash(output) {
        let together: String = texts.map(|(_, text)| text).collect();
        return vec![(output.to_owned(), together)];
    }
    let named = |host: &str| {
        let mut path = output.as_os_str().to_owned();
        // A host is a name, whatever stands in it.
        path.push(format!(".{}.conf", host.replace('/', "_")));
        PathBuf::from(path)
    };
    texts.map(|(share, text)| (named(&share.host.name), text)).collect()
}
