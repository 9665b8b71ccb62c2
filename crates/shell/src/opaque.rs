//! What nobody can say by reading: commands and assignments that change what other words mean, or hide what runs.
//!
//! *Invariant:* pure, and only ever adds questions. A reason is a few words for a person.

use super::arity;
use super::interpreters;
use super::parse::Assignment;
use super::words::Word;
use super::wrappers::is_unknown_file;

/// Variables that decide what programs run or which code they load.
const VARIABLES: &str = "PATH BASH_ENV ENV IFS PROMPT_COMMAND PS0 PS1 PS2 PS4 SHELLOPTS BASHOPTS SHELL ZDOTDIR FPATH \
    EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE KUBE_EDITOR SYSTEMD_EDITOR SYSTEMD_PAGER SUDO_EDITOR \
    SUDO_ASKPASS SSH_ASKPASS RSYNC_RSH CVS_RSH SVN_SSH PYTHONSTARTUP PYTHONINSPECT PYTHONHOME PERL5OPT PERL5DB PERL5LIB \
    RUBYOPT RUBYLIB NODE_OPTIONS LUA_INIT JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS RUSTC RUSTC_WRAPPER \
    RUSTC_WORKSPACE_WRAPPER CARGO_BUILD_RUSTC CARGO_BUILD_RUSTC_WRAPPER MAKEFLAGS GNUMAKEFLAGS MAKEFILES TAR_OPTIONS \
    GCONV_PATH FZF_DEFAULT_COMMAND GOFLAGS CMAKE_PROJECT_INCLUDE PSQLRC PSQL_EDITOR PIP_CONFIG_FILE \
    CC CXX CPP LD AR AS NM RANLIB STRIP FC F77 YACC LEX MAKE CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS LIBS RM ARFLAGS \
    RUSTFLAGS RUSTDOCFLAGS RUSTDOC RUSTUP_HOME RUSTUP_TOOLCHAIN CARGO CARGO_HOME CARGO_ENCODED_RUSTFLAGS GOROOT GOPATH GOPROXY \
    GOTOOLCHAIN GOENV VIRTUAL_ENV PYTHONBREAKPOINT PYTHONPLATLIBDIR PYTHONUSERBASE PYTEST_PLUGINS JAVA_HOME MAVEN_OPTS \
    MAVEN_ARGS GRADLE_OPTS DOCKER_HOST DOCKER_CONFIG KUBECONFIG SSH_AUTH_SOCK SSL_CERT_FILE PSQL_PAGER SECONDS RANDOM \
    SRANDOM LINENO OPTIND EPOCHSECONDS BASHPID HISTCMD BASH_ARGV0 TMPDIR \
    RIPGREP_CONFIG_PATH GOCACHEPROG GOAUTH PYTEST_ADDOPTS KUBECTL_EXTERNAL_DIFF CURL_HOME WGETRC GCC_EXEC_PREFIX COMPILER_PATH MANOPT \
    LESS EXECIGNORE CARGO_BUILD_RUSTFLAGS \
    HOME XDG_CONFIG_HOME CDPATH OLDPWD DIRSTACK BASH_CMDS BASH_ALIASES PYTHONPATH NODE_PATH";

/// The beginnings of names of such variables.
const FAMILIES: [&str; 13] = [
    "LD_",
    "DYLD_",
    "GIT_",
    "BASH_FUNC_",
    "CARGO_TARGET_",
    "CARGO_ALIAS_",
    "CARGO_HOST_",
    "CARGO_REGISTRY_",
    "CARGO_REGISTRIES_",
    "YARN_",
    "BUNDLE_",
    "GEM_",
    "CMAKE_",
];

/// Variables of the families that only name people, dates and places of output.
const HARMLESS: [&str; 4] = [
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
];

