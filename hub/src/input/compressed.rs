//! Files compressed by zstd, read frame by frame, also while frames are appended.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use super::lines::Splitter;
use super::positions::Mark;
use super::{READ, Sender, Stopped};

/// First octets of a file compressed by zstd (RFC 8878, 3.1.1).
pub(super) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How far a compressed file was read.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Compressed octets of the frames that were read.
    octets: u64,
    /// The mark of these octets.
    mark: Mark,
    /// Octets of the text of the next frame that were read. The frame is not complete yet.
    of_frame: u64,
    /// Mark of the compressed octets before the first line that is not complete.
    pub(super) durable: Mark,
    splitter: Splitter,
}

impl Place {
    pub(super) fn at(mark: Mark) -> Self {
        Self {
            octets: mark.octets,
            mark,
            durable: mark,
            ..Self::default()
        }
    }

    /// Reads what was appended. Text that was read is not read again, also that of a frame that is cut.
    ///
    /// # Errors
    /// Returns the error of the file, or that of a frame which is damaged or cut.
    pub(super) fn read(&mut self, file: &File, sender: &Sender) -> Result<io::Result<()>, Stopped> {
        if !self.mark.holds(file) {
            // The file was truncated.
            *self = Self::default();
        }
        let mut durable = self.durable.octets;
        let result = self.read_frames(file, &mut durable, sender);
        self.mark = Mark::at(file, self.octets);
        self.durable = Mark::at(file, durable);
        result
    }

    /// Reads the next frames. `durable` becomes the end of the last one that ends with a whole line.
    fn read_frames(
        &mut self,
        mut file: &File,
        durable: &mut u64,
        sender: &Sender,
    ) -> Result<io::Result<()>, Stopped> {
        if let Err(error) = file.seek(SeekFrom::Start(self.octets)) {
            return Ok(Err(error));
        }
        let (mut reader, mut buffer) = (BufReader::new(file), vec![0; READ]);
        loop {
            match reader.fill_buf() {
                Ok([]) => break,
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
            let mut decoder = match zstd::Decoder::with_buffer(reader) {
                Ok(decoder) => decoder.single_frame(),
                Err(error) => return Ok(Err(fault_of(error))),
            };
            let mut passed = 0;
            loop {
                let octets = match decoder.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(octets) => octets,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Ok(Err(fault_of(error))),
                };
                let known = self.of_frame.saturating_sub(passed).min(octets as u64);
                passed += octets as u64;
                self.of_frame = self.of_frame.max(passed);
                self.splitter.add(&buffer[known as usize..octets], sender)?;
            }
            reader = decoder.finish();
            self.octets = match reader.stream_position() {
                Ok(octets) => octets,
                Err(error) => return Ok(Err(error)),
            };
            self.of_frame = 0;
            if self.splitter.pending() == 0 {
                *durable = self.octets;
            }
        }
        // The last line may have no line feed. A cut line continues in the next frame.
        if self.splitter.is_whole() {
            self.splitter.finish(sender)?;
            *durable = self.octets;
        }
        Ok(Ok(()))
    }
}

/// Returns the fault of a file. Without a number of the operating system, it is one of the
/// compressed data.
fn fault_of(error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() {
        return error;
    }
    let reason = format!(
        "the compressed data is damaged or not complete ({error}); replace or remove the file if it stays so"
    );
    io::Error::new(error.kind(), reason)
}
