//! The corpus of attacks: the lines of `tests/corpus/attacks.txt`, filled in, rewritten and put into every position of the
//! grammar.
//!
//! *Invariant:* the same lines in the same order each time.

use std::collections::HashSet;

/// What a line does when it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Effect {
    /// It deletes files of the workspace.
    Deletes,
    /// It makes, changes or deletes files outside.
    Writes,
    /// It prints a file from outside.
    Reads,
    /// It opens a connection.
    Connects,
    /// It pushes to a repository.
    Pushes,
    /// It starts the script `c`, or makes its mark by `touch`.
    Runs,
}

impl Effect {
    fn of_word(word: &str) -> Self {
        match word {
            "deletes" => Self::Deletes,
            "writes" => Self::Writes,
            "reads" => Self::Reads,
            "connects" => Self::Connects,
            "pushes" => Self::Pushes,
            "run" => Self::Runs,
            other => panic!("{other}: no such effect"),
        }
    }
}

/// One attack.
#[derive(Clone, Debug)]
pub(super) struct Attack {
    pub(super) line: String,
    pub(super) effect: Effect,
    /// A line that does the same openly: a rule set that allows it allows the attack too.
    pub(super) plain: &'static str,
}

/// A line as it is written in the list.
struct Base {
    line: String,
    effect: Effect,
    /// What does the same openly.
    plain: &'static str,
    is_rewritten: bool,
}

/// The list, taken apart.
struct List {
    positions: Vec<String>,
    forwards: Vec<String>,
    bases: Vec<Base>,
}

fn list() -> List {
    let text: &'static str = include_str!("../../corpus/attacks.txt");
    let mut list = List {
        positions: Vec::new(),
        forwards: Vec::new(),
        bases: Vec::new(),
    };
    let mut heading = "";
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# ") && *line != "#")
    {
        let inner = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .filter(|inner| inner.starts_with(|c: char| c.is_ascii_lowercase()) && !inner.contains(['[', ']']));
        if let Some(inner) = inner {
            heading = inner;
            continue;
        }
        let line = line.replace('⏎', "\n");
        match heading {
            "position" => list.positions.push(line),
            "forward" => list.forwards.push(line),
            _ => {
                let (kind, plain) = heading.split_once(" = ").unwrap_or((heading, ""));
                let effect = Effect::of_word(kind.split(' ').next().unwrap());
                list.bases.push(Base {
                    line,
                    effect,
                    plain: if plain.is_empty() { plain_of(effect) } else { plain },
                    is_rewritten: !kind.ends_with(" once"),
                });
            }
        }
    }
    list
}

/// The commands that positions and forwarders get, with what each does.
const PAYLOADS: [(&str, Effect); 3] = [
    ("rm -f keep.txt", Effect::Deletes),
    ("touch ../outside/new", Effect::Writes),
    ("touch pwned", Effect::Runs),
];

/// The same in other spellings, without quotes, which not every position has room for.
const SPELLINGS: [(&str, Effect); 5] = [
    ("/bin/rm keep.txt", Effect::Deletes),
    ("env rm keep.txt", Effect::Deletes),
    ("mkdir ../outside/new", Effect::Writes),
    ("cp x ../outside/new", Effect::Writes),
    ("./c", Effect::Runs),
];

/// Spellings of a path, after its folder; `@` is the name of the file.
const PLACES: [&str; 19] = [
    "../outside/@",
    "OUTSIDE/@",
    "\"$PWD/../outside/@\"",
    "$HOME/../outside/@",
    "~/../outside/@",
    "\"../outside/\"@",
    "'../outside/@'",
    "$'../outs\\x69de/@'",
    "${zz:-../outside/@}",
    "$(echo ../outside/@)",
    "link/@",
    "sub/../../outside/@",
    "./..//outside/./@",
    "../out\\side/@",
    "\"${PWD%/*}/outside/@\"",
    "`echo ../outside`/@",
    "~+/../outside/@",
    "../outside/\"\"@",
    "${PWD}/link/@",
];

/// Ways to write a word, in front of the line and in its place. `§w` is the word as it is, `§q` the word in single quotes,
/// `§f` its first letter and `§r` the rest.
const REWRITES: [(&str, &str); 34] = [
    ("", "§w"),
    ("", "§q"),
    ("", "\"§w\""),
    ("", "§f\"\"§r"),
    ("", "§f''§r"),
    ("", "'§f'§r"),
    ("", "\\§w"),
    ("", "$'§w'"),
    ("", "$\"§w\""),
    ("", "{§w,}"),
    ("", "$(echo §q)"),
    ("", "`echo §q`"),
    ("", "\"$(printf %s §q)\""),
    ("", "${zz:-§w}"),
    ("", "${zz-§q}"),
    ("", "\"${zz:=§w}\""),
    ("", "${zz}§w"),
    ("", "§f${zz}§r"),
    ("", "§f$()§r"),
    ("", "§f``§r"),
    ("", "§f\\\n§r"),
    ("zz=§q; ", "$zz"),
    ("zz=§q; ", "\"$zz\""),
    ("zz='§r'; ", "§f$zz"),
    ("zz=§q; yy=zz; ", "${!yy}"),
    ("zz=(§q); ", "${zz[0]}"),
    ("zz=(§q); ", "\"${zz[@]}\""),
    ("declare -n yy=zz; zz=§q; ", "$yy"),
    ("read -r zz <<< §q; ", "$zz"),
    ("printf -v zz %s §q; ", "$zz"),
    ("set -- §q; ", "\"$1\""),
    ("set -- §q; ", "$@"),
    ("for zz in §q; do :; done; ", "$zz"),
    (": §q; ", "$_"),
];