/// Says why an assignment leaves open what the commands after it do.
pub(super) fn assignment(assignment: &Assignment) -> Option<&'static str> {
    let name = assignment.name.split(['[', '+']).next().unwrap_or_default();
    let is_listed = VARIABLES.split_whitespace().any(|listed| listed == name);
    // In these, npm takes large letters for small ones.
    let is_of_npm = name.to_ascii_lowercase().starts_with("npm_config_");
    let is_family = is_of_npm || FAMILIES.iter().any(|family| name.starts_with(family));
    let is_harmless = HARMLESS.iter().any(|harmless| name.starts_with(harmless));
    if !(is_listed || is_family) || is_harmless {
        return None;
    }
    let value = assignment.text.split_once('=').map(|(_, value)| Word::new(value));
    let is_known = value.is_some_and(|value| {
        value.fixed().is_some_and(|value| match name {
            "NODE_OPTIONS" => value.starts_with("--max-old-space-size=") && !value.contains(' '),
            "IFS" => true,
            "PYTHONPATH" | "NODE_PATH" => matches!(value, "." | "src" | "./src" | ""),
            "PATH" | "SHELL" | "EXECIGNORE" => false,
            "PYTEST_ADDOPTS" => value.bytes().all(|byte| b"-vqxs".contains(&byte)),
            "LESS" => value.bytes().all(|byte| b"-RFXSMiQ".contains(&byte)),
            "RUSTFLAGS" | "RUSTDOCFLAGS" => value.split_whitespace().all(is_lint_flag),
            "MAKEFLAGS" => value
                .bytes()
                .all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'j' | b'k' | b's')),
            _ => matches!(value, "" | "cat" | "true" | ":" | "0" | "1" | "2" | "less"),
        })
    });
    (!is_known).then_some("it sets a variable that decides what runs")
}

/// Variables that only change what a program says, in which language, and how it is built.
const PLAIN: &str = "LC_ALL LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME LC_COLLATE LANG LANGUAGE TZ TERM COLUMNS LINES NO_COLOR \
    FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLORTERM CI DEBUG VERBOSE RUST_LOG RUST_BACKTRACE RUST_LIB_BACKTRACE RUST_MIN_STACK \
    RUST_TEST_THREADS RUSTFLAGS RUSTDOCFLAGS CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_NET_OFFLINE CARGO_BUILD_JOBS \
    CARGO_TERM_PROGRESS_WHEN NODE_ENV NODE_OPTIONS NODE_NO_WARNINGS BABEL_ENV JEST_WORKERS VITE_CJS_IGNORE_WARNING CGO_ENABLED GOOS \
    GOARCH GOARM GOAMD64 GO111MODULE GOMAXPROCS GOTRACEBACK PYTHONPATH PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED \
    PYTHONIOENCODING PYTHONUTF8 PYTHONWARNINGS DJANGO_SETTINGS_MODULE FLASK_ENV FLASK_DEBUG APP_ENV ENV RAILS_ENV RACK_ENV MIX_ENV \
    PORT HOST GIT_PAGER PAGER GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE \
    GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE DATABASE_URL TF_LOG HELM_DEBUG DOCKER_BUILDKIT COMPOSE_DOCKER_CLI_BUILD \
    SKIP_ENV_VALIDATION MAKEFLAGS OMP_NUM_THREADS PYTEST_ADDOPTS";

/// Says whether an assignment in front of a command leaves it what a rule for the command means.
pub(super) fn is_harmless_assignment(assignment: &Assignment) -> bool {
    let is_plain = PLAIN.split_whitespace().any(|plain| plain == assignment.name);
    let value = assignment.text.split_once('=').map(|(_, value)| Word::new(value));
    let is_known = value.is_some_and(|value| value.value.is_some());
    // What decides which programs run has values of its own that do not.
    is_plain && is_known && self::assignment(assignment).is_none()
}

/// Says whether a flag for the Rust compiler is about warnings, the machine or how much is optimized.
fn is_lint_flag(flag: &str) -> bool {
    let is_lint = |rest: &str| {
        rest.is_empty()
            || rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte))
    };
    let codegen = [
        "target-cpu=",
        "opt-level=",
        "debuginfo=",
        "codegen-units=",
        "debug-assertions=",
        "overflow-checks=",
        "lto",
        "panic=",
    ];
    match flag.get(..2) {
        Some("-D" | "-W" | "-A" | "-F") => is_lint(&flag[2..]),
        Some("-C") => flag.len() == 2 || codegen.iter().any(|known| flag[2..].starts_with(known)),
        _ => codegen.iter().any(|known| flag.starts_with(known)) || matches!(flag, "warnings" | "--cfg"),
    }
}

