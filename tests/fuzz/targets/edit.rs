//! The edit matchers. The input is `FILE~OLD~NEW`, with one more `~` to replace all places.
//!
//! *Invariant:* nothing panics or takes long; one place that is no empty text is replaced by newString, and no other byte
//! changes; a text that stands in the file once is always what is replaced.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokio_util::sync::CancellationToken;
use toolgate_fuzz::workspace::edit::{Edit, EditError, replace};

fuzz_target!(|input: &str| {
    let mut parts = input.split('~');
    let (Some(file), Some(old), Some(new)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let edit = Edit {
        old: old.to_owned(),
        new: new.to_owned(),
        replace_all: parts.next().is_some(),
    };
    let result = replace(file.as_bytes(), &edit, &CancellationToken::new());
    let is_crlf = file.contains("\r\n");
    let (old, new) = (with_endings(old, is_crlf), with_endings(new, is_crlf));
    if old == new || old.is_empty() {
        assert!(
            matches!(result, Err(EditError::Identical | EditError::EmptyOld)),
            "{result:?}"
        );
        return;
    }
    let exactly = places(file, &old);
    match result {
        Ok(result) => {
            let result = String::from_utf8(result).expect("text stays text");
            match exactly {
                0 if edit.replace_all => {}
                0 => check_one_place(file, &new, &result),
                1 => assert_eq!(result, file.replacen(&old, &new, 1)),
                _ => {
                    assert!(edit.replace_all, "one of {exactly} places was chosen");
                    assert_eq!(result, file.replace(&old, &new));
                }
            }
        }
        Err(EditError::NotFound) => assert_eq!(exactly, 0),
        Err(EditError::Ambiguous) => assert!(!edit.replace_all && exactly != 1),
        Err(EditError::FarLarger) => assert_eq!(exactly, 0),
        Err(error) => panic!("{error}"),
    }
});

fn with_endings(text: &str, is_crlf: bool) -> String {
    let text = text.replace("\r\n", "\n");
    if is_crlf { text.replace('\n', "\r\n") } else { text }
}

/// How often a text occurs, where overlapping ones count as two.
fn places(file: &str, old: &str) -> usize {
    match (file.find(old), file.rfind(old)) {
        (None, _) | (_, None) => 0,
        (Some(first), Some(last)) if first == last => 1,
        (Some(_), Some(_)) => 2,
    }
}

/// Checks that the result is the file with one range, on char boundaries and not empty, replaced by `new`.
fn check_one_place(file: &str, new: &str, result: &str) {
    let kept = result.len().checked_sub(new.len()).expect("newString is in the result");
    let is_place = |start: usize| {
        let end = file.len() - (kept - start);
        start < end
            && file.is_char_boundary(start)
            && file.is_char_boundary(end)
            && result.as_bytes()[..start] == file.as_bytes()[..start]
            && result.as_bytes()[start..].starts_with(new.as_bytes())
            && result.as_bytes()[start + new.len()..] == file.as_bytes()[end..]
    };
    assert!(
        kept < file.len() && (0..=kept).any(is_place),
        "{file:?} became {result:?}, which is not one replacement by {new:?}"
    );
}
