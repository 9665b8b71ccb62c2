//! What the table of programs cannot say: the small languages of some options and operands.
//!
//! *Invariant:* pure. Each check lists what it understands; everything else is a doubt.

use super::parse::is_name;
use super::programs::Reading;
use super::words::Word;

const OPTION: &str = "it has an option that is not known to be harmless";
const SETTING: &str = "a setting of it is not known to be harmless";
const LATER: &str = "what it does is only known when it runs";
const WRITES: &str = "it writes its configuration";
const RUNS: &str = "it may run another program";
const MODE: &str = "it sets a mode that runs with another user's rights";

/// What a check finds out beside the table.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) opaque: Option<&'static str>,
    pub(super) written: Vec<Word>,
    pub(super) read: Vec<Word>,
}

impl From<Option<&'static str>> for Found {
    fn from(opaque: Option<&'static str>) -> Self {
        Self {
            opaque,
            ..Self::default()
        }
    }
}

/// Looks at a command of the table once more.
pub(super) fn check(name: &str, words: &[Word], reading: &Reading) -> Found {
    match name {
        "git" => git(words, reading),
        "tar" | "bsdtar" | "gtar" => tar(reading),
        "chmod" | "chown" | "chgrp" | "install" => mode(name, reading).into(),
        "make" | "gmake" => value(reading, "-f", is_makefile)
            .or_else(|| value(reading, "--file", is_makefile))
            .or_else(|| value(reading, "--makefile", is_makefile))
            .or_else(|| make(&reading.operands))
            .into(),
        "python" | "python2" | "python3" | "pypy" | "pypy3" => python(reading),
        "node" | "nodejs" | "perl" | "ruby" | "php" => first_read(reading),
        "sed" | "gsed" | "awk" | "gawk" | "mawk" | "nawk" | "grep" | "egrep" | "fgrep" | "rg" | "jq" => {
            searched(words, reading)
        }
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" => {
            // A file of further options is named behind such a sign.
            words
                .iter()
                .any(|word| word.shown().starts_with('@'))
                .then_some(LATER)
                .into()
        }
        "test" | "[" => test(words).into(),
        "printf" => (words.get(1).is_some_and(|word| word.shown().starts_with("-v")))
            .then_some(OPTION)
            .into(),
        "read" => reading
            .operands
            .iter()
            .any(|word| !word.fixed().is_some_and(is_name))
            .then_some(LATER)
            .into(),
        "curl" => curl(reading).into(),
        "rsync" => value(reading, "-e", is_plain_shell)
            .or_else(|| value(reading, "--rsh", is_plain_shell))
            .into(),
        "ssh" | "scp" | "sftp" => value(reading, "-o", is_ssh_setting).into(),
        "split" | "csplit" => Found {
            written: reading.operands.get(1).cloned().into_iter().collect(),
            read: reading.operands.first().cloned().into_iter().collect(),
            opaque: reading
                .operands
                .get(1)
                .is_some_and(|word| word.fixed().is_none())
                .then_some(LATER),
        },
        _ => Found::default(),
    }
}

/// Checks programs that have no line in the table, because options are not what matters with them.
pub(super) fn check_unlisted(name: &str, words: &[Word]) -> Option<Found> {
    match name {
        "find" | "gfind" => Some(find(words)),
        _ => None,
    }
}

/// Returns a doubt if an option has a value that is not understood.
fn value(reading: &Reading, option: &str, is_known: fn(&str) -> bool) -> Option<&'static str> {
    let mut values = reading
        .options
        .iter()
        .filter(|(name, _)| name == option)
        .map(|(_, value)| value);
    let is_understood = |value: &Option<Word>| value.as_ref().and_then(Word::fixed).is_some_and(is_known);
    (!values.all(is_understood)).then_some(SETTING)
}

/// Settings of git that change how it shows and names things, and start nothing.
fn is_git_setting(setting: &str) -> bool {
    const KEYS: &str = "user.name user.email author.name author.email committer.name committer.email color.ui \
        color.status color.diff color.branch init.defaultbranch core.quotepath core.autocrlf core.eol core.filemode \
        core.abbrev core.ignorecase core.longpaths advice.detachedhead advice.addignoredfile push.default \
        push.autosetupremote pull.rebase pull.ff fetch.prune rebase.autostash rebase.autosquash merge.conflictstyle \
        merge.ff diff.algorithm diff.renames diff.renamelimit diff.noprefix diff.mnemonicprefix diff.colormoved \
        commit.gpgsign tag.gpgsign tag.sort branch.sort log.date log.decorate status.short status.showuntrackedfiles \
        safe.directory gc.auto http.postbuffer http.lowspeedlimit http.lowspeedtime http.sslverify help.autocorrect \
        column.ui format.pretty grep.linenumber";
    let (key, value) = setting.split_once('=').unwrap_or((setting, "true"));
    let key = key.to_lowercase();
    let is_listed = KEYS.split_whitespace().any(|listed| listed == key);
    let turns_off = matches!(&*key, "core.pager" | "core.editor" | "core.fsmonitor")
        && matches!(value, "" | "cat" | "true" | "false");
    is_listed || turns_off || (key.starts_with("advice.") && matches!(value, "true" | "false"))
}

