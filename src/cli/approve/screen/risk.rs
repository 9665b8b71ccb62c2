//! Which part of a command line deserves the closest look.
//!
//! *Invariant:* a mark says where to look first, and why. It judges nothing: what is not marked was asked about all the same.

use toolgate_contract::{PermissionAction, PermissionPart};

/// Programs that run others as somebody else.
const AS_OTHERS: [&str; 5] = ["sudo", "doas", "su", "pkexec", "runuser"];

/// Programs that delete or overwrite what they are given.
const DESTROYING: [&str; 8] = ["rm", "rmdir", "unlink", "shred", "dd", "truncate", "mkfs", "wipefs"];

/// What makes a part risky, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Risk {
    Asked,
    Outside,
    Destroys,
    AsOthers,
    Unclear,
}

impl Risk {
    /// Says it in words; nothing of a part that is asked about like any other.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Asked => "",
            Self::Outside => "touches paths outside of the folder",
            Self::Destroys => "deletes or overwrites",
            Self::AsOthers => "runs as another user",
            Self::Unclear => "nobody can say what it does",
        }
    }
}

fn risk(part: &PermissionPart, folder: Option<&str>) -> Option<Risk> {
    if !part.unclear.is_empty() {
        return Some(Risk::Unclear);
    }
    if part.action() == PermissionAction::Allow {
        return None;
    }
    let program = part.arguments.first().map_or("", String::as_str);
    let program = program.rsplit('/').next().unwrap_or(program);
    let is_outside = |path: &String| {
        let rest = folder.and_then(|folder| path.strip_prefix(folder.trim_end_matches('/')));
        rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/'))
    };
    Some(if AS_OTHERS.contains(&program) {
        Risk::AsOthers
    } else if DESTROYING.contains(&program) || program.starts_with("mkfs.") {
        Risk::Destroys
    } else if folder.is_some() && part.paths.iter().any(is_outside) {
        Risk::Outside
    } else {
        Risk::Asked
    })
}

/// Returns the place of the riskiest part and what makes it so; none if several are merely asked about. `folder` is the one that the
/// command works in.
pub(super) fn riskiest(parts: &[PermissionPart], folder: Option<&str>) -> Option<(usize, Risk)> {
    let risks = parts.iter().enumerate();
    let risks = risks.filter_map(|(place, part)| Some((place, risk(part, folder)?)));
    let risks: Vec<(usize, Risk)> = risks.collect();
    // Of equals the first.
    let most = risks.iter().rev().max_by_key(|(_, risk)| *risk).copied();
    most.filter(|(_, risk)| *risk > Risk::Asked || risks.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(words: &[&str], action: PermissionAction) -> PermissionPart {
        PermissionPart {
            text: words.join(" "),
            arguments: words.iter().map(|&word| word.to_owned()).collect(),
            action: action.into(),
            ..PermissionPart::default()
        }
    }

    #[test]
    fn the_closest_look_is_for_the_riskiest() {
        use PermissionAction::{Allow, Ask};
        let mut parts = vec![
            part(&["rm", "x"], Allow),
            part(&["git", "push"], Ask),
            part(&["make"], Ask),
        ];
        let check = |parts: &[PermissionPart], expected| assert_eq!(riskiest(parts, Some("/w")), expected);
        check(&parts[..2], Some((1, Risk::Asked)));
        check(&parts, None);
        parts[2].paths = vec!["/w/a".into(), "/w".into()];
        check(&parts, None);
        parts[2].paths.push("/wide".into());
        check(&parts, Some((2, Risk::Outside)));
        parts.push(part(&["/bin/rm", "x"], Ask));
        check(&parts, Some((3, Risk::Destroys)));
        parts.push(part(&["sudo", "rm", "x"], Ask));
        check(&parts, Some((4, Risk::AsOthers)));
        parts[0].unclear = "it is read from a file".into();
        check(&parts, Some((0, Risk::Unclear)));
        check(&parts[1..1], None);
    }
}
