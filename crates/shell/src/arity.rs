//! How many words of a command its remembered prefix keeps (`docs/spec/bash.md` §4).
//!
//! *Invariant:* data. The longest entry that fits wins; what stands nowhere keeps one word.

/// Commands that keep two words. One is the default and is not listed.
const TWO: &str = "bazel brew bun cargo cdk cf cmake composer consul crictl deno docker eksctl firebase flyctl git go \
    gradle helm heroku hugo ip kind kubectl kustomize make mc minikube mongosh mysql mvn ng npm nvm nx openssl pip \
    pipenv pnpm poetry podman psql pulumi pyenv python rake rbenv redis-cli rustup serverless skaffold sls sst swift \
    systemctl terraform tmux turbo ufw vault vercel volta wp yarn";

const THREE: &str = "aws az doctl gcloud gh sfdx";

const THREE_AFTER_TWO: [&str; 41] = [
    "bun run",
    "bun x",
    "cargo add",
    "cargo run",
    "consul kv",
    "deno task",
    "docker builder",
    "docker compose",
    "docker container",
    "docker image",
    "docker network",
    "docker volume",
    "eksctl create",
    "git config",
    "git remote",
    "git stash",
    "ip addr",
    "ip link",
    "ip netns",
    "ip route",
    "kind create",
    "kubectl kustomize",
    "kubectl rollout",
    "mc admin",
    "npm exec",
    "npm init",
    "npm run",
    "npm view",
    "openssl req",
    "openssl x509",
    "pnpm dlx",
    "pnpm exec",
    "pnpm run",
    "podman container",
    "podman image",
    "pulumi stack",
    "terraform workspace",
    "vault auth",
    "vault kv",
    "yarn dlx",
    "yarn run",
];

/// Returns the words that are kept of a command.
pub fn prefix<'a, 'w>(words: &'a [&'w str]) -> &'a [&'w str] {
    &words[..length(words).min(words.len())]
}

/// Returns how many words a command needs for its prefix, be they there or not.
pub fn length(words: &[&str]) -> usize {
    let Some(first) = words.first() else { return 0 };
    let is_pair = |entry: &str| {
        let second = entry.strip_prefix(first).and_then(|rest| rest.strip_prefix(' '));
        second.is_some() && second == words.get(1).copied()
    };
    if THREE_AFTER_TWO.into_iter().any(is_pair) || THREE.split_whitespace().any(|name| name == *first) {
        3
    } else if TWO.split_whitespace().any(|name| name == *first) {
        2
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_prefixes() {
        let check = |line: &str, expected: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(prefix(&words).join(" "), expected, "{line}");
        };
        check("git checkout main", "git checkout");
        check("npm run dev x", "npm run dev");
        check("docker compose up -d", "docker compose up");
        check("git -C dir status", "git -C");
        check("npx tsc", "npx");
        check("/usr/bin/git push", "/usr/bin/git");
        check("aws s3", "aws s3");
        check("git", "git");
        check("Git push", "Git");
        check("gh pr list x", "gh pr list");
        check("", "");
    }
}