fn git(words: &[Word], reading: &Reading) -> Found {
    let before: Vec<&Word> = words.iter().skip(1).collect();
    // In front of the subcommand `-c` is a setting; behind it, it belongs to the subcommand.
    let mut opaque = None;
    let mut at = 0;
    while let Some(word) = before.get(at) {
        let Some(text) = word.fixed().filter(|text| text.starts_with('-')) else {
            break;
        };
        if let Some(glued) = text.strip_prefix("-c") {
            let setting = if glued.is_empty() {
                at += 1;
                before.get(at).and_then(|word| word.fixed())
            } else {
                Some(glued)
            };
            if !setting.is_some_and(is_git_setting) {
                opaque = Some(SETTING);
            }
        } else if text == "-C" {
            at += 1;
        }
        at += 1;
    }
    let subcommand = before.get(at).and_then(|word| word.fixed()).unwrap_or_default();
    let behind: Vec<Word> = before.iter().skip(at + 1).map(|word| (*word).clone()).collect();
    let mut written = Vec::new();
    match subcommand {
        "config" => opaque = opaque.or_else(|| git_config(&behind)),
        "bundle" => match behind.first().and_then(Word::fixed) {
            Some("create") => written.extend(reading.operands.get(1).cloned()),
            Some("verify" | "list-heads") => {}
            _ => opaque = Some(LATER),
        },
        "worktree" => {
            let count = usize::from(behind.first().is_some_and(|word| word.is("move"))) + 1;
            written.extend(reading.operands.iter().take(count).cloned());
        }
        "clone" => written.extend(reading.operands.get(1).cloned()),
        _ => {}
    }
    // Plain names of the workspace are no files of this kind until they exist.
    if written.iter().any(|word| word.fixed().is_none()) {
        opaque = Some(LATER);
    }
    Found {
        opaque,
        written,
        read: Vec::new(),
    }
}

/// Reading the configuration, and setting what is harmless.
fn git_config(words: &[Word]) -> Option<&'static str> {
    const PLACES: [&str; 8] = [
        "--global",
        "--local",
        "--system",
        "--worktree",
        "--show-origin",
        "--show-scope",
        "-z",
        "--null",
    ];
    let texts: Option<Vec<&str>> = words.iter().map(Word::fixed).collect();
    let Some(texts) = texts else { return Some(LATER) };
    let rest: Vec<&str> = texts.into_iter().filter(|text| !PLACES.contains(text)).collect();
    let reads = matches!(
        rest.first(),
        Some(&("--get" | "--get-all" | "--get-regexp" | "--list" | "-l" | "get" | "list" | "--get-urlmatch"))
    );
    let has_option = |words: &[&str]| words.iter().any(|word| word.starts_with('-') && *word != "--name-only");
    if reads {
        return has_option(&rest[1..]).then_some(OPTION);
    }
    match rest.as_slice() {
        // One name alone is read.
        [name] if !name.starts_with('-') => None,
        [key, value] if !key.starts_with('-') && is_git_setting(&format!("{key}={value}")) => None,
        ["--unset", _] => None,
        _ => Some(WRITES),
    }
}

fn tar(reading: &Reading) -> Found {
    let is_file = |name: &str| matches!(name, "-f" | "--file");
    let creates = |name: &str| {
        matches!(
            name,
            "-c" | "-r"
                | "-u"
                | "-A"
                | "--create"
                | "--append"
                | "--update"
                | "--concatenate"
                | "--catenate"
                | "--delete"
        )
    };
    let mut found = Found::default();
    let makes = reading.options.iter().any(|(name, _)| creates(name));
    for (_, file) in reading.options.iter().filter(|(name, _)| is_file(name)) {
        let file = file.clone().unwrap_or_default();
        // A colon names another machine, which is reached by a program.
        if file.fixed().is_none_or(|file| file.contains(':')) {
            found.opaque = Some(LATER);
        }
        let list = if makes { &mut found.written } else { &mut found.read };
        list.push(file);
    }
    if makes {
        found.read.extend(reading.operands.iter().cloned());
    }
    found
}

