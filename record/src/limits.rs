//! Limits of the sizes of inputs, and reading within these limits.
//!
//! Each limit is far above every real input. A file beyond its limit is refused with a message, so
//! a wrong path such as `/dev/zero` does not fill the memory. `SECURITY.md` has a table of all
//! limits.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

/// Largest configuration file in octets.
pub const CONFIG: u64 = 1 << 20;

/// Largest plan in octets. 250,000 ports need about 50 MiB.
pub const PLAN: u64 = 128 << 20;

/// Largest net file in octets.
pub const NET_FILE: u64 = 256 << 20;

/// Largest number of lines of a net file. A fabric has at most 49,151 LIDs, and its net file has
/// about 600,000 lines.
pub const NET_FILE_LINES: usize = 1_000_000;

/// Largest file with forwarding tables, or with the service level of each pair of hosts, in octets.
/// It is read line by line. The tables of 1,500 switches and 38,000 LIDs have about 5 GB.
pub const ROUTES: u64 = 16 << 30;

/// Largest file with one line per host, in octets: node name map, samplers file, lid file of LDMS.
pub const HOST_FILE: u64 = 16 << 20;

/// Largest certificate, key, password or credentials file in octets.
pub const SECRET: u64 = 1 << 20;

/// Largest output of Slurm in octets: about a million jobs.
pub const SLURM: u64 = 256 << 20;

/// Longest line of a file of records in octets. A record has at most 16 KiB.
pub const LINE: usize = 1 << 20;

/// Reads everything, but at most `most` octets.
///
/// # Errors
/// Returns the error of the reader, and [`io::ErrorKind::FileTooLarge`] if there are more octets.
pub fn read(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    from.take(most + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {} MiB", most >> 20),
        ));
    }
    Ok(octets)
}

/// Reads a file of at most `most` octets.
///
/// # Errors
/// Returns the error of the operating system, and [`io::ErrorKind::FileTooLarge`] if the file has
/// more octets.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read(File::open(path)?, most)
}

/// Reads a text file of at most `most` octets.
///
/// # Errors
/// Returns the errors of [`read_file`], and an error if the file is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let octets = read_file(path, most)?;
    let not_utf8 = |line| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("line {line} is not UTF-8"),
        )
    };
    utf8(&octets).map(str::to_owned).map_err(not_utf8)
}

/// Returns octets as text.
///
/// # Errors
/// Returns the number of the first line that is not UTF-8, counted from 1.
pub fn utf8(octets: &[u8]) -> Result<&str, usize> {
    std::str::from_utf8(octets)
        .map_err(|error| 1 + memchr::memchr_iter(b'\n', &octets[..error.valid_up_to()]).count())
}

/// Reads the next line without its line feed. Returns false at the end of the file. A line that is
/// longer than [`LINE`] is cut to that length, and the remainder is skipped.
///
/// # Errors
/// Returns the error of the reader.
pub fn read_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut read = text.by_ref().take(LINE as u64).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(false);
    }
    let mut is_whole = line.ends_with(b"\n");
    while !is_whole && read > 0 {
        let buffer = text.fill_buf()?;
        read = buffer.len();
        let end = memchr::memchr(b'\n', buffer);
        is_whole = end.is_some();
        let used = end.map_or(read, |end| end + 1);
        text.consume(used);
    }
    if line.ends_with(b"\n") {
        line.pop();
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_input_is_refused_at_its_limit() {
        assert_eq!(read(&b"12345"[..], 5).expect("within the limit"), b"12345");
        for (error, text) in [
            (read(io::repeat(0), 3 << 20), "it has more than 3 MiB"),
            (
                read_file(Path::new("/dev/zero"), CONFIG),
                "it has more than 1 MiB",
            ),
        ] {
            let error = error.expect_err("too long");
            assert_eq!(
                (error.kind(), error.to_string()),
                (io::ErrorKind::FileTooLarge, text.to_owned())
            );
        }
        assert!(read_text(Path::new("/dev/zero"), CONFIG).is_err());
    }

    #[test]
    fn long_line_is_cut_and_the_next_line_is_read() {
        let text = [vec![b'x'; 3 * LINE], b"\nnext\n\nlast".to_vec()].concat();
        let (mut text, mut line, mut all) = (&text[..], Vec::new(), Vec::new());
        while read_line(&mut text, &mut line).expect("readable") {
            assert!(line.capacity() <= 2 * LINE);
            all.push((line.len(), line.first().copied()));
        }
        assert_eq!(
            all,
            [
                (LINE, Some(b'x')),
                (4, Some(b'n')),
                (0, None),
                (4, Some(b'l'))
            ]
        );
    }

    #[test]
    fn line_without_an_end_takes_no_more_memory_than_a_record() {
        let mut text = io::BufReader::new(io::repeat(b'x').take(20 * LINE as u64));
        let mut line = Vec::new();
        assert!(read_line(&mut text, &mut line).expect("readable"));
        assert_eq!(line.len(), LINE);
        assert!(!read_line(&mut text, &mut line).expect("readable"));
    }
}
