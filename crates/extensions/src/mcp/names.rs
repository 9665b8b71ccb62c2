//! The names under which a server's tools are offered (`docs/spec/extensions.md` §3.3).
//!
//! *Invariant:* pure.

/// Returns the name of a tool of a server.
pub(super) fn full_name(server: &str, tool: &str) -> String {
    let mut name = String::with_capacity(server.len() + 1 + tool.len());
    push_sanitised(&mut name, server);
    name.push('_');
    push_sanitised(&mut name, tool);
    name
}

/// A character outside the basic plane counts twice, as it does where names are made of 16-bit units.
fn push_sanitised(name: &mut String, part: &str) {
    for character in part.chars() {
        if character.is_ascii_alphanumeric() || matches!(character, '_' | '-') {
            name.push(character);
        } else {
            name.extend(std::iter::repeat_n('_', character.len_utf16()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_plain_characters() {
        let check = |server: &str, tool: &str, expected: &str| {
            assert_eq!(full_name(server, tool), expected);
        };
        check("s", "multi", "s_multi");
        check("my srv.1", "echo.text", "my_srv_1_echo_text");
        check("a-b", "C_d", "a-b_C_d");
        check("é", "x/y", "__x_y");
        check("s", "\u{1f600}", "s___");
        check("", "", "_");
    }
}