fn plain_of(effect: Effect) -> &'static str {
    match effect {
        Effect::Deletes => "rm -f keep.txt",
        Effect::Writes => "touch ../outside/new",
        Effect::Reads => "cat ../outside/secret.txt",
        Effect::Connects => "curl http://127.0.0.1:9/",
        Effect::Pushes => "git push rem.git HEAD:refs/heads/z",
        Effect::Runs => "./c",
    }
}

/// A number that a text always gives.
fn mark(text: &str) -> usize {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (hash >> 17) as usize
}

/// Writes a marked word in the `way`-th way.
fn rewritten(line: &str, way: usize) -> Option<String> {
    let (start, end) = (line.find('⟦')?, line.find('⟧')?);
    let word = &line[start + '⟦'.len_utf8()..end];
    let (before, place) = REWRITES[way % REWRITES.len()];
    let first = word.chars().next()?.to_string();
    let fill = |text: &str| {
        text.replace("§q", &format!("'{word}'"))
            .replace("§f", &first)
            .replace("§r", &word[first.len()..])
            .replace("§w", word)
    };
    let rest = line[end + '⟧'.len_utf8()..].replace(['⟦', '⟧'], "");
    Some(format!("{}{}{}{rest}", fill(before), &line[..start], fill(place)))
}

/// Puts a spelling of the paths outside in.
fn placed(line: &str, way: usize) -> String {
    let place = PLACES[way % PLACES.len()];
    line.replace("NEW", &place.replace('@', "new"))
        .replace("SECRET", &place.replace('@', "secret.txt"))
}

/// Says whether any command may stand in a position: none of its quotes are around it, and it ends on its own line.
fn is_open(position: &str) -> bool {
    let at = position.find("LINE").unwrap_or_default();
    let before = &position[..at];
    before.matches('\'').count().is_multiple_of(2)
        && before.matches('"').count().is_multiple_of(2)
        && before.matches('`').count().is_multiple_of(2)
}

fn is_simple(line: &str) -> bool {
    !line.contains(['\n', ';', '|', '&', '⟦', '<', '>', '`', '{']) && !line.contains("NEW") && !line.contains("SECRET")
}

/// Returns one in `share` of the attacks, and how many there are.
pub(super) fn attacks(share: usize) -> (Vec<Attack>, usize) {
    let list = list();
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |line: String, effect: Effect, plain: &'static str| {
        let line = line.replace("REPO", "rem.git").replace(['⟦', '⟧'], "");
        if seen.insert(line.clone()) {
            found.push(Attack { line, effect, plain });
        }
    };
    let all: Vec<(&'static str, Effect)> = PAYLOADS.iter().chain(&SPELLINGS).copied().collect();
    let plain = |payload: &'static str, effect: Effect| match effect {
        Effect::Runs if payload.starts_with("touch") => "touch pwned",
        _ => plain_of(effect),
    };
    for position in &list.positions {
        let way = mark(position);
        for (payload, effect) in [PAYLOADS[way % 3], all[way / 3 % all.len()]] {
            add(position.replace("LINE", payload), effect, plain(payload, effect));
        }
    }
    for forward in &list.forwards {
        let way = mark(forward);
        let (payload, effect) = PAYLOADS[way % 3];
        add(forward.replace("LINE", payload), effect, plain(payload, effect));
        let open: Vec<&String> = list.positions.iter().filter(|position| is_open(position)).collect();
        let position = open[way / 7 % open.len()];
        if way.is_multiple_of(2) && !forward.contains('\n') {
            let inner = forward.replace("LINE", payload);
            add(position.replace("LINE", &inner), effect, plain(payload, effect));
        }
    }
    for base in &list.bases {
        let (way, plain) = (mark(&base.line), base.plain);
        let line = base.line.replace(['⟦', '⟧'], "");
        add(placed(&line, 0), base.effect, plain);
        if !base.is_rewritten {
            continue;
        }
        if line != placed(&line, 0) {
            (1..4).for_each(|step| add(placed(&line, way + 5 * step), base.effect, plain));
        }
        if base.line.contains('⟦') {
            for step in 0..REWRITES.len() {
                let made = rewritten(&base.line, step).unwrap();
                add(placed(&made, way + step), base.effect, plain);
            }
        }
        if is_simple(&base.line) && way.is_multiple_of(3) {
            let open: Vec<&String> = list.positions.iter().filter(|position| is_open(position)).collect();
            add(open[way / 3 % open.len()].replace("LINE", &line), base.effect, plain);
        }
    }
    let made = found.len();
    found.retain(|attack| mark(&attack.line).is_multiple_of(share));
    (found, made)
}
