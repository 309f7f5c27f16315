//! Forwarding tables of a file, or of `routes` records.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet_analysis::input::Inputs;
use ibnet_analysis::routes::Routes;

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
        let path = match self {
            Self::File(routes) => return Ok(Cow::Borrowed(routes)),
            Self::Records(path) => path,
        };
        let inputs = Routes::inputs(Inputs {
            files: vec![path.clone()],
            ..*inputs
        });
        let (routes, _) = common::read(&inputs, &Routes::default())?;
        Ok(Cow::Owned(routes.not_empty(&cli::name_of(path))?))
    }
}
