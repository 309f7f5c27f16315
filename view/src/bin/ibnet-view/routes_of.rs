//! Forwarding tables of a file, or of `routes` records.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet_analysis::input::{Fold, Inputs};
use ibnet_analysis::routes::Routes;
use ibnet_analysis::routing::Recorded;

use crate::Failure;
use crate::common;

/// Forwarding tables of a file, or where to find those of a time.
pub(crate) enum RoutesOf {
    File(Routes),
    /// Lines or an archive, with `routes` records.
    Records(PathBuf),
}

impl RoutesOf {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if path.is_dir() || cli::name_of(path).contains(".jsonl") {
            return Ok(Self::Records(path.to_owned()));
        }
        Ok(Self::File(Routes::read(path)?))
    }

    /// Returns the tables at the end of the time range.
    pub(crate) fn within(&self, inputs: &Inputs) -> Result<Cow<'_, Routes>, Failure> {
        match self {
            Self::File(routes) => Ok(Cow::Borrowed(routes)),
            Self::Records(path) => {
                let routes = read(path, inputs, &Routes::default())?;
                Ok(Cow::Owned(routes.not_empty(&cli::name_of(path))?))
            }
        }
    }

    /// Returns the newest tables, and what else the records have about forwarding.
    pub(crate) fn newest(self) -> Result<Recorded, Failure> {
        match self {
            Self::File(routes) => Ok(routes.into()),
            Self::Records(path) => {
                let recorded = read(&path, &Inputs::default(), &Recorded::default())?;
                Ok(Recorded {
                    routes: recorded.routes.not_empty(&cli::name_of(&path))?,
                    ..recorded
                })
            }
        }
    }
}

fn read<F: Fold>(path: &Path, inputs: &Inputs, empty: &F) -> Result<F, Failure> {
    let inputs = Routes::inputs(Inputs {
        files: vec![path.to_owned()],
        ..*inputs
    });
    Ok(common::read(&inputs, empty)?.0)
}
