//! Which programs are known to use the network, so that a rule that allows them opens it for them. For every other command
//! it stays closed.
//!
//! *Invariant:* data. A subcommand that is missing is one question too many; one too many is a hole.

use super::words::Word;

/// Programs that use the network whatever their arguments are.
const ALWAYS: &str = "curl wget ssh scp sftp rsync ftp telnet nc ncat netcat socat ping dig host nslookup traceroute whois \
    http https xh gh glab aws az gcloud kubectl oc helm docker podman terraform pulumi ansible ansible-playbook psql mysql \
    mariadb mongosh redis-cli npx pnpx bunx apt apt-get brew";

/// Programs of which only some subcommands do.
#[rustfmt::skip]
const SUBCOMMANDS: &[(&str, &str)] = &[
    ("git", "clone fetch pull push ls-remote submodule lfs"),
    ("npm", "install i ci add update up upgrade outdated audit view info search publish exec x init create test t run start ping whoami login dedupe rebuild"),
    ("pnpm", "install i add update up outdated audit dlx exec run test start create publish fetch"),
    ("yarn", "install add upgrade outdated audit dlx exec run test start create publish up"),
    ("bun", "install i add update outdated x run test create publish"),
    ("deno", "install add run test task cache info"),
    ("cargo", "build b check c run r test t bench doc d clippy fix add update fetch install publish search tree vendor metadata nextest watch outdated audit owner yank login info"),
    ("rustup", "update install toolchain component target self"),
    ("go", "build test run get mod install vet generate list work tool"),
    ("pip pip3", "install download wheel index search"),
    ("uv", "sync add run pip lock tool python venv build publish"),
    ("poetry", "install add update lock publish search run"),
    ("pipenv", "install update sync lock run"),
    ("pdm hatch rye", "install add update sync lock run test build"),
    ("conda mamba", "install create update search env"),
    ("bundle", "install update add outdated exec"),
    ("gem", "install update search fetch push"),
    ("composer", "install update require create-project outdated"),
    ("mix", "deps.get deps.update test run"),
    ("dotnet", "restore build test run add publish tool new"),
    ("swift", "build test run package"),
    ("flutter dart", "pub build test run"),
    ("mvn mvnw gradle gradlew sbt bazel", ""),
];

/// Says whether a program, called by its name without a folder, is known to use the network with these words. Options in
/// front of its subcommand are not among them.
pub(super) fn uses(name: &str, words: &[&str]) -> bool {
    let is_listed = |names: &str| names.split_whitespace().any(|listed| listed == name);
    if is_listed(ALWAYS) {
        return true;
    }
    let Some((_, subcommands)) = SUBCOMMANDS.iter().find(|(names, _)| is_listed(names)) else {
        return false;
    };
    let subcommand = words.iter().skip(1).map(|word| Word::new(*word));
    subcommands.is_empty()
        || subcommand
            .take(1)
            .any(|word| subcommands.split_whitespace().any(|listed| word.is(listed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_subcommands_use_the_network() {
        let check = |line: &str, expected: bool| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(uses(words[0], &words), expected, "{line}");
        };
        check("git status", false);
        check("git fetch origin", true);
        check("git 'push'", true);
        check("cargo test", true);
        check("cargo fmt", false);
        check("curl x", true);
        check("sort x", false);
        check("mvn", true);
        check("npm", false);
    }
}
