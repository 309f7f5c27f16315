//! Keeps how far files were read, in a file that survives restarts of the hub.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use ibnet_store::checked;

/// Identity of a file in the file system: device, inode and creation time. The time is part of it
/// because inodes are reused; it is 0 if the file system does not have it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    born_ns: u64,
}

impl FileId {
    pub(crate) fn of(file: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        let born = file
            .created()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born_ns = born
            .and_then(|born| u64::try_from(born.as_nanos()).ok())
            .unwrap_or(0);
        Self {
            device: file.dev(),
            inode: file.ino(),
            born_ns,
        }
    }
}

/// How far a file was read, with a checksum of the bytes before this position. If these bytes
/// have changed, the file was written anew, for example by `cp` or `copytruncate`, which keep
/// its [`FileId`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mark {
    /// Number of bytes that were read.
    pub(crate) octets: u64,
    /// Number of bytes that the checksum covers; 0 without a checksum.
    pub(super) length: u64,
    pub(super) crc: u32,
}

impl Mark {
    /// Max number of bytes that the checksum covers.
    const LONGEST: u64 = 4096;

    /// Returns a position without a checksum.
    pub(crate) const fn unchecked(octets: u64) -> Self {
        Self {
            octets,
            length: 0,
            crc: 0,
        }
    }

    /// Returns the mark of a position. It has no checksum if the bytes cannot be read.
    pub(crate) fn at(file: &File, octets: u64) -> Self {
        Self::read(file, octets, octets.min(Self::LONGEST))
            .unwrap_or_else(|_| Self::unchecked(octets))
    }

    /// Returns whether the bytes before the position are still those that were read.
    pub(crate) fn holds(&self, file: &File) -> bool {
        let is_shorter = file.metadata().is_ok_and(|state| state.len() < self.octets);
        match Self::read(file, self.octets, self.length) {
            Ok(found) => !is_shorter && found == *self,
            // The next read fails with the same error.
            Err(error) => error.kind() != io::ErrorKind::UnexpectedEof,
        }
    }

    fn read(file: &File, octets: u64, length: u64) -> io::Result<Self> {
        let mut before = vec![0; length as usize];
        file.read_exact_at(&mut before, octets - length)?;
        Ok(Self {
            octets,
            length,
            crc: crc32fast::hash(&before),
        })
    }
}

/// Marks of the files that were read. In a file of an earlier version, [`WHOLE`](Self::WHOLE)
/// stands for a compressed file that was read before its compression.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Positions(pub(crate) BTreeMap<FileId, Mark>);

impl Positions {
    pub(crate) const WHOLE: Mark = Mark::unchecked(u64::MAX);

    /// Reads the positions. If the file is missing, nothing was read. A damaged line is skipped, so
    /// its file is read again. Lines of earlier versions lack the mark, and still older ones also
    /// the checksum of the line.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let octets = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            octets => octets?,
        };
        let line = |line: &[u8]| {
            let text = match checked::text(line) {
                None if line.split(|octet| *octet == b' ').count() == 4 => line,
                checked => checked?,
            };
            let mut numbers = str::from_utf8(text).ok()?.split(' ').map(str::parse);
            let mut next = || numbers.next()?.ok();
            let id = FileId {
                device: next()?,
                inode: next()?,
                born_ns: next()?,
            };
            let mut mark = Mark::unchecked(next()?);
            if let (Some(length), Some(crc)) = (next(), next()) {
                mark.length = length.min(mark.octets).min(Mark::LONGEST);
                mark.crc = u32::try_from(crc).ok()?;
            }
            Some((id, mark))
        };
        Ok(Self(
            octets
                .split(|octet| *octet == b'\n')
                .filter_map(line)
                .collect(),
        ))
    }

    /// Replaces the file atomically, and makes it durable.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let line = |(id, mark): (&FileId, &Mark)| {
            checked::line(&format!(
                "{} {} {} {} {} {}",
                id.device, id.inode, id.born_ns, mark.octets, mark.length, mark.crc
            ))
        };
        let text: String = self.0.iter().map(line).collect();
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("positions");
        assert_eq!(Positions::load(&path).expect("read"), Positions::default());
        let id = FileId::of(&folder.path().metadata().expect("a folder"));
        let mark = Mark {
            octets: 7,
            length: 3,
            crc: 5,
        };
        let positions =
            Positions([(id, mark), (FileId { inode: 1, ..id }, Positions::WHOLE)].into());
        positions.save(&path).expect("written");
        let whole = fs::read(&path).expect("read");
        // A changed byte means at most that a file is read again.
        for place in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[place] ^= 1 << bit;
                fs::write(&path, &damaged).expect("written");
                let found = Positions::load(&path).expect("read");
                for (id, mark) in found.0 {
                    let known = positions.0.get(&id);
                    assert!(known.is_none_or(|known| *known == mark), "octet {place}");
                }
            }
        }
        fs::write(&path, &whole).expect("written");
        let damaged = [
            b"\xff 7\n".to_vec(),
            fs::read(&path).expect("read"),
            b"torn 7".to_vec(),
        ]
        .concat();
        fs::write(&path, damaged).expect("written");
        assert_eq!(Positions::load(&path).expect("read"), positions);
    }

    #[test]
    fn positions_of_an_earlier_version_are_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../tests/data/earlier/spool/read.positions");
        let positions: Vec<Mark> = Positions::load(&path)
            .expect("read")
            .0
            .into_values()
            .collect();
        assert!(
            positions.len() == 3 && positions.contains(&Positions::WHOLE),
            "{positions:?}"
        );
    }
}
