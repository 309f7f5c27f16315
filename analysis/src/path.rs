//! Paths in the arguments of `ibnet-view`: `-` means standard input.

use std::path::Path;

pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the path as it appears in messages.
pub(crate) fn display_name(path: &Path) -> String {
    if is_stdin(path) {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}
