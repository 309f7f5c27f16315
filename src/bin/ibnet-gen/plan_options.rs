//! Arguments that set the options of a plan.

use std::path::PathBuf;

use ibnet::assignments::Assignments;
use ibnet::cli;
use ibnet::partition::{PlanOptions, Previous, Weights};
use ibnet::topology::Fabric;

use crate::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// Number of samplers of each port. With 2, a second sampler on another leaf switch queries the
    /// port half an interval after the first. The cap holds for each of the two roles
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "from_ldms", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) redundancy: u8,
    /// Use only the rules, without the search that improves their result
    #[arg(long, conflicts_with = "from_ldms")]
    no_optimize: bool,
    /// Records of ibnet-sweep, to balance measured time instead of numbers of ports; the cap still
    /// counts ports (may be repeated)
    #[arg(long, value_name = "FILE|-", conflicts_with = "from_ldms")]
    pub(crate) weights: Vec<PathBuf>,
    /// Previous assignments file: keep as many of its assignments as possible, and report the
    /// changes. It may be the same file as the output
    #[arg(long, value_name = "FILE", conflicts_with = "from_ldms")]
    pub(crate) previous: Option<PathBuf>,
}

impl PlanArgs {
    /// Reads the measured service times, if files were given.
    pub(crate) fn weights(&self, fabrics: &[&Fabric]) -> Result<Option<Weights>, Failure> {
        weights(&self.weights, fabrics)
    }

    /// Reads the previous assignments, if a file was given.
    pub(crate) fn previous(&self) -> Result<Option<Assignments>, Failure> {
        Ok(self
            .previous
            .as_deref()
            .map(Assignments::read)
            .transpose()?
            .map(|loaded| loaded.assignments))
    }

    pub(crate) fn options<'a>(
        &self,
        weights: Option<&'a Weights>,
        previous: Option<&'a Previous>,
    ) -> PlanOptions<'a> {
        PlanOptions {
            optimize: !self.no_optimize,
            redundant: self.redundancy == 2,
            weights,
            previous,
        }
    }
}

/// Reads the measured service times from these files, if there are any.
pub(crate) fn weights(paths: &[PathBuf], fabrics: &[&Fabric]) -> Result<Option<Weights>, Failure> {
    let mut weights = Weights::default();
    for path in paths {
        weights.add(cli::open(path)?, &cli::name_of(path))?;
    }
    let weights = Some(weights).filter(|_| !paths.is_empty());
    weights
        .as_ref()
        .map_or(Ok(()), |weights| weights.check(fabrics))?;
    Ok(weights)
}
