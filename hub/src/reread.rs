//! A file that is read again when it changes: routes, planned cables, marks of applications.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ibnet::cli;
use ibnet_record::limits;
use miette::Diagnostic;

use crate::archive::status::with_help;

/// A file, and what was read from it.
pub(crate) struct Reread<T> {
    path: PathBuf,
    parse: Parse<T>,
    last: Mutex<Option<Last<T>>>,
}

/// Parses the text of a file. The second argument is the name of the file.
type Parse<T> = Box<dyn Fn(&str, &str) -> Result<T, String> + Send + Sync>;

/// The result of the last read, with the time of the last change and the size of the file.
type Last<T> = (Option<(SystemTime, u64)>, Result<Arc<T>, String>);

impl<T> Reread<T> {
    /// Takes the path of a file, and the function that parses its text. The second argument of this
    /// function is the name of the file.
    pub(crate) fn new<E: Diagnostic + 'static>(
        path: PathBuf,
        parse: impl Fn(&str, &str) -> Result<T, E> + Send + Sync + 'static,
    ) -> Self {
        let parse = move |text: &str, name: &str| parse(text, name).map_err(|e| with_help(&e));
        Self {
            path,
            parse: Box::new(parse),
            last: Mutex::new(None),
        }
    }

    /// Returns the content of the file, which is read if it has changed since the last call.
    ///
    /// # Errors
    /// Returns the reason if the file cannot be read, with the remedy.
    pub(crate) fn get(&self) -> Result<Arc<T>, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let found = std::fs::metadata(&self.path);
        let changed = found
            .and_then(|file| Ok((file.modified()?, file.len())))
            .ok();
        if let Some((known, result)) = &*last
            && *known == changed
        {
            return result.clone();
        }
        let result = self.read();
        match &result {
            Ok(_) => tracing::info!(path = %self.path.display(), "the file was read"),
            Err(error) => {
                tracing::warn!(
                    ?error,
                    "cannot read a file, so the web page lacks its content"
                );
            }
        }
        *last = Some((changed, result.clone()));
        result
    }

    fn read(&self) -> Result<Arc<T>, String> {
        let text = cli::read(&self.path, limits::NET_FILE).map_err(|error| with_help(&error))?;
        let name = cli::name_of(&self.path);
        (self.parse)(&String::from_utf8_lossy(&text), &name).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::routes::Routes;

    use super::*;

    #[test]
    fn file_is_read_when_it_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("routes.txt");
        let file = Reread::new(path.clone(), Routes::parse);
        let missing = file.get().expect_err("there is no file");
        assert!(missing.contains("routes.txt"), "{missing}");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write("ucast_routes: Switch 0x0000000000000001\n0x0001 : 007\n");
        let first = file.get().expect("a table");
        assert!(Arc::ptr_eq(&first, &file.get().expect("a table")));
        write("ucast_routes: Switch 0x0000000000000001\n0x0001 : 007\n0x0002 : 008\n");
        assert_ne!(*first, *file.get().expect("a table"));
        write("nothing\n");
        let wrong = file.get().expect_err("there is no table");
        assert!(wrong.contains("dump_fts"), "the remedy is missing: {wrong}");
    }
}
