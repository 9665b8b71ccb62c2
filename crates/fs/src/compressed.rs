//! What archives are compressed with, told by how they begin.
//!
//! *Invariant:* no more is ever made of compressed bytes than is asked for.

use std::io::{self, Read};

use bytes::Bytes;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Memory that a zstd stream may ask for, as a power of two.
const MAX_WINDOW: u32 = 27;

/// Why there is nothing to read.
#[derive(Debug, thiserror::Error)]
pub enum CompressedError {
    /// It would be too much.
    #[error("it has more than {0} bytes when it is decompressed")]
    TooLarge(u64),
    /// It is damaged.
    #[error("it cannot be decompressed: {0}")]
    Damaged(#[from] io::Error),
}

/// Returns what gzip or zstd have compressed; what neither has is returned as it is. Blocking.
///
/// # Errors
/// It is damaged, or has more than `max` bytes.
pub fn decompressed(bytes: Bytes, max: u64) -> Result<Bytes, CompressedError> {
    if bytes.starts_with(&GZIP) {
        return bounded(flate2::bufread::MultiGzDecoder::new(&*bytes), max);
    }
    if bytes.starts_with(&ZSTD) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(&*bytes)?;
        decoder.window_log_max(MAX_WINDOW)?;
        return bounded(decoder, max);
    }
    match bytes.len() as u64 > max {
        true => Err(CompressedError::TooLarge(max)),
        false => Ok(bytes),
    }
}

fn bounded(from: impl Read, max: u64) -> Result<Bytes, CompressedError> {
    let mut read = Vec::new();
    from.take(max.saturating_add(1)).read_to_end(&mut read)?;
    match read.len() as u64 > max {
        true => Err(CompressedError::TooLarge(max)),
        false => Ok(read.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_is_compressed_is_read_within_a_bound() {
        let text = "a line\n".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        let zstd = zstd::stream::encode_all(text.as_bytes(), 0).unwrap();
        for bytes in [gzip.clone(), zstd, text.clone().into_bytes()] {
            assert_eq!(decompressed(bytes.clone().into(), 7000).unwrap(), text);
            let error = decompressed(bytes.into(), 6999).unwrap_err();
            assert!(matches!(error, CompressedError::TooLarge(6999)), "{error}");
        }
        let damaged = gzip[..gzip.len() / 2].to_vec();
        let error = decompressed(damaged.into(), 7000).unwrap_err();
        assert!(matches!(error, CompressedError::Damaged(_)), "{error}");
    }
}
