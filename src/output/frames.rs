//! Reads a sequence of zstd frames in which a disk may have damaged some bytes. The length of a
//! damaged frame can be wrong, so reading continues at the next magic number.

use std::io;

use zstd::bulk::Compressor;
use zstd::zstd_safe::{self, CParameter};

/// Returns a compressor that adds a checksum to each frame. `level` is a level of zstd, 1 to 22.
///
/// # Errors
/// Returns the error of zstd.
pub fn compressor(level: i32) -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(compressor)
}

/// Returns the length of the first frame, or `None` if the frame is incomplete or there is none.
pub fn length(octets: &[u8]) -> Option<usize> {
    zstd_safe::find_frame_compressed_size(octets)
        .ok()
        .filter(|length| *length <= octets.len())
}

/// Returns the position after a damaged frame at which the next frame may begin, or the end.
pub fn next(octets: &[u8]) -> usize {
    let found = octets
        .get(1..)
        .and_then(|rest| memchr::memmem::find(rest, &zstd_safe::MAGICNUMBER.to_le_bytes()));
    found.map_or(octets.len(), |next| 1 + next)
}
