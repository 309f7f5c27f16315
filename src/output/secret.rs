//! Reads the file with the password of a server. Other users must not be able to read it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use zeroize::Zeroizing;

/// Max size of the file in bytes.
const LONGEST: u64 = 4096;

/// Reads a password or token, the only line of the file. Its memory is cleared when it is dropped.
///
/// # Errors
/// Returns the error of the operating system, or an error if other users can access the file, if
/// it is not a regular file, or if it does not have exactly one line of text.
pub(super) fn read(path: &Path) -> io::Result<Zeroizing<String>> {
    // Without this flag, opening a FIFO would wait for its writer.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if !metadata.is_file() {
        return Err(io::Error::other(
            "it is not a regular file; give a file with one line",
        ));
    }
    if mode & 0o037 != 0 {
        return Err(io::Error::other(format!(
            "other users can read or write it (found mode {mode:04o}); run chmod 0600 on it"
        )));
    }
    // A string that grows would leave copies of the secret in memory.
    let mut text = Zeroizing::new(String::with_capacity(LONGEST as usize + 1));
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() || line.len() as u64 >= LONGEST || line.contains(|c: char| c.is_control()) {
        return Err(io::Error::other(
            "it does not have exactly one line; write the password or token alone into it",
        ));
    }
    Ok(Zeroizing::new(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secret_is_the_only_line_of_a_file_that_others_cannot_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("password");
        let read_as = |text: &[u8], mode| {
            fs::write(&path, text)
                .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(mode)))
                .expect("written");
            read(&path)
                .map(|secret| secret.to_string())
                .map_err(|error| error.to_string())
        };
        for text in [&b"pass, word"[..], b"pass, word\n", b"pass, word\r\n"] {
            assert_eq!(read_as(text, 0o640), Ok("pass, word".to_owned()));
        }
        for text in [
            &b""[..],
            b"\n",
            b"CANARY\nCANARY\n",
            b"CANARY\0",
            &[b'C'; 5000],
            b"CANARY\xff",
        ] {
            let error = read_as(text, 0o600).expect_err("refused");
            assert!(!error.contains("CANARY"), "{error}");
        }
        for mode in [0o644, 0o620, 0o604] {
            assert!(
                read_as(b"secret", mode)
                    .expect_err("refused")
                    .contains("chmod 0600"),
                "{mode:o}"
            );
        }
        assert!(read(Path::new("/dev/null")).is_err());
    }
}