fn mode(name: &str, reading: &Reading) -> Option<&'static str> {
    if matches!(name, "chown" | "chgrp") {
        return None;
    }
    let is_special = |mode: &str| match mode.bytes().all(|byte| byte.is_ascii_digit()) {
        true => mode.trim_start_matches('0').len() > 3,
        false => mode.contains('s'),
    };
    let option = |name: &str| {
        let found = reading.options.iter().find(|(option, _)| option == name);
        found.and_then(|(_, value)| value.clone())
    };
    let given = match name {
        "install" => option("-m").or_else(|| option("--mode")),
        _ => reading.operands.first().cloned(),
    };
    let given = given?;
    given.fixed().is_none_or(is_special).then_some(MODE)
}

/// A variable on the command line of `make` replaces that of the makefile, which is as a rule the name of a program.
fn make(operands: &[Word]) -> Option<&'static str> {
    const NAMES: &str = "V VERBOSE DEBUG Q J JOBS VERSION ARCH GOOS GOARCH ENV ENVIRONMENT MODE PROFILE RELEASE BUILD_TYPE \
        TAG TEST TESTS";
    let is_setting = |word: &&Word| word.shown().contains('=') || word.prefix.contains('=');
    let is_harmless = |word: &Word| {
        let Some((name, value)) = word.fixed().and_then(|text| text.split_once('=')) else {
            return false;
        };
        let is_plain = value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        is_plain
            && (value.bytes().all(|byte| byte.is_ascii_digit())
                || NAMES.split_whitespace().any(|listed| listed == name))
    };
    (!operands.iter().filter(is_setting).all(is_harmless)).then_some(SETTING)
}

/// Says whether a makefile is a file that can be looked at.
fn is_makefile(file: &str) -> bool {
    !(file.is_empty() || file == "-" || file.starts_with("/dev/") || file.starts_with("/proc/"))
}

/// Programs whose first operand is a text, unless an option gives that.
fn searched(words: &[Word], reading: &Reading) -> Found {
    const TEXTS: &str = "-e -f --regexp --file --expression --source --from-file";
    let is_text = |name: &str| {
        TEXTS
            .split_whitespace()
            .any(|text| text == name || (name.len() > 3 && text.starts_with(name)))
    };
    let has_text = reading.options.iter().any(|(name, _)| is_text(name));
    let follows = |word: &Word| {
        let text = word.fixed().unwrap_or_default();
        let is_bundle =
            text.starts_with('-') && !text.starts_with("--") && !text.contains(['e', 'f', 'A', 'B', 'C', 'm']);
        (text.len() > 4 && "--dereference-recursive".starts_with(text)) || (is_bundle && text.contains('R'))
    };
    // A suffix with a slash is another folder.
    let leads_away = |(name, value): &(String, Option<Word>)| {
        matches!(name.as_str(), "-i" | "--in-place") && value.as_ref().is_some_and(|suffix| suffix.source.contains('/'))
    };
    if reading.options.iter().any(leads_away) {
        return Some(SETTING).into();
    }
    let is_grep = words.first().is_some_and(|name| name.shown().ends_with("grep"));
    Found {
        read: reading.operands.iter().skip(usize::from(!has_text)).cloned().collect(),
        opaque: (is_grep && words.iter().skip(1).any(follows)).then_some("it follows links"),
        ..Found::default()
    }
}

/// Programs whose paths are those of another machine or of a container, or addresses.
pub(super) fn is_elsewhere(name: &str) -> bool {
    const NAMES: &str = "docker podman nerdctl kubectl oc docker-compose ssh http https xh gh glab aws gcloud az redis-cli find gfind ls";
    NAMES.split_whitespace().any(|listed| listed == name)
}

/// The file that an interpreter runs.
fn first_read(reading: &Reading) -> Found {
    Found {
        read: reading.operands.first().cloned().into_iter().collect(),
        ..Found::default()
    }
}

fn python(reading: &Reading) -> Found {
    let module = reading.options.iter().find(|(name, _)| name == "-m");
    let Some((_, module)) = module else {
        return first_read(reading);
    };
    let formats = module.as_ref().is_some_and(|module| module.is("json.tool"));
    let files: Vec<Word> = reading
        .operands
        .iter()
        .filter(|word| !word.source.starts_with('-'))
        .cloned()
        .collect();
    Found {
        opaque: value(reading, "-m", is_python_tool),
        // It writes what it reads to a second file.
        written: if formats {
            files.iter().skip(1).cloned().collect()
        } else {
            Vec::new()
        },
        read: if formats { files } else { Vec::new() },
    }
}

