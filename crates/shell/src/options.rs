//! The same command written in another way: without global options, with its flags in one order.
//!
//! *Invariant:* only adds forms that must be allowed as well. A form that is missing is a rule that is missed, a form too
//! many is a needless question; so only programs are listed whose rules people write by subcommand or by flag.

use super::arity;

/// A program whose subcommand may stand behind options.
struct Program {
    name: &'static str,
    /// Options with a value in the next word; every other word that begins with `-` or `+` is a flag.
    values: &'static str,
}

#[rustfmt::skip]
const PROGRAMS: &[Program] = &[
    Program { name: "git", values: "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source" },
    Program { name: "docker", values: "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey" },
    Program { name: "docker compose", values: "-f --file -p --project-name --profile --env-file --project-directory --parallel --progress" },
    Program { name: "docker-compose", values: "-f --file -p --project-name --profile --env-file --project-directory" },
    Program { name: "podman", values: "-c --connection --log-level --root --runroot --url --identity" },
    Program { name: "kubectl", values: "-n --namespace --context --kubeconfig -s --server --cluster --user --as --as-group --token -v" },
    Program { name: "helm", values: "-n --namespace --kube-context --kubeconfig" },
    Program { name: "npm", values: "--prefix -w --workspace -C --registry --userconfig --loglevel" },
    Program { name: "pnpm", values: "-C --dir --filter -F" },
    Program { name: "yarn", values: "--cwd" },
    Program { name: "bun", values: "--cwd --config" },
    Program { name: "cargo", values: "-C --config -Z --color" },
    Program { name: "rustup", values: "" },
    Program { name: "make", values: "-C --directory -f --file -j -I -o -W" },
    Program { name: "go", values: "-C" },
    Program { name: "terraform", values: "" },
    Program { name: "aws", values: "--profile --region --output --endpoint-url --query --color --cli-read-timeout" },
    Program { name: "gcloud", values: "--project --account --configuration --format --verbosity" },
    Program { name: "gh", values: "-R --repo" },
    Program { name: "systemctl", values: "-H --host -M --machine -t --type -p --property" },
    Program { name: "pip", values: "--proxy --log --cert --retries --timeout --python --cache-dir" },
    Program { name: "poetry", values: "-C --directory -P --project" },
    Program { name: "bazel", values: "--output_base --bazelrc" },
    Program { name: "tmux", values: "-L -S -f -c" },
];

/// Returns the command without the options in front of its subcommand; none if there are none.
pub(super) fn without_globals<'w>(words: &[&'w str]) -> Option<Vec<&'w str>> {
    let mut kept = words.to_vec();
    for program in PROGRAMS {
        let depth = program.name.split(' ').count();
        let fits = kept.len() > depth && program.name.split(' ').eq(kept[..depth].iter().copied());
        if !fits {
            continue;
        }
        let mut at = depth;
        while let Some(word) = kept.get(at).filter(|word| word.starts_with(['-', '+'])) {
            if *word == "--" {
                break;
            }
            let takes = program.values.split_whitespace().any(|option| option == *word);
            at += if takes { 2 } else { 1 };
        }
        // Options alone, such as `git --version`, are the command.
        if at > depth && at < kept.len() {
            kept.drain(depth..at);
        }
    }
    (kept.len() < words.len()).then_some(kept)
}

/// Programs whose short flags may be written in one bundle, with the short letters of their long flags.
const BUNDLED: &[(&str, &[(&str, char)])] = &[
    (
        "rm",
        &[
            ("recursive", 'r'),
            ("force", 'f'),
            ("dir", 'd'),
            ("verbose", 'v'),
            ("one-file-system", 'x'),
        ],
    ),
    (
        "cp",
        &[
            ("recursive", 'r'),
            ("force", 'f'),
            ("archive", 'a'),
            ("verbose", 'v'),
            ("no-clobber", 'n'),
        ],
    ),
    ("mv", &[("force", 'f'), ("verbose", 'v'), ("no-clobber", 'n')]),
    (
        "chmod",
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("quiet", 'f'),
            ("silent", 'f'),
        ],
    ),
    (
        "chown",
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("quiet", 'f'),
            ("silent", 'f'),
        ],
    ),
    ("git clean", &[("force", 'f'), ("dry-run", 'n'), ("quiet", 'q')]),
];

/// Programs of which rules name flags, wherever those stand in the line.
const FLAGGED: &str = "git docker podman kubectl helm terraform npm pnpm yarn cargo gh aws gcloud systemctl";

