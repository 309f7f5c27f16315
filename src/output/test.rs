//! Tests an output before a sweep. A test writes nothing, and does not disturb a sweep that uses
//! the output.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use ibnet_record::types::Printable;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::error::OutputError;
#[cfg(feature = "nats")]
use super::nats;
use super::options::{Address, Destination, FileOptions, Output};

/// Result of a test that found no fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tested {
    /// What the test found.
    pub found: String,
    /// Remedy for a state that may be intended or not, which the test cannot decide.
    pub doubt: Option<&'static str>,
}

impl Tested {
    pub(super) fn good(found: String) -> Self {
        Self { found, doubt: None }
    }
}

const IN_USE: &str = "this is right if the running ibnet-sweep listens there; else stop the program that does (`ss -lp`)";

impl Output {
    /// Tests whether the sweep of a sampler can write to this output. Standard output has no
    /// test. The connection to a NATS server takes at most 15 seconds.
    ///
    /// # Errors
    /// Returns the error with which the sweep would not start, or would lose its records.
    #[cfg_attr(
        not(feature = "nats"),
        expect(
            unused_variables,
            reason = "only a NATS server needs the name of the sampler"
        )
    )]
    pub fn test(&self, sampler: &str) -> Result<Option<Tested>, OutputError> {
        let tested = match &self.to {
            Destination::Stdout => return Ok(None),
            Destination::File(options) => file(options),
            Destination::Listen(options) => listen(&options.address),
            #[cfg(feature = "nats")]
            Destination::Nats(options) => nats::test(options, sampler),
            #[cfg(not(feature = "nats"))]
            Destination::Nats(_) => Err(OutputError::NoNats),
        };
        tested.map(Some)
    }
}

fn file(options: &FileOptions) -> Result<Tested, OutputError> {
    let path = &options.path;
    let failed = |source| OutputError::of_file(path, source);
    let is_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let found = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() != is_folder => {
            return Err(failed(
                if is_folder {
                    ErrorKind::NotADirectory
                } else {
                    ErrorKind::IsADirectory
                }
                .into(),
            ));
        }
        Ok(_) => writable(path).map(|()| "exists and is writable"),
        // When the output starts, it creates the folder and all folders above it.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let above = path
                .ancestors()
                .skip(1)
                .find(|above| !is_folder || folder(above).exists());
            writable(folder(above.unwrap_or_else(|| Path::new(""))))
                .map(|()| "does not exist and can be made")
        }
        Err(error) => Err(error),
    };
    let found = found.map_err(failed)?;
    if options.rotate_octets.is_some() || options.rotate_every.is_some() {
        // Rotation renames the file, which requires write access to its folder.
        writable(folder(path.parent().unwrap_or(path))).map_err(failed)?;
    }
    Ok(Tested::good(format!(
        "{}: {found}",
        Printable(&path.display().to_string())
    )))
}

fn listen(address: &Address) -> Result<Tested, OutputError> {
    let failed = |source| OutputError::Listen {
        address: address.clone(),
        source,
    };
    let (found, doubt) = match address {
        Address::Tcp(socket) => match TcpListener::bind(socket) {
            Ok(_) => ("is free", None),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                ("a program listens there", Some(IN_USE))
            }
            Err(error) => return Err(failed(error)),
        },
        Address::Unix(path) => match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.file_type().is_socket() => {
                return Err(OutputError::Taken { path: path.clone() });
            }
            Ok(_) if UnixStream::connect(path).is_ok() => ("a program listens there", Some(IN_USE)),
            Ok(_) => writable(folder(path.parent().unwrap_or(path)))
                .map(|()| ("is an unused socket, which the start replaces", None))
                .map_err(failed)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                writable(folder(path.parent().unwrap_or(path)))
                    .map(|()| ("can be made", None))
                    .map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        },
    };
    Ok(Tested {
        found: format!("{address}: {found}"),
        doubt,
    })
}

/// Returns an error unless this user may write to a file, or create files in a folder.
pub(super) fn writable(path: &Path) -> io::Result<()> {
    let access = if path.is_dir() {
        Access::WRITE_OK | Access::EXEC_OK
    } else {
        Access::WRITE_OK
    };
    Ok(accessat(CWD, path, access, AtFlags::EACCESS)?)
}

/// Returns the path of a folder. The parent of a name without a folder is the current folder.
pub(super) fn folder(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::super::options::ListenOptions;
    use super::*;

    fn test(to: Destination) -> Result<Tested, String> {
        Output::from(to)
            .test("node1")
            .map(|tested| tested.expect("a test"))
            .map_err(|error| error.to_string())
    }

    fn file(path: PathBuf, rotate_octets: Option<u64>) -> Result<Tested, String> {
        test(Destination::File(FileOptions {
            path,
            rotate_octets,
            ..FileOptions::default()
        }))
    }

    fn listen(address: Address) -> Result<Tested, String> {
        test(Destination::Listen(ListenOptions {
            address,
            readers: 1,
        }))
    }

    #[test]
    fn file_and_its_folder_must_be_writable_and_stay_as_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        assert!(
            file(path("lines"), Some(1)).is_ok_and(|tested| tested.found.ends_with("can be made"))
        );
        assert!(!path("lines").exists());
        fs::write(path("lines"), "a").expect("written");
        assert!(
            file(path("lines"), Some(1)).is_ok_and(|tested| tested.found.ends_with("is writable"))
        );
        assert_eq!(fs::read(path("lines")).expect("read"), b"a");
        assert!(file(path("new/folder/"), None).is_ok() && !path("new").exists());
        for wrong in ["missing/lines", "lines/below", "lines/"] {
            let error = file(path(wrong), None).expect_err("refused");
            assert!(
                error.starts_with("cannot write to ") && error.contains(wrong),
                "{error}"
            );
        }
        assert!(
            file(folder.path().to_owned(), None).is_err(),
            "a folder is no file"
        );
    }

    #[test]
    fn socket_is_free_or_in_use_or_cannot_be_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let unix = |name: &str| listen(Address::Unix(folder.path().join(name)));
        assert!(
            unix("sock").is_ok_and(|tested| tested.doubt.is_none())
                && unix("missing/sock").is_err()
        );
        let listener = UnixListener::bind(folder.path().join("sock")).expect("bound");
        assert!(unix("sock").is_ok_and(|tested| tested.doubt.is_some()));
        drop(listener);
        assert!(
            unix("sock").is_ok_and(|tested| tested.doubt.is_none()),
            "an unused socket is replaced"
        );
        fs::write(folder.path().join("file"), "").expect("written");
        assert!(unix("file").is_err_and(|error| error.contains("is not an unused socket")));
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = Address::Tcp(taken.local_addr().expect("an address"));
        assert!(listen(address).is_ok_and(|tested| tested.doubt.is_some()));
        assert!(
            listen(Address::Tcp("192.0.2.1:9331".parse().expect("an address"))).is_err(),
            "an address of no host"
        );
    }
}
