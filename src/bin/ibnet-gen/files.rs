//! Checks that no file is given for two arguments, so that a wrong output path cannot overwrite
//! the net file.

use std::path::{Path, PathBuf};

use ibnet::cli;

use crate::Failure;

/// What a file is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Read,
    Write,
}

/// An argument, its file, and what the file is used for.
pub(crate) type Named<'a> = (&'static str, &'a Path, Use);

/// Rejects files that are given twice, because standard input can be read only once, and an
/// output would overwrite the other file. Standard input and standard output are different files,
/// although both are written as `-`.
pub(crate) fn check(files: &[Named<'_>]) -> Result<(), Failure> {
    let locations: Vec<_> = files.iter().map(|(_, path, _)| location(path)).collect();
    for (at, (second, path, used)) in files.iter().enumerate() {
        for (before, (first, other, other_use)) in files[..at].iter().enumerate() {
            let same = match cli::is_dash(path) || cli::is_dash(other) {
                true => path == other && used == other_use,
                false => locations[at].is_some() && locations[at] == locations[before],
            };
            if same {
                return Err(Failure::SameFile {
                    path: path.to_path_buf(),
                    first,
                    second,
                });
            }
        }
    }
    Ok(())
}

/// Returns the absolute path of a file that exists or can be created, or `None` for special files
/// such as `/dev/null`.
fn location(path: &Path) -> Option<PathBuf> {
    if let Ok(there) = path.canonicalize() {
        return Some(there).filter(|path| path.is_file());
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    // If the directory does not exist either, writing fails later.
    Some(
        parent
            .canonicalize()
            .unwrap_or_else(|_| parent.to_owned())
            .join(path.file_name()?),
    )
}