/// Returns the command with its flags in front of its operands, bundled where that is usual.
pub(super) fn ordered(words: &[&str]) -> Option<String> {
    let bundled = BUNDLED.iter().find(|(name, _)| {
        words.len() > name.split(' ').count() && name.split(' ').eq(words[..name.split(' ').count()].iter().copied())
    });
    let made = match bundled {
        Some((name, long)) => bundle(name, long, words)?,
        None if FLAGGED.split_whitespace().any(|name| words.first() == Some(&name)) => flags_first(words),
        None => return None,
    };
    (made != words.join(" ")).then_some(made)
}

fn bundle(name: &str, long: &[(&str, char)], words: &[&str]) -> Option<String> {
    let (mut letters, mut others, mut operands) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_over = false;
    for word in &words[name.split(' ').count()..] {
        if is_over || !word.starts_with('-') || *word == "-" {
            operands.push(*word);
        } else if *word == "--" {
            is_over = true;
        } else if let Some(flag) = word.strip_prefix("--") {
            let found = long
                .iter()
                .filter(|(name, _)| !flag.is_empty() && name.starts_with(flag));
            match found.map(|(_, letter)| *letter).next() {
                Some(letter) => letters.push(letter),
                None => others.push(*word),
            }
        } else {
            letters.extend(word.chars().skip(1));
        }
    }
    // These letters take a value, which would be torn from them.
    if letters.iter().any(|letter| matches!(letter, 't' | 'S' | 'e')) {
        return None;
    }
    if matches!(name, "rm" | "cp") {
        letters
            .iter_mut()
            .filter(|letter| **letter == 'R')
            .for_each(|letter| *letter = 'r');
    }
    letters.sort_by_key(|letter| (!matches!(letter, 'r' | 'R'), *letter != 'f', *letter));
    letters.dedup();
    let bundle: String = letters.iter().collect();
    let flags = if bundle.is_empty() {
        Vec::new()
    } else {
        vec![format!("-{bundle}")]
    };
    let all = std::iter::once(name)
        .chain(flags.iter().map(String::as_str))
        .chain(others)
        .chain(operands);
    Some(all.collect::<Vec<_>>().join(" "))
}

fn flags_first(words: &[&str]) -> String {
    let kept = arity::prefix(words).len();
    let (mut flags, mut operands): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    let is_push = words.starts_with(&["git", "push"]);
    let mut rest = words[kept..].iter();
    for word in rest.by_ref() {
        match *word {
            "--" => {
                operands.push("--");
                break;
            }
            "-f" if is_push => flags.push("--force".to_owned()),
            "-d" if is_push => flags.push("--delete".to_owned()),
            refspec if is_push && refspec.starts_with('+') && refspec.len() > 1 => {
                flags.push("--force".to_owned());
                operands.push(&refspec[1..]);
            }
            flag if flag.starts_with('-') && flag.len() > 1 => flags.push(flag.to_owned()),
            operand => operands.push(operand),
        }
    }
    operands.extend(rest);
    let all = words[..kept]
        .iter()
        .copied()
        .chain(flags.iter().map(String::as_str))
        .chain(operands);
    all.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_global_options_out() {
        let check = |line: &str, expected: Option<&str>| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(
                without_globals(&words).map(|kept| kept.join(" ")).as_deref(),
                expected,
                "{line}"
            );
        };
        check("git -C dir push", Some("git push"));
        check("git -c a=b --no-pager push -f", Some("git push -f"));
        check("git push -f", None);
        check("git --version", None);
        check("docker --host x compose -f y up", Some("docker compose up"));
        check("cargo +nightly build", Some("cargo build"));
        check("make -C sub all", Some("make all"));
        check("kubectl -n prod delete pod x", Some("kubectl delete pod x"));
        check("npm --prefix web run build", Some("npm run build"));
        check("ls -la", None);
    }

    #[test]
    fn puts_flags_in_one_order() {
        let check = |line: &str, expected: Option<&str>| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(ordered(&words).as_deref(), expected, "{line}");
        };
        check("rm -fr x", Some("rm -rf x"));
        check("rm -f -R -- x", Some("rm -rf x"));
        check("rm --recursive --force x", Some("rm -rf x"));
        check("rm x -rf", Some("rm -rf x"));
        check("rm -rf x", None);
        check("rm --rec --fo x", Some("rm -rf x"));
        check("cp -t dir a", None);
        check("git push origin main --force", Some("git push --force origin main"));
        check("git push -f origin", Some("git push --force origin"));
        check("git push origin +main", Some("git push --force origin main"));
        check("git clean -d -f", Some("git clean -fd"));
        check("git checkout -- a -b", None);
        check("python x.py --flag", None);
        check("chmod 777 -R x", Some("chmod -R 777 x"));
    }
}