/// Modules of Python's own library that run what they are given or write where they are told.
fn is_python_tool(module: &str) -> bool {
    const OTHERS: &str = "code codeop pdb timeit trace cProfile profile runpy zipfile tarfile zipapp idlelib turtledemo pty \
        shutil webbrowser antigravity this lib2to3 IPython ptpython bpython os subprocess distutils ensurepip sqlite3 \
        pickle pickletools asyncio http.server xmlrpc.server smtpd ftplib telnetlib imaplib poplib nntplib getpass gzip bz2 \
        uu base64 quopri compileall py_compile tabnanny mailcap encodings pstats pyclbr site test";
    !OTHERS
        .split_whitespace()
        .any(|other| other == module || module.starts_with(&format!("{other}.")))
}

/// `-v` and `-R` take the name of a variable, and evaluate what stands in its brackets.
fn test(words: &[Word]) -> Option<&'static str> {
    let mut pairs = words.windows(2);
    let is_open = |pair: &[Word]| {
        let asks = pair[0].value.is_none() || pair[0].is("-v") || pair[0].is("-R");
        asks && !pair[1]
            .fixed()
            .is_some_and(|name| is_name(name) || name == "]" || !name.contains('['))
    };
    pairs.any(is_open).then_some(LATER)
}

fn curl(reading: &Reading) -> Option<&'static str> {
    let writes = reading.options.iter().any(|(name, value)| {
        matches!(name.as_str(), "-w" | "--write-out")
            && value
                .as_ref()
                .is_some_and(|text| text.fixed().is_none_or(|text| text.contains("%output")))
    });
    let is_file = |word: &Word| {
        let text = word.fixed().unwrap_or(&word.prefix).to_lowercase();
        !(text.contains("http://")
            || text.contains("https://")
            || text.starts_with("localhost")
            || !text.contains("://"))
            || text.is_empty()
    };
    if writes || reading.operands.iter().any(is_file) {
        return Some(SETTING);
    }
    None
}

fn is_plain_shell(shell: &str) -> bool {
    let mut words = shell.split_whitespace();
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("ssh"), None, ..) => true,
        (Some("ssh"), Some("-p"), Some(port), None) => is_port(port),
        _ => false,
    }
}

fn is_ssh_setting(setting: &str) -> bool {
    const NAMES: &str = "stricthostkeychecking batchmode connecttimeout loglevel serveraliveinterval serveralivecountmax \
        identitiesonly preferredauthentications port user passwordauthentication pubkeyauthentication compression \
        tcpkeepalive addressfamily connectionattempts requesttty";
    let name = setting.split(['=', ' ']).next().unwrap_or_default().to_lowercase();
    let keeps_no_hosts = setting.eq_ignore_ascii_case("UserKnownHostsFile=/dev/null");
    keeps_no_hosts || NAMES.split_whitespace().any(|listed| listed == name)
}

/// The tests and actions of `find` that only look.
const FIND_PLAIN: &str = "-a -and -o -or -not ! , ( ) -print -print0 -ls -prune -quit -true -false -empty -readable -writable \
    -executable -depth -d -daystart -follow -mount -xdev -noleaf -ignore_readdir_race -noignore_readdir_race -nouser -nogroup \
    -warn -nowarn -help --help -version --version -H -L -P -O0 -O1 -O2 -O3";

/// Those with a value.
const FIND_VALUES: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -regextype -type \
    -xtype -maxdepth -mindepth -size -mtime -atime -ctime -mmin -amin -cmin -newer -anewer -cnewer -newermt -newerat \
    -newerct -newermm -perm -user -group -uid -gid -links -inum -samefile -fstype -used -printf -D -context";

/// Those with a value that is a file that is written.
const FIND_OUTPUTS: &str = "-fprint -fprint0 -fls";

