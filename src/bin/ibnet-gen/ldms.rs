//! Lid files of the LDMS sampler `ibnet`: `--from-ldms` reads them, `--format ldms` writes them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet::partition::Plan;
use ibnet::partition::formats::adopt::{self, Adopted};
use ibnet::partition::formats::ldms;
use ibnet::partition::hosts::{Origin, SamplerSpec};
use ibnet::topology::Fabric;
use ibnet_record::limits;
use ibnet_record::types::{Guid, Printable};

use crate::Failure;

/// A lid file and its host, if the argument contains one.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    host: Option<SamplerSpec>,
    pub(crate) path: PathBuf,
}

/// Parses `FILE` or `HOST=FILE`.
pub(crate) fn source(text: &str) -> Result<Source, String> {
    match text.split_once('=').filter(|(host, _)| !host.contains('/')) {
        Some((host, path)) => {
            let host = ldms::one_host(host, Origin::Argument)
                .map_err(|_| format!("`{}` is not a host", Printable(host)))?;
            Ok(Source {
                host: Some(host),
                path: path.into(),
            })
        }
        None => Ok(Source {
            host: None,
            path: text.into(),
        }),
    }
}

/// Makes the plan that corresponds to the lid files.
pub(crate) fn adopted(
    sources: &[Source],
    guids: &[(String, Guid)],
    fabric: &Fabric,
    cap: u32,
) -> Result<Adopted, Failure> {
    let mut lines = Vec::new();
    for Source { host, path } in sources {
        let bytes = cli::read(path, limits::HOST_FILE)?;
        lines.extend(ldms::parse(
            &String::from_utf8_lossy(&bytes),
            &cli::name_of(path),
            host.as_ref(),
        )?);
    }
    Ok(adopt::adopt(fabric, &lines, guids, cap)?)
}

/// Returns the lid files of an earlier plan with the same prefix, which have our heading but were
/// not written this time. An LDMS sampler that still reads such a file queries ports that now
/// belong to another sampler.
pub(crate) fn outdated(output: &Path, written: &[&Path]) -> Vec<PathBuf> {
    let (Some(prefix), false) = (
        output.file_name().and_then(|name| name.to_str()),
        cli::is_dash(output),
    ) else {
        return Vec::new();
    };
    let folder = output
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(folder.unwrap_or_else(|| Path::new("."))) else {
        return Vec::new();
    };
    let is_outdated = |name: &str| {
        let path = folder.map_or_else(|| name.into(), |folder| folder.join(name));
        let is_lid_file = name
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".conf"));
        (is_lid_file && !written.contains(&&*path) && has_own_heading(&path)).then_some(path)
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut outdated: Vec<PathBuf> = names.filter_map(|name| is_outdated(&name)).collect();
    outdated.sort();
    outdated
}

fn has_own_heading(path: &Path) -> bool {
    let mut start = Vec::new();
    // Other files are skipped, because opening a FIFO would block.
    let read = path
        .is_file()
        .then(|| File::open(path).and_then(|file| file.take(256).read_to_end(&mut start)));
    matches!(read, Some(Ok(_))) && ldms::is_own(&String::from_utf8_lossy(&start))
}

/// Returns path and text of each lid file: `PREFIX.HOST.conf` for each sampler, as
/// `ldms-ibnet-sampler-gen` names them. For standard output, all files are concatenated.
pub(crate) fn files(plan: &Plan, fabric: &Fabric, output: &Path) -> Vec<(PathBuf, String)> {
    let texts = plan
        .shares
        .iter()
        .map(|share| (share, ldms::lid_file(fabric, share)));
    if cli::is_dash(output) {
        let together: String = texts.map(|(_, text)| text).collect();
        return vec![(output.to_owned(), together)];
    }
    let named = |host: &str| {
        let mut path = output.as_os_str().to_owned();
        // A slash in a host name must not become a directory.
        path.push(format!(".{}.conf", host.replace('/', "_")));
        PathBuf::from(path)
    };
    texts
        .map(|(share, text)| (named(&share.host.name), text))
        .collect()
}