/// Says why a text cannot be read as it is shown.
pub(super) fn hidden_chars(line: &str) -> Option<&'static str> {
    let is_hidden = |c: char| {
        matches!(c,
            '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
            | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}' | '\u{200c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
            || (c.is_whitespace() && !c.is_ascii())
    };
    line.chars()
        .any(is_hidden)
        .then_some("it holds characters that are not shown, or are shown as others")
}

/// Programs of which the second word is no subcommand but data.
const DATA: &str = "psql mysql mongosh redis-cli python openssl ip tmux";

/// Says why nobody knows what a command does; `name` is its name without a folder.
pub(super) fn command(name: &str, words: &[Word], stripped: &[&str]) -> Option<&'static str> {
    let subcommands = arity::length(stripped).saturating_sub(1);
    let is_open = |word: &str| Word::new(word).fixed().is_none();
    if !DATA.split_whitespace().any(|data| data == name)
        && stripped.iter().skip(1).take(subcommands).any(|word| is_open(word))
    {
        return Some("its subcommand is only known when it runs");
    }
    shell_builtin(name, words)
        .or_else(|| interpreters::reason(name, words))
        .or_else(|| helper_option(name, words))
}

fn has(words: &[Word], options: &[&str]) -> bool {
    words
        .iter()
        .skip(1)
        .any(|word| word.fixed().is_some_and(|text| options.contains(&text)))
}

fn starts(words: &[Word], beginnings: &[&str]) -> bool {
    let is_one = |text: &str| beginnings.iter().any(|beginning| text.starts_with(beginning));
    words
        .iter()
        .skip(1)
        .any(|word| is_one(word.fixed().unwrap_or(&word.source)))
}

fn shell_builtin(name: &str, words: &[Word]) -> Option<&'static str> {
    let changes = match name {
        "alias" => words.iter().skip(1).any(|word| word.shown().contains('=')),
        "enable" => starts(words, &["-f", "-n"]),
        "hash" => words.iter().skip(1).any(|word| {
            let text = word.fixed().unwrap_or(&word.source);
            text.starts_with('-') && text.contains('p') || word.fixed().is_none()
        }),
        "shopt" => {
            const KNOWN: &str = "-s -u -q -p -o globstar nullglob dotglob failglob nocaseglob nocasematch inherit_errexit lastpipe \
                pipefail errexit nounset noclobber checkwinsize histappend";
            let is_known = |word: &Word| {
                word.fixed()
                    .is_some_and(|text| KNOWN.split_whitespace().any(|known| known == text))
            };
            !words.iter().skip(1).all(is_known)
        }
        "mapfile" | "readarray" => starts(words, &["-C"]),
        "complete" | "compgen" | "bind" | "fc" => true,
        _ => false,
    };
    if changes {
        return Some("it changes what commands mean");
    }
    let is_name = |word: &Word| word.fixed().is_some_and(super::parse::is_name);
    // `wait -p` takes a subscript with the name of its variable.
    let sets = name == "wait"
        && starts(words, &["-"])
        && !words.iter().all(|word| word.source.starts_with('-') || is_name(word));
    if name == "let" || sets {
        return Some("it evaluates arithmetic on what is only known when it runs");
    }
    let hides = match name {
        "source" | "." => words.get(1).is_none_or(is_unknown_file),
        "at" | "batch" => !has(words, &["-l", "-r", "-d"]),
        "crontab" => !has(words, &["-l"]),
        _ => false,
    };
    hides.then_some("the commands that it reads are not known")
}

/// Settings of git that name programs.
fn is_git_program(setting: &str) -> bool {
    const NAMES: [&str; 14] = [
        "core.sshcommand",
        "core.pager",
        "core.editor",
        "core.fsmonitor",
        "core.hookspath",
        "core.askpass",
        "core.gitproxy",
        "core.attributesfile",
        "sequence.editor",
        "diff.external",
        "init.templatedir",
        "include.path",
        "gpg.program",
        "protocol.ext.allow",
    ];
    const BEGINNINGS: [&str; 7] = [
        "alias.",
        "pager.",
        "filter.",
        "credential.",
        "includeif.",
        "browser.",
        "man.",
    ];
    const ENDS: [&str; 8] = [
        ".command",
        ".cmd",
        ".program",
        ".driver",
        ".textconv",
        ".helper",
        ".uploadpack",
        ".receivepack",
    ];
    let lower = setting.to_lowercase();
    let (key, value) = lower.split_once('=').unwrap_or((&lower, "-"));
    if matches!(
        (key, value),
        (
            "core.pager" | "core.editor" | "core.fsmonitor",
            "" | "cat" | "true" | "false"
        )
    ) {
        return false;
    }
    NAMES.contains(&key)
        || BEGINNINGS.iter().any(|beginning| key.starts_with(beginning))
        || ENDS.iter().any(|end| key.ends_with(end))
}