/// `find` has no options that are like those of others; an expression is understood word for word.
fn find(words: &[Word]) -> Found {
    let mut found = Found::default();
    let is_listed = |list: &str, text: &str| list.split_whitespace().any(|listed| listed == text);
    let mut at = 1;
    let mut has_begun = false;
    let is_one = |names: &[&str]| words.iter().any(|word| names.iter().any(|name| word.is(name)));
    if is_one(&["-L", "-follow"]) && is_one(&["-delete", "-exec", "-execdir"]) {
        found.opaque = Some(LATER);
    }
    while let Some(word) = words.get(at) {
        at += 1;
        let Some(text) = word.fixed() else {
            let is_start = !has_begun && !word.brace && !word.splits;
            let known = word.beginning();
            if !is_start || known.is_empty() || known.starts_with(['-', '(', '!']) {
                found.opaque.get_or_insert(LATER);
            }
            continue;
        };
        has_begun |= (text.starts_with('-') && !matches!(text, "-H" | "-L" | "-P")) || matches!(text, "(" | "!");
        if is_listed(FIND_VALUES, text) {
            if words
                .get(at)
                .is_none_or(|value| value.splits || value.brace || value.glob.is_some())
            {
                found.opaque.get_or_insert(LATER);
            }
            at += 1;
        } else if is_listed(FIND_OUTPUTS, text) || text == "-fprintf" {
            let file = words.get(at).cloned().unwrap_or_default();
            if file.fixed().is_none() {
                found.opaque.get_or_insert(LATER);
            }
            found.written.push(file);
            at += if text == "-fprintf" { 2 } else { 1 };
        } else if matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir") {
            // What runs there is judged for itself; a word that may end it early may not be open.
            while let Some(word) = words.get(at) {
                at += 1;
                if word.is(";") || word.is("+") {
                    break;
                }
                if word.value.is_none() && (word.splits || word.prefix.is_empty()) {
                    found.opaque.get_or_insert(LATER);
                }
            }
        } else if has_begun && text != "-delete" && !is_listed(FIND_PLAIN, text) {
            found.opaque.get_or_insert(OPTION);
        }
    }
    found
}

/// Files that decide what other commands run: who writes them starts programs later.
const DECIDING: &str = "package.json Makefile makefile GNUmakefile .envrc opencode.json opencode.jsonc .npmrc .yarnrc .yarnrc.yml \
    .gitmodules .gitattributes .gitconfig .bashrc .bash_profile .profile .zshrc .zshenv .pre-commit-config.yaml justfile Justfile \
    Taskfile.yml Rakefile tasks.json build.rs conftest.py sitecustomize.py usercustomize.py";

/// Folders of such files.
const DECIDING_FOLDERS: &str = ".git .opencode .husky .githooks .cargo .vscode .devcontainer .direnv";

/// Says whether a file that is written decides what other commands run.
pub(super) fn decides(path: &str) -> bool {
    let steps: Vec<&str> = path.split('/').filter(|step| !matches!(*step, "" | ".")).collect();
    let is_listed = |list: &str, step: &str| list.split_whitespace().any(|listed| listed.eq_ignore_ascii_case(step));
    let is_file = steps.last().is_some_and(|name| is_listed(DECIDING, name));
    is_file || steps.iter().any(|step| is_listed(DECIDING_FOLDERS, step))
}

/// Programs that rules are written for, and that others are used to start.
const STARTED: &str = "rm rmdir mv cp dd chmod chown curl wget ssh scp nc ncat sh bash zsh dash ksh fish python python2 python3 perl \
    ruby php node sudo doas env xargs tee truncate shred unlink eval git npm";

/// Programs whose operands are subcommands, so that such a name among them is one.
const HAVE_SUBCOMMANDS: &str = "docker podman nerdctl kubectl oc helm npm pnpm yarn bun deno cargo rustup go pip pip3 pipx uv poetry pdm \
    hatch rye conda mamba gem bundle composer mix dotnet swift flutter dart mvn gradle sbt bazel gh glab aws az gcloud terraform \
    pulumi ansible brew apt apt-get dnf yum pacman apk snap flatpak systemctl service journalctl hg svn jj dvc lfs nvm pyenv rbenv \
    asdf mise volta nx turbo lerna vercel netlify heroku flyctl firebase supabase prisma rails rake redis-cli which whereis type \
    command man info tldr apropos whatis echo printf test jest vitest pytest docker-compose pacman tmux screen";

/// Says whether a program that is not known looks as if it started one that is.
pub(super) fn forwards(name: &str, words: &[Word]) -> Option<&'static str> {
    let is_listed = |list: &str, text: &str| list.split_whitespace().any(|listed| listed == text);
    if is_listed(HAVE_SUBCOMMANDS, name) {
        return None;
    }
    let base = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
    let starts = |word: &Word| word.fixed().is_some_and(|text| is_listed(STARTED, &base(text)));
    words.iter().skip(1).any(starts).then_some(RUNS)
}
