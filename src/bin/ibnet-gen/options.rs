//! What a plan can be wished to be, beyond who samples.

use std::path::PathBuf;

use ibnet::assignments::Assignments;
use ibnet::cli;
use ibnet::partition::{Options, Previous, Weights};
use ibnet::topology::Fabric;

use crate::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Wishes {
    /// Samplers of each port: with 2 a second one on another leaf switch asks it half an interval later. The cap holds for each of the two roles
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "from_ldms", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) redundancy: u8,
    /// The plain rules, without the search that improves what they leave open
    #[arg(long, conflicts_with = "from_ldms")]
    no_optimize: bool,
    /// Lines that ibnet-sweep recorded: balance measured seconds instead of ports; the cap stays in ports (may be repeated)
    #[arg(long, value_name = "FILE|-", conflicts_with = "from_ldms")]
    pub(crate) weights: Vec<PathBuf>,
    /// The assignments file before this one: keep what need not move, and report what did; may be the output, too
    #[arg(long, value_name = "FILE", conflicts_with = "from_ldms")]
    pub(crate) previous: Option<PathBuf>,
}

impl Wishes {
    /// What was measured of the devices of these subnets.
    pub(crate) fn weights(&self, fabrics: &[&Fabric]) -> Result<Option<Weights>, Failure> {
        let mut weights = Weights::default();
        for path in &self.weights {
            weights.add(cli::open(path)?, &cli::name_of(path))?;
        }
        let weights = Some(weights).filter(|_| !self.weights.is_empty());
        weights.as_ref().map_or(Ok(()), |weights| weights.check(fabrics))?;
        Ok(weights)
    }

    /// The plan before this one.
    pub(crate) fn before(&self) -> Result<Option<Assignments>, Failure> {
        Ok(self.previous.as_deref().map(Assignments::read).transpose()?.map(|loaded| loaded.assignments))
    }

    pub(crate) fn options<'a>(&self, weights: Option<&'a Weights>, previous: Option<&'a Previous>) -> Options<'a> {
        Options { optimize: !self.no_optimize, redundant: self.redundancy == 2, weights, previous }
    }
}