fn git_runs_others(words: &[Word]) -> bool {
    let text = |at: usize| words.get(at).map(Word::shown).unwrap_or_default();
    let has_setting = (1..words.len()).any(|at| {
        let glued = text(at)
            .strip_prefix("-c")
            .or_else(|| text(at).strip_prefix("--config-env="));
        match glued {
            Some("") => is_git_program(text(at + 1)),
            Some(setting) => is_git_program(setting),
            None => text(at) == "--config-env" || (text(at) == "--config" && is_git_program(text(at + 1))),
        }
    });
    let is_config = words.iter().take(6).any(|word| word.is("config"));
    let sets_program = is_config && words.iter().skip(2).any(|word| is_git_program(word.shown()));
    let is_listing = has(words, &["--get", "--get-all", "--list", "-l", "--unset", "get", "list"]);
    let options = [
        "--upload-pack",
        "--receive-pack",
        "--exec-path=",
        "--open-files-in-pager",
        "--extcmd",
        "ext::",
        "--template",
    ];
    let is_grep_pager = has(words, &["grep"]) && starts(words, &["-O"]);
    let is_difftool = has(words, &["difftool"]) && starts(words, &["-x"]);
    has_setting || (sets_program && !is_listing) || starts(words, &options) || is_grep_pager || is_difftool
}

/// Returns the words of a command before `--`, behind which are those of another program.
fn before_dashes(words: &[Word]) -> &[Word] {
    let end = words.iter().position(|word| word.is("--"));
    &words[..end.unwrap_or(words.len())]
}

/// Says whether an archive may be written to, and unpacked from, wherever its names say.
fn is_absolute_tar(words: &[Word]) -> bool {
    let is_bundle =
        |(at, word): (usize, &Word)| (at == 1 || word.source.starts_with('-')) && !word.source.starts_with("--");
    words
        .iter()
        .enumerate()
        .skip(1)
        .filter(|pair| is_bundle(*pair))
        .any(|(_, word)| word.source.contains('P'))
        || starts(words, &["--absolute"])
}

