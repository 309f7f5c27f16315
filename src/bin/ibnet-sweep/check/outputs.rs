//! Tests the outputs without writing to them.

use ibnet::cli;
use ibnet::config::Config;

use super::report::{Report, Verdict};
use crate::failure::Failure;
use crate::workers::Work;

impl Report {
    /// Tests each output for the first sampler of the work.
    pub(super) fn outputs(&mut self, config: &Config, work: Option<&Work>) -> Result<(), Failure> {
        let hosts = work.map(Work::hosts).unwrap_or_default();
        let sampler = hosts
            .first()
            .map_or_else(cli::short_host_name, |host| (*host).to_owned());
        for output in &config.outputs {
            match output.test(&sampler) {
                Ok(None) => {}
                Ok(Some(tested)) => {
                    let verdict = if tested.doubt.is_some() {
                        Verdict::Warn
                    } else {
                        Verdict::Ok
                    };
                    self.line(verdict, "output", &tested.found, tested.doubt)?;
                }
                Err(error) => self.fail("output", &error)?,
            }
        }
        Ok(())
    }
}
