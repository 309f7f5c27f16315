//! Files with a state that a restart of the hub continues: lines of JSON, compressed, with a
//! checksum. A damaged file, or one of another version, costs its own lines only.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use ibnet::cli::Staged;
use ibnet_record::count::count;
use ibnet_record::limits;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The content of a file.
pub(crate) struct Lines(zstd::Encoder<'static, Vec<u8>>);

impl Lines {
    pub(crate) fn new() -> io::Result<Self> {
        let mut file = zstd::Encoder::new(Vec::new(), 1)?;
        file.include_checksum(true)?;
        Ok(Self(file))
    }

    pub(crate) fn add(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, line)?;
        self.0.write_all(b"\n")
    }

    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        self.0.finish()
    }
}

/// Calls `take` with each line of a file, which returns whether the line can be used. `state` names
/// what the file keeps.
pub(crate) fn load<T: DeserializeOwned>(path: &Path, state: &str, take: impl FnMut(T) -> bool) {
    let wrong = match read(path, take) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => error.to_string(),
        Ok(0) => return,
        Ok(lines) => format!("{} of another version, or damaged", count(lines, "line")),
    };
    tracing::warn!(path = %path.display(), state, error = ?wrong, "cannot read the whole state of the last run, so the rest begins anew; the file is written again");
}

/// Returns the number of lines that cannot be used.
pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    mut take: impl FnMut(T) -> bool,
) -> io::Result<usize> {
    let mut text = BufReader::new(zstd::Decoder::new(File::open(path)?)?);
    let (mut line, mut wrong) = (Vec::new(), 0);
    while limits::read_line(&mut text, &mut line)? {
        let is_used = serde_json::from_slice(&line).is_ok_and(&mut take);
        wrong += usize::from(!is_used);
    }
    Ok(wrong)
}

/// Writes a file.
pub(crate) fn save(path: &Path, state: &str, content: io::Result<Vec<u8>>) {
    let done = content.map_err(|error| error.to_string());
    let done = done.and_then(|content| {
        let written = Staged::new(path, &content).and_then(Staged::commit);
        written.map_err(|error| error.to_string())
    });
    if let Err(error) = done {
        tracing::warn!(path = %path.display(), state, ?error, "cannot write the state, so it begins anew when the hub is restarted; trying again");
    }
}
