//! The key of a chain: HMAC-SHA256 (RFC 2104) over the records.
//!
//! *Invariant:* the key itself is never shown, only its name, which says nothing about it.

use sha2::{Digest, Sha256};

/// A shorter key could be found by trying.
const MIN_BYTES: usize = 32;
const MAX_BYTES: usize = 4096;

const BLOCK: usize = 64;

/// Why a text is not a key.
#[derive(Debug, thiserror::Error)]
#[error("a key has {MIN_BYTES} to {MAX_BYTES} bytes without the space around them, this one has {found}")]
pub struct KeyError {
    found: usize,
}

/// A key and its name.
#[derive(Clone, PartialEq)]
pub struct Key {
    id: String,
    block: [u8; BLOCK],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

impl Key {
    /// Makes a key of the content of a file; space at its ends does not count.
    ///
    /// # Errors
    /// It is too short or too long.
    pub fn new(content: &[u8]) -> Result<Self, KeyError> {
        let secret = content.trim_ascii();
        if !(MIN_BYTES..=MAX_BYTES).contains(&secret.len()) {
            return Err(KeyError { found: secret.len() });
        }
        let key = Self {
            id: String::new(),
            block: block(secret),
        };
        // A name that only the key gives, and that does not give the key.
        let id = key.sign("toolgate audit key")[..16].to_owned();
        Ok(Self { id, ..key })
    }

    /// Returns the key's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the HMAC-SHA256 of a text, hexadecimal.
    pub fn sign(&self, text: &str) -> String {
        let pad = |with: u8| self.block.map(|byte| byte ^ with);
        let inner = Sha256::new_with_prefix(pad(0x36)).chain_update(text).finalize();
        hex::encode(Sha256::new_with_prefix(pad(0x5c)).chain_update(inner).finalize())
    }
}

fn block(secret: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    if secret.len() > BLOCK {
        let digest = Sha256::digest(secret);
        block[..digest.len()].copy_from_slice(&digest);
    } else {
        block[..secret.len()].copy_from_slice(secret);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_rfc_4231() {
        let check = |secret: &[u8], text: &str, expected: &str| {
            let key = Key {
                id: String::new(),
                block: block(secret),
            };
            assert_eq!(key.sign(text), expected);
        };
        check(
            b"Jefe",
            "what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        check(
            &[0xaa; 131],
            "Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }

    #[test]
    fn keys_are_long_enough_and_never_shown() {
        assert!(Key::new(b"  too short  ").is_err());
        let key = Key::new(b"0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(key.id().len(), 16);
        assert!(!format!("{key:?}").contains("0123456789abcdef"));
    }
}
