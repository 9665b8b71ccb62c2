//! `{env:NAME}` and `{file:path}` in the text of a configuration file (`docs/spec/extensions.md` §4.3).
//!
//! *Invariant:* the result is no larger than a file may be, and no more than that is read for it.

use std::path::Path;

use super::environment::Environment;
use super::error::{Position, Problem};
use super::read;
use super::seen::Seen;

/// Replaces the marks: first variables (inserted as they are), then files (trimmed, escaped for a JSON string; relative
/// paths belong to `folder`). So a variable may be part of a path. Lines that begin with `//` are left alone.
pub(super) fn substitute(text: &str, folder: &Path, env: &Environment, seen: &mut Seen) -> Result<String, Problem> {
    let text = replace(text, "{env:", |name| Ok(env.get(name).unwrap_or_default().to_owned()))?;
    let mut left = read::MAX_BYTES;
    replace(&text, "{file:", |written| {
        let path = env.resolve(written, folder);
        seen.add(&path);
        let reference =
            |reason: &str| format!("bad file reference: \"{{file:{written}}}\" {} {reason}", path.display());
        let bytes = read::bounded(&path).map_err(|error| {
            if read::is_absent(&error) {
                reference("does not exist")
            } else {
                reference(&format!("cannot be read: {error}"))
            }
        })?;
        left = left
            .checked_sub(bytes.len())
            .ok_or_else(|| reference("is too large together with the others"))?;
        let content = String::from_utf8(bytes).map_err(|_| reference("is not UTF-8"))?;
        Ok(escaped(content.trim()))
    })
}

/// Replaces every mark that begins with `opening` and ends with `}`; an empty one is no mark.
fn replace(
    text: &str,
    opening: &str,
    mut value: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, Problem> {
    let mut done = String::with_capacity(text.len());
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        let comment = line.trim_start().starts_with("//");
        while let Some(start) = rest.find(opening).filter(|_| !comment) {
            let (before, mark) = rest.split_at(start);
            let inside = &mark[opening.len()..];
            let Some(end) = inside.find('}') else { break };
            done.push_str(before);
            let here = || Some(Position::at(text, offset + line.len() - mark.len()));
            match &inside[..end] {
                "" => done.push_str(&mark[..=opening.len()]),
                name => done.push_str(&value(name).map_err(|message| Problem::new(here(), "", message))?),
            }
            if done.len() > read::MAX_BYTES {
                let message = format!(
                    "the text with everything inserted is larger than {} bytes",
                    read::MAX_BYTES
                );
                return Err(Problem::new(here(), "", message));
            }
            rest = &inside[end + 1..];
        }
        done.push_str(rest);
        offset += line.len();
    }
    Ok(done)
}

fn escaped(content: &str) -> String {
    let quoted = serde_json::Value::from(content).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        let vars = vars.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Environment::new(vars, "/")
    }

    #[test]
    fn variables() {
        let env = environment(&[("A", "x"), ("Q", "\"")]);
        for (text, expected) in [
            ("{env:A}-{env:B}.", "x-."),
            ("a {env:Q} b", "a \" b"),
            ("// {env:A}\n{env:A}", "// {env:A}\nx"),
            ("  // {env:A}", "  // {env:A}"),
            ("\"http://h/{env:A}\"", "\"http://h/x\""),
            ("{env:A", "{env:A"),
            ("{env:}", "{env:}"),
            ("{env:{env:A}", ""),
        ] {
            let done = substitute(text, Path::new("/"), &env, &mut Seen::default());
            assert_eq!(done.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn files() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::write(folder.path().join("t.txt"), "  multi\nline \"q\" \\ $& \n").expect("the folder is ours");
        let env = environment(&[("HOME", folder.path().to_str().expect("the path is UTF-8")), ("T", "t")]);
        let expected = r#"multi\nline \"q\" \\ $&"#;
        for text in ["{file:t.txt}", "{file:./t.txt}", "{file:~/t.txt}", "{file:{env:T}.txt}"] {
            let done = substitute(text, folder.path(), &env, &mut Seen::default());
            assert_eq!(done.as_deref(), Ok(expected), "{text}");
        }
        for (text, reason) in [
            ("\n {file:nope.txt}", "nope.txt does not exist"),
            ("\n {file:/dev/zero}", "cannot be read: it is not a regular file"),
        ] {
            let problem =
                substitute(text, folder.path(), &env, &mut Seen::default()).expect_err("there is no such file");
            assert!(problem.message.starts_with("bad file reference: \"{file:"), "{problem}");
            assert!(problem.message.ends_with(reason), "{problem}");
            assert_eq!(problem.position, Some(Position { line: 2, column: 2 }));
        }
    }

    #[test]
    fn growth_is_bounded() {
        let env = environment(&[("A", &"x".repeat(100_000))]);
        assert!(substitute(&"{env:A}".repeat(1000), Path::new("/"), &env, &mut Seen::default()).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[{}:/a\\n é]{0,12}(\\{(env|file):[a-zé{]{0,3}\\}?[/\\n ]{0,3}){0,4}") {
            let env = environment(&[("a", "{file:"), ("é", "é")]);
            let _ = substitute(&text, Path::new("/nowhere"), &env, &mut Seen::default());
        }

        #[test]
        fn text_without_marks_stays(text in "[^{]*") {
            prop_assert_eq!(substitute(&text, Path::new("/"), &environment(&[]), &mut Seen::default()), Ok(text));
        }
    }
}
