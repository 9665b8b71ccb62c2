//! What kind of content a file has: an image or document to attach, text, or something else.
//!
//! *Invariant:* pure; looks at the name and the first [`SAMPLE`] bytes only (`docs/spec/file-tools.md` §2, steps 3 and
//! 4).

use std::path::Path;

/// How many bytes of a file the decision is made from.
pub const SAMPLE: usize = 4096;

/// Media that a model can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `image/png`
    Png,
    /// `image/jpeg`
    Jpeg,
    /// `image/gif`
    Gif,
    /// `image/webp`
    Webp,
    /// `application/pdf`
    Pdf,
}

impl Media {
    /// Returns the media type.
    pub fn mime(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    /// Returns the medium that the file holds: by its first bytes, and by its name if those say nothing.
    pub fn detect(name: &Path, sample: &[u8]) -> Option<Self> {
        match sample {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            [b'%', b'P', b'D', b'F', b'-', ..] => Some(Self::Pdf),
            // A bitmap is no image that models take, whatever its name says.
            [b'B', b'M', ..] => None,
            _ => match extension(name).as_str() {
                "png" => Some(Self::Png),
                "jpg" | "jpeg" | "jpe" => Some(Self::Jpeg),
                "gif" => Some(Self::Gif),
                "webp" => Some(Self::Webp),
                "pdf" => Some(Self::Pdf),
                _ => None,
            },
        }
    }
}

/// Extensions of files that hold no text, whatever their first bytes look like.
const BINARY: &[&str] = &[
    "zip", "tar", "gz", "exe", "dll", "so", "class", "jar", "war", "7z", "doc", "docx", "xls", "xlsx", "ppt", "pptx",
    "odt", "ods", "odp", "bin", "dat", "obj", "o", "a", "lib", "wasm", "pyc", "pyo",
];

/// Says whether a file holds something else than text: by its name, by a NUL, or by more than 30 percent of control
/// characters.
pub fn is_binary(name: &Path, sample: &[u8]) -> bool {
    if BINARY.contains(&extension(name).as_str()) {
        return true;
    }
    let sample = &sample[..sample.len().min(SAMPLE)];
    let control = sample.iter().filter(|byte| matches!(byte, 0..9 | 14..32)).count();
    sample.contains(&0) || control * 10 > sample.len() * 3
}

fn extension(name: &Path) -> String {
    name.extension()
        .map(|extension| extension.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_media() {
        let check = |name: &str, sample: &[u8], expected: Option<Media>| {
            assert_eq!(Media::detect(Path::new(name), sample), expected, "{name}");
        };
        check("x.dat", b"\x89PNG\r\n\x1a\nrest", Some(Media::Png));
        check("x", b"\xff\xd8\xff\xe0", Some(Media::Jpeg));
        check("x", b"GIF89a", Some(Media::Gif));
        check("x", b"GIFs are fun", None);
        check("x", b"RIFF\x01\x02\x03\x04WEBPVP8", Some(Media::Webp));
        check("x", b"RIFF\x01\x02\x03\x04WAVE", None);
        check("x.txt", b"%PDF-1.7", Some(Media::Pdf));
        check("x.PNG", b"", Some(Media::Png));
        check("x.png", b"BM\0\0", None);
        check("x.jpeg", b"?", Some(Media::Jpeg));
        check("logo.svg", b"<svg/>", None);
        check("schema.fbs", b"table T {}", None);
        check("png", b"text", None);
    }

    #[test]
    fn knows_binary() {
        let check = |name: &str, sample: &[u8], expected: bool| {
            assert_eq!(is_binary(Path::new(name), sample), expected, "{name} {sample:?}");
        };
        check("a.txt", b"", false);
        check("a.SO", b"text", true);
        check("archive.tar.gz", b"text", true);
        check("a", b"text\0", true);
        check("a", b"\t\n\x0b\x0c\r", false);
        check("a", b"\x01\x01\x01aaaaaaa", false);
        check("a", b"\x01\x01\x01\x01aaaaaa", true);
        check("a", "żółć".as_bytes(), false);
        let mut late = vec![b'a'; SAMPLE];
        late.push(0);
        check("a", &late, false);
    }
}
