//! Forwarding tables of files, or of `routes` records.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use ibnet::cli;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::input::{Fold, Inputs};
use ibnet_analysis::ports::{PortKey, PortSummary};
use ibnet_analysis::routes::{Routes, RoutesError, TableFile};
use ibnet_analysis::routing::{Net, Paths, Recorded};
use ibnet_record::types::Printable;

use crate::Failure;
use crate::common;

/// Max number of switches in a message.
const NAMED: usize = 4;

/// Forwarding tables of files, and where to find those of a time.
pub(crate) struct RoutesOf {
    /// Tables of text files.
    tables: Routes,
    /// Lines and archives, with `routes` records.
    records: Vec<PathBuf>,
    /// Whether it is an error if there is no table.
    is_needed: bool,
}

impl RoutesOf {
    /// Opens the files and patterns of `--routes`.
    pub(crate) fn open(given: &[PathBuf]) -> Result<Self, Failure> {
        let has_records = |path: &PathBuf| path.is_dir() || cli::name_of(path).contains(".jsonl");
        let files = Inputs::new(given)?.files.into_iter();
        let (records, texts): (Vec<PathBuf>, Vec<_>) = files.partition(has_records);
        let mut tables = Routes::default();
        for text in texts {
            tables.merge(Routes::read(&text)?);
        }
        Ok(Self {
            tables,
            records,
            is_needed: true,
        })
    }

    /// Opens the files and patterns of `--routes`, or without them the records of the inputs.
    pub(crate) fn open_or(
        given: &[PathBuf],
        inputs: &Inputs,
        is_needed: bool,
    ) -> Result<Self, Failure> {
        if !given.is_empty() {
            return Self::open(given);
        }
        let records = if common::can_read_again(inputs) {
            inputs.files.clone()
        } else {
            Vec::new()
        };
        Ok(Self {
            tables: Routes::default(),
            records,
            is_needed,
        })
    }

    /// Returns the tables at the end of the time range. `None` if there are none, and none are
    /// needed.
    pub(crate) fn within(&self, inputs: &Inputs) -> Result<Option<Cow<'_, Routes>>, Failure> {
        if self.records.is_empty() && !self.tables.is_empty() {
            return Ok(Some(Cow::Borrowed(&self.tables)));
        }
        let Recorded {
            mut routes,
            adaptive,
            ..
        } = self.read(inputs)?;
        if !self.is_needed && adaptive.values().any(|(sls, _)| *sls > 0) {
            cli::note(
                "routes    the `routes` records are not used, because adaptive routing is on; --routes uses them\n",
            );
            return Ok(None);
        }
        routes.merge(self.tables.clone());
        Ok((!routes.is_empty()).then_some(Cow::Owned(routes)))
    }

    /// Returns the newest tables, and what else the records have about forwarding.
    pub(crate) fn newest(self) -> Result<Recorded, Failure> {
        let mut found = self.read(&Inputs::default())?;
        found.routes.merge(self.tables);
        Ok(found)
    }

    fn read(&self, range: &Inputs) -> Result<Recorded, Failure> {
        let mut found = Recorded::default();
        if !self.records.is_empty() {
            let inputs = Routes::inputs(Inputs {
                files: self.records.clone(),
                ..*range
            });
            found = common::read_quietly(&inputs, &found)?.0;
        }
        if found.routes.is_empty() && self.tables.is_empty() && self.is_needed {
            return Err(self.none(range));
        }
        Ok(found)
    }

    fn none(&self, range: &Inputs) -> Failure {
        let names: Vec<String> = self.records.iter().map(|path| cli::name_of(path)).collect();
        let bounds = common::bounds(range);
        let mut help = "a sweep with `[routes]` writes all tables within its first hour; change or omit --from and --to, or give the output of `dump_fts` with --routes";
        let what = if names.is_empty() {
            help = "give --routes, or read files instead of a pipe";
            "forwarding tables are not read from a pipe with other records".to_owned()
        } else if bounds.is_empty() {
            let (file, name) = (TableFile::Routes, names.join(", "));
            return RoutesError::None { file, name }.into();
        } else {
            format!(
                "no forwarding table in {}{bounds}",
                Printable(&names.join(", "))
            )
        };
        AnalysisError::Nothing {
            what,
            help: help.to_owned(),
        }
        .into()
    }
}

/// Names on standard error the switches without a table.
pub(crate) fn note_missing(ports: &BTreeMap<PortKey, PortSummary>, routes: &Routes) {
    let net = Net::of_records(ports, routes);
    let missing = Paths::new(&net, routes).without_table();
    if missing.is_empty() {
        return;
    }
    let names: Vec<String> = missing
        .iter()
        .take(NAMED)
        .map(|switch| Printable(net.devices()[*switch as usize].name.trim()).to_string())
        .collect();
    let more = match missing.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    cli::note(&format!(
        "warning   no forwarding table of {}{more}; paths through them are not known. Give the tables or records of all samplers with --routes\n",
        names.join(", ")
    ));
}
