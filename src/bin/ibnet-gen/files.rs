//! Which files a run reads and writes: none is used for two things, a slip that would cost the net file.

use std::path::{Path, PathBuf};

use ibnet::cli;

use crate::Failure;

/// What is done with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Read,
    Write,
}

/// A file with the argument that names it.
pub(crate) type Named<'a> = (&'static str, &'a Path, Use);

/// Refuses what is given twice. Standard input can be read once; standard input and output are two things.
pub(crate) fn check(files: &[Named<'_>]) -> Result<(), Failure> {
    let places: Vec<_> = files.iter().map(|(_, path, _)| place(path)).collect();
    for (at, (second, path, used)) in files.iter().enumerate() {
        for (before, (first, other, other_use)) in files[..at].iter().enumerate() {
            let same = match cli::is_dash(path) || cli::is_dash(other) {
                true => path == other && used == other_use,
                false => places[at].is_some() && places[at] == places[before],
            };
            if same {
                return Err(Failure::SameFile { path: path.to_path_buf(), first, second });
            }
        }
    }
    Ok(())
}

/// Where a file is, or will be; nothing for what is no file, such as `/dev/null`.
fn place(path: &Path) -> Option<PathBuf> {
    if let Ok(there) = path.canonicalize() {
        return Some(there).filter(|path| path.is_file());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // In a directory that is not there nothing will be written either.
    Some(parent.canonicalize().unwrap_or_else(|_| parent.to_owned()).join(path.file_name()?))
}
