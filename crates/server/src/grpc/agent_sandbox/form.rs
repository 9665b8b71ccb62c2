//! The form that a content may come in.
//!
//! *Invariant:* whoever sends it decides how much of it comes at once, and here no more is held than one piece and what is before the
//! file. The reader of forms takes in whatever is there, so it is shown one piece at a time.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use multer::Multipart;
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use crate::grpc::events::ResponseStream;
use crate::grpc::status::bad_field;

/// The part that is the file.
pub(super) const PART: &str = "file";

/// Bytes that may come before the content of the file: other parts, and what is said of each.
const MAX_BEFORE: usize = 64 * 1024;

/// Returns what separates the parts of a form, if a request brings one.
pub(super) fn boundary(headers: &HeaderMap) -> Option<String> {
    multer::parse_boundary(headers.get(CONTENT_TYPE)?.to_str().ok()?).ok()
}

/// Returns the name of the file in a form, and its content as it comes.
pub(super) async fn file(
    form: impl Stream<Item = Result<Bytes, Status>> + Send + Unpin + 'static,
    boundary: String,
) -> Result<(Option<String>, ResponseStream<Bytes>), Status> {
    let is_found = Arc::new(AtomicBool::new(false));
    let pieces = Piecewise {
        form,
        seen: 0,
        is_found: is_found.clone(),
        has_given: false,
    };
    let mut form = Multipart::new(pieces, boundary);
    while let Some(field) = form.next_field().await.map_err(|error| broken(&error))? {
        if field.name() == Some(PART) {
            is_found.store(true, Ordering::Relaxed);
            let said = field.headers().get(CONTENT_DISPOSITION);
            let name = said
                .and_then(|said| std::str::from_utf8(said.as_bytes()).ok())
                .and_then(name_in);
            return Ok((name, field.map_err(|error| broken(&error)).boxed()));
        }
    }
    Err(bad_field(PART, "the form has no such part"))
}

/// Returns the name of a file in what is said of its part; `filename*` is the exact one.
fn name_in(said: &str) -> Option<String> {
    let (mut plain, mut exact) = (None, None);
    let mut rest = said;
    // The first is the kind of the part.
    while let Some((_, behind)) = rest.split_once(';') {
        let Some((key, behind)) = behind.split_once('=') else {
            break;
        };
        let (value, behind) = value_of(behind.trim_start())?;
        rest = behind;
        match key.trim().to_ascii_lowercase().as_str() {
            "filename" => plain = Some(value),
            "filename*" => exact = decoded(&value),
            _ => {}
        }
    }
    exact.or(plain)
}

/// Takes a value off, which is a word or in quotes, and returns what is behind it. In quotes `\` is put before `"` and `\`; before
/// anything else it is a character like any other, since some clients put nothing before it.
fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return Some((text[..end].trim_end().to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => {
                let escaped = characters.next_if(|(_, next)| ['"', '\\'].contains(next));
                value.push(escaped.map_or(character, |(_, next)| next));
            }
            _ => value.push(character),
        }
    }
    None
}

/// Decodes `UTF-8''NAME`; none if it is anything else.
fn decoded(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_, encoded) = rest.split_once('\'')?;
    let name = percent_encoding::percent_decode_str(encoded).decode_utf8().ok()?;
    charset.eq_ignore_ascii_case("utf-8").then(|| name.into_owned())
}

fn broken(error: &multer::Error) -> Status {
    let missing = error.source().and_then(|cause| cause.downcast_ref::<Missing>());
    bad_field("body", missing.map_or_else(|| error.to_string(), ToString::to_string))
}

#[derive(Debug, thiserror::Error)]
#[error("the part {PART} does not begin in the first {MAX_BEFORE} bytes of the form: send it first")]
struct Missing;

/// A form by single pieces: after each, whoever reads has to come again.
struct Piecewise<S> {
    form: S,
    seen: usize,
    /// Whether the file has begun.
    is_found: Arc<AtomicBool>,
    has_given: bool,
}

impl<S: Stream<Item = Result<Bytes, Status>> + Unpin> Stream for Piecewise<S> {
    type Item = Result<Bytes, Box<dyn Error + Send + Sync>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.has_given) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.seen >= MAX_BEFORE && !self.is_found.load(Ordering::Relaxed) {
            return Poll::Ready(Some(Err(Missing.into())));
        }
        let piece = ready!(self.form.poll_next_unpin(context));
        if let Some(Ok(piece)) = &piece {
            self.seen = self.seen.saturating_add(piece.len());
            self.has_given = true;
        }
        Poll::Ready(piece.map(|piece| piece.map_err(Into::into)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::stream;

    use super::*;

    const PIECE: usize = 1024;

    /// Returns a form that has no end, all of which is there at once, and how many pieces of it were taken.
    fn endless(start: &'static str) -> (impl Stream<Item = Result<Bytes, Status>> + Unpin, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = taken.clone();
        let rest = stream::repeat(Bytes::from(vec![b'x'; PIECE]));
        let pieces = stream::iter([Bytes::from(start)]).chain(rest).map(move |piece| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(piece)
        });
        (pieces, taken)
    }

    #[test]
    fn names_are_read_as_their_clients_write_them() {
        let check = |said: &str, expected: Option<&str>| {
            assert_eq!(name_in(said).as_deref(), expected, "{said}");
        };
        check(r#"form-data; name="file"; filename="a b.txt""#, Some("a b.txt"));
        check(r#"form-data; filename="a;b=c"; name="file""#, Some("a;b=c"));
        check(r#"form-data; name="file"; filename="a\\b\"c""#, Some(r#"a\b"c"#));
        check(r#"form-data; name="file"; filename="a\b""#, Some(r"a\b"));
        check("form-data; name=file; filename=a.txt", Some("a.txt"));
        check("form-data; filename = a.txt ; name=file;", Some("a.txt"));
        check("form-data; name=file; filename*=UTF-8''%C3%BC%20x", Some("ü x"));
        check(
            r#"form-data; name="file"; filename*=utf-8'en'%C3%BC; filename="u""#,
            Some("ü"),
        );
        check(
            r#"form-data; name="file"; filename="u"; filename*=latin1''%FC"#,
            Some("u"),
        );
        check(r#"form-data; name="file"; filename="never closed"#, None);
        check(r#"form-data; name="file""#, None);
    }

    #[tokio::test]
    async fn what_never_comes_to_the_file_is_not_kept() {
        for start in [
            "",
            "--limit\r\nContent-Disposition: form-data; name=\"",
            "--limit\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\n",
        ] {
            let (form, taken) = endless(start);
            let refused = file(form, "limit".to_owned()).await.err().unwrap();
            assert!(refused.message().contains("send it first"), "{refused}");
            assert!(taken.load(Ordering::Relaxed) <= MAX_BEFORE / PIECE + 2, "{start}");
        }
    }

    #[tokio::test]
    async fn a_content_is_read_no_further_than_it_is_wanted() {
        let (form, taken) = endless("--limit\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n");
        let (name, mut content) = file(form, "limit".to_owned()).await.unwrap();
        assert_eq!(name.as_deref(), Some("a"));
        let mut bytes = 0;
        while bytes < 100 * PIECE {
            bytes += content.next().await.unwrap().unwrap().len();
        }
        assert!(taken.load(Ordering::Relaxed) <= bytes / PIECE + 4);
    }
}
