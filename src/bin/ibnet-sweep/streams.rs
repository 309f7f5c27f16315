//! The outputs of the samplers: all samplers share one stream, or each has its own file in a
//! folder.

use std::fs;
use std::path::Path;

use ibnet::output::{self, Destination, FileOptions, Outlet, Output, Writer};

use super::failure::Failure;

/// The open outputs, by sampler.
pub(super) struct Streams {
    /// Name of a sampler, and its outlet. All samplers use an outlet whose name is `None`.
    outlets: Vec<(Option<String>, Outlet)>,
}

impl Streams {
    /// Opens the outputs of these samplers, and also returns the writers.
    ///
    /// A folder (a path with `/` at the end) is created, and gets a file `SAMPLER.jsonl` for each
    /// sampler. All other outputs are shared by the samplers, whose records contain their names.
    pub(super) fn open(outputs: &[Output], hosts: &[&str]) -> Result<(Self, Vec<Writer>), Failure> {
        let folders = outputs
            .iter()
            .filter(|output| folder(output).is_some())
            .count();
        if folders == 0 {
            let (outlet, writers) = output::open(outputs)?;
            return Ok((
                Self {
                    outlets: vec![(None, outlet)],
                },
                writers,
            ));
        }
        if folders < outputs.len() && hosts.len() > 1 {
            return Err(Failure::MixedOutputs);
        }
        let (mut outlets, mut all_writers) = (Vec::new(), Vec::new());
        for host in hosts {
            let outputs = outputs
                .iter()
                .map(|output| of_sampler(output, host))
                .collect::<Result<Vec<_>, _>>()?;
            let (outlet, writers) = output::open(&outputs)?;
            outlets.push((Some((*host).to_owned()), outlet));
            all_writers.extend(writers);
        }
        Ok((Self { outlets }, all_writers))
    }

    /// Returns an outlet that drops all records.
    pub(super) fn none() -> Result<Self, Failure> {
        Self::open(&[], &[]).map(|(streams, _)| streams)
    }

    /// Returns an outlet for a worker of this sampler.
    pub(super) fn outlet(&self, host: &str) -> Result<Outlet, Failure> {
        let found = self
            .outlets
            .iter()
            .find(|(of, _)| of.as_deref().is_none_or(|of| of == host));
        found
            .map(|(_, outlet)| outlet.clone())
            .ok_or_else(|| Failure::NewSampler {
                host: host.to_owned(),
            })
    }
}

/// Returns the path of an output if it is a folder.
fn folder(output: &Output) -> Option<&Path> {
    match &output.to {
        Destination::File(FileOptions { path, .. }) => path
            .as_os_str()
            .as_encoded_bytes()
            .ends_with(b"/")
            .then_some(path),
        _ => None,
    }
}

/// Replaces a folder by the file of a sampler in it, and creates the folder.
fn of_sampler(output: &Output, host: &str) -> Result<Output, Failure> {
    let (Some(folder), Destination::File(options)) = (folder(output), &output.to) else {
        return Ok(output.clone());
    };
    // The name comes from the assignments file, and a name such as `../x` must not lead out of
    // the folder.
    if host.is_empty() || host.starts_with('.') || host.contains(['/', '\0']) {
        return Err(Failure::SamplerFileName {
            host: host.to_owned(),
        });
    }
    fs::create_dir_all(folder).map_err(|source| Failure::Folder {
        folder: folder.display().to_string(),
        source,
    })?;
    let path = folder.join(format!("{host}.jsonl"));
    Ok(Output {
        to: Destination::File(FileOptions {
            path,
            ..options.clone()
        }),
        ..output.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path) -> Output {
        Destination::File(FileOptions {
            path: path.to_owned(),
            ..FileOptions::default()
        })
        .into()
    }

    #[test]
    fn folder_has_a_file_for_each_sampler() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("a/b/");
        let (streams, writers) = Streams::open(&[file(&folder)], &["one", "two"]).expect("opened");
        assert_eq!(writers.len(), 2);
        assert!(folder.join("one.jsonl").exists() && folder.join("two.jsonl").exists());
        assert!(
            streams.outlet("one").is_ok()
                && matches!(streams.outlet("three"), Err(Failure::NewSampler { .. }))
        );
        for host in ["", "..", "../x", ".hidden", "a/b"] {
            assert!(
                matches!(
                    Streams::open(&[file(&folder)], &[host]),
                    Err(Failure::SamplerFileName { .. })
                ),
                "{host}"
            );
        }
        drop((streams, writers));
        let mixed = [file(&folder), file(&dir.path().join("lines"))];
        assert!(matches!(
            Streams::open(&mixed, &["one", "two"]),
            Err(Failure::MixedOutputs)
        ));
        assert_eq!(
            Streams::open(&mixed, &["one"]).expect("opened").1.len(),
            2,
            "one sampler may have both"
        );
    }

    #[test]
    fn file_is_shared_by_all_samplers() {
        let dir = tempfile::tempdir().expect("a folder");
        let (streams, writers) =
            Streams::open(&[file(&dir.path().join("lines"))], &["one", "two"]).expect("opened");
        assert_eq!(writers.len(), 1);
        assert!(streams.outlet("one").is_ok() && streams.outlet("three").is_ok());
    }
}
