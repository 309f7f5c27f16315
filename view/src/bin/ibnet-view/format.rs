//! `--format`: results as text, JSON or CSV, to standard output or to a file.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use ibnet::cli::{self, OutputError, Staged};
use ibnet_analysis::rows::Row;
use ibnet_record::types::Printable;
use ibnet_view::document;
use ibnet_view::draw;

use crate::Failure;

/// Format of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// Tables and sentences, or a picture.
    #[default]
    Text,
    /// A document for programs.
    Document(Document),
}

/// Format of a document for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Document {
    /// One JSON document.
    Json,
    /// CSV with a header.
    Csv,
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Text,
            Self::Document(Document::Json),
            Self::Document(Document::Csv),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::Text => PossibleValue::new("text").help("For people"),
            Self::Document(Document::Json) => {
                PossibleValue::new("json").help("One document for programs")
            }
            Self::Document(Document::Csv) => PossibleValue::new("csv")
                .help("Lines with a header, for spreadsheets and databases"),
        })
    }
}

impl Document {
    /// Writes rows to a file, or to standard output. `span` is the time range in nanoseconds since
    /// 1970.
    pub(crate) fn write<R: Row>(
        self,
        span: (u64, u64),
        rows: &[R],
        output: Option<&Path>,
    ) -> Result<(), Failure> {
        if let Some(path) = output.filter(|path| draw::Format::of(path).is_some()) {
            return Err(Failure::NotAPicture {
                path: path.to_owned(),
            });
        }
        let bytes = match self {
            Self::Json => document::to_json(span, rows),
            Self::Csv => document::to_csv(span, rows),
        };
        let bytes = bytes.map_err(|source| OutputError {
            path: name(output),
            source,
        })?;
        write(&bytes, output)
    }
}

/// Returns the format of a picture by the extension of its file name.
pub(crate) fn of_picture(output: Option<&Path>) -> Result<Option<draw::Format>, Failure> {
    let format = |path: &Path| {
        draw::Format::of(path).ok_or_else(|| Failure::NotPictureName {
            path: path.to_owned(),
        })
    };
    output.map(format).transpose()
}

/// Writes to a file and reports its name, or writes to standard output.
pub(crate) fn write(bytes: &[u8], output: Option<&Path>) -> Result<(), Failure> {
    match output.filter(|path| !cli::is_dash(path)) {
        None => Ok(cli::print(bytes).map_err(|source| OutputError {
            path: name(output),
            source,
        })?),
        Some(path) => {
            Staged::new(path, bytes)?.commit()?;
            cli::note(&format!(
                "written   {}\n",
                Printable(&path.display().to_string())
            ));
            Ok(())
        }
    }
}

fn name(output: Option<&Path>) -> PathBuf {
    output
        .filter(|path| !cli::is_dash(path))
        .map_or_else(|| "standard output".into(), Path::to_owned)
}
