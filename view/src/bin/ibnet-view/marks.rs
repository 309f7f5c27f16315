//! `--marks`: phases of an application.

use std::path::PathBuf;

use ibnet::cli;
use ibnet_analysis::job::marks::{self, Mark};
use ibnet_analysis::when::Zone;
use ibnet_record::limits;

use crate::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct MarkArgs {
    /// Phases of an application: CSV with name,start,end,nodes,value, or JSON lines. Only name and
    /// start are required
    #[arg(long, value_name = "FILE|-")]
    marks: Option<PathBuf>,
}

impl MarkArgs {
    /// Returns the marks, or `None` without the option.
    pub(crate) fn read(&self) -> Result<Option<Vec<Mark>>, Failure> {
        let Some(path) = &self.marks else {
            return Ok(None);
        };
        let text = cli::read(path, limits::SLURM)?;
        let text = String::from_utf8_lossy(&text);
        Ok(Some(marks::parse(
            &text,
            &cli::name_of(path),
            &Zone::local(),
        )?))
    }
}