/// Options that name a program for another one to run.
fn helper_option(name: &str, words: &[Word]) -> Option<&'static str> {
    let is_make_input = || {
        let file = words
            .iter()
            .position(|word| matches!(word.fixed(), Some("-f" | "--file" | "--makefile")));
        file.and_then(|at| words.get(at + 1)).is_some_and(is_unknown_file)
            || starts(words, &["--eval", "-f-", "SHELL="])
            || words
                .iter()
                .any(|word| word.shown().contains("$(shell") || word.shown().contains("!="))
    };
    let runs = match name {
        "git" => git_runs_others(words),
        "make" | "gmake" => is_make_input(),
        "tar" | "bsdtar" | "gtar" => {
            is_absolute_tar(words)
                || starts(
                    words,
                    &[
                        "--to-command",
                        "--checkpoint-action",
                        "--use-compress",
                        "-I",
                        "--info-script",
                        "-F",
                        "--rsh-command",
                        "--rmt",
                    ],
                )
        }
        "ssh" | "scp" | "sftp" => {
            let named = |word: &Word| {
                let text = word.shown().to_lowercase();
                ["proxycommand", "localcommand", "knownhostscommand"]
                    .iter()
                    .any(|option| text.contains(option))
            };
            words.iter().any(named) || starts(words, &["-F"]) || (name != "ssh" && starts(words, &["-S"]))
        }
        "rsync" => starts(words, &["-e", "--rsh", "--rsync-path"]) && !has(words, &["ssh", "--rsh=ssh"]),
        "sort" => starts(words, &["--compress-prog"]),
        "split" => starts(words, &["--filter"]),
        "zip" => starts(words, &["-TT", "--unzip-command"]),
        "tcpdump" => starts(words, &["-z"]),
        "man" => starts(words, &["-P", "--pager", "-H", "--html"]),
        "less" | "more" | "most" => words.iter().any(|word| {
            word.source.trim_start_matches(['\'', '"']).starts_with('+') && word.shown().contains(['!', '|'])
        }),
        "lftp" => starts(words, &["-c", "-e", "-f"]),
        "go" => starts(words, &["-exec", "--exec", "-toolexec", "--toolexec", "-vettool"]),
        "cargo" => starts(before_dashes(words), &["--config"]),
        "npm" | "pnpm" | "yarn" => {
            starts(
                before_dashes(words),
                &["--script-shell", "script-shell", "--node-options", "--shell"],
            ) || (has(words, &["pkg", "config"])
                && starts(words, &["scripts", "script-shell", "node-options", "shell"]))
        }
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" | "gfortran" => starts(
            words,
            &[
                "-wrapper",
                "-fplugin",
                "-specs",
                "--specs",
                "-B",
                "-fuse-ld=/",
                "-fuse-ld=.",
            ],
        ),
        "tmux" => has(
            words,
            &[
                "new-session",
                "new",
                "neww",
                "new-window",
                "splitw",
                "split-window",
                "send-keys",
                "send",
                "run-shell",
                "run",
                "if-shell",
                "respawn-pane",
                "pipe-pane",
            ],
        ),
        "nc" | "ncat" | "netcat" => starts(words, &["-e", "-c", "--exec", "--sh-exec", "--lua-exec"]),
        "socat" => words.iter().any(|word| {
            let text = word.shown().to_lowercase();
            text.contains("exec:") || text.contains("system:") || text.contains("shell:")
        }),
        "cmake" => has(words, &["-E"]) && has(words, &["env", "time", "chdir"]),
        "install" => starts(words, &["--strip-program"]),
        "apt" | "apt-get" | "dpkg" => starts(words, &["-o", "--option", "--pre-invoke", "-c"]),
        "curl" | "wget" => starts(words, &["-K", "--config", "--use-askpass"]),
        _ => false,
    };
    runs.then_some("an option makes it run other programs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_variables_decide_what_runs() {
        let check = |text: &str, expected: bool| {
            let given = Assignment {
                name: text.split('=').next().unwrap().to_owned(),
                text: text.to_owned(),
            };
            assert_eq!(assignment(&given).is_some(), expected, "{text}");
        };
        check("PATH=/x:$PATH", true);
        check("LD_PRELOAD=x.so", true);
        check("GIT_SSH_COMMAND='sh -c x'", true);
        check("GIT_PAGER=cat", false);
        check("PAGER=cat", false);
        check("GIT_AUTHOR_NAME=x", false);
        check("NODE_OPTIONS=--max-old-space-size=4096", false);
        check("NODE_OPTIONS='--require x'", true);
        check("NODE_ENV=test", false);
        check("X=1", false);
    }

    #[test]
    fn some_options_name_programs() {
        let check = |line: &str, expected: bool| {
            let words: Vec<Word> = line.split(' ').map(Word::new).collect();
            let plain: Vec<&str> = words.iter().map(Word::plain).collect();
            assert_eq!(command(plain[0], &words, &plain).is_some(), expected, "{line}");
        };
        check("git status", false);
        check("git -c user.name=x commit", false);
        check("git -c alias.x=!ls x", true);
        check("git -ccore.pager=ls log", true);
        check("git -c core.pager=cat log", false);
        check("git config core.hooksPath x", true);
        check("git config --get core.editor", false);
        check("git clone ext::sh", true);
        check("git $x", true);
        check("git push $x", false);
        check("npm run $x", true);
        check("psql $URL -c x", false);
        check("source venv/bin/activate", false);
        check("source /dev/stdin", true);
        check(". $x", true);
        check("alias", false);
        check("alias x=y", true);
        check("tar --to-command=sh -xf x", true);
        check("tar xf x", false);
        check("ssh -oProxyCommand=x h", true);
        check("make -f - x", true);
        check("make all", false);
    }
}
