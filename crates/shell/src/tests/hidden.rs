//! What runs or changes more than a line shows.

use super::*;

#[test]
fn what_sets_variables_or_hides_programs_is_unclear() {
    let is_unclear = |line: &str| {
        let parsed = parse(line);
        parsed.unclear.is_some() || parsed.commands.iter().any(|command| command.unclear.is_some())
    };
    for (line, expected) in [
        // A text that becomes a list is evaluated.
        ("ls; declare -a 'a=($(touch x))'", true),
        ("ls; declare -a a='($(touch x))'", true),
        ("ls; x='($(touch x))'; declare -a a=\"$x\"", true),
        (r"ls; declare -a a=\(\$\(touch\ x\)\)", true),
        ("ls; declare -a a; x='($(touch x))'; declare a=$x", true),
        ("ls; a=(); declare 'a=($(touch x))'", true),
        ("ls; a=(1); typeset a='($(touch x))'", true),
        ("ls; readonly -A a='($(touch x))'", true),
        ("ls; f() { local -a a=\"$1\"; }", true),
        (r"ls; \read -a a <<< x; readonly a=$x", true),
        ("ls; a[0]=x; declare a=$x", true),
        ("ls; printf -va[0] x; declare a=$x", true),
        ("ls; declare DIRSTACK=$x", true),
        ("ls; declare x=$y", false),
        ("ls; declare -r x='a (b)'", false),
        ("ls; declare -a a=(b c)", false),
        ("ls; export 'x=(y)'", false),
        // What decides which programs run is not only set by `=`.
        ("for PATH in ./x; do ls; done", true),
        ("select PATH in ./x; do ls; done", true),
        ("unset PATH; ls", true),
        (
            "echo ${GIT_EXTERNAL_DIFF:=./x}; export GIT_EXTERNAL_DIFF; git diff",
            true,
        ),
        ("echo ${PATH=./x}; ls", true),
        ("f() { local PATH; ls; }", true),
        ("declare PATH; ls", true),
        ("for file in a b; do ls $file; done", false),
        ("unset GIT_DIR; git status", false),
        ("export PATH; ls", false),
        ("export Npm_Config_script_shell=./x; npm test", true),
        ("export GOCACHEPROG=./x; go test ./...", true),
        (
            "export CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS=./x; cargo build",
            true,
        ),
        ("export RIPGREP_CONFIG_PATH=./rc; rg x", true),
        ("PYTEST_ADDOPTS=-px pytest", true),
        ("PYTEST_ADDOPTS=-vv pytest", false),
        ("hash -rp /bin/rm ls; ls x", true),
        ("hash -r; ls x", false),
        // Options of programs that run others.
        ("echo x | xargs --max-lines rm echo", true),
        ("echo x | xargs --replace rm echo", true),
        ("env -S 'rm\\_x'", true),
        ("env -S 'r\\cm x'", true),
        ("env -C /bin ./rm x", true),
        ("env --chdir=/bin ./rm x", true),
        ("sudo -s <<< id", true),
        ("echo id | sudo -su root", true),
        ("sudo --login", true),
        ("sudo -k", false),
        ("sudo ls", false),
        // Programs of awk.
        ("awk '/[(]/{print > \"x\"}' f", true),
        (r#"awk '/\(/{print > "x"}' f"#, true),
        ("awk '/\"/{print > FILENAME\".x\"} /\"/' f", true),
        ("awk '{ # (\nprint > \"x\"}' f", true),
        ("awk -e 1 -e 'BEGIN{system(\"x\")}'", true),
        ("awk -e'BEGIN{system(\"x\")}' f", true),
        ("awk --source=1 --source='BEGIN{system(\"x\")}' f", true),
        ("awk --file=x f", true),
        ("awk -ox 1 f", true),
        ("awk -F: '{print $1}' f", false),
        ("awk '/x/ && $3 > 5 {print $1}' f", false),
        ("awk '{ if ($1 / 2 > 3) print }' f", false),
        ("awk -v n=3 'NR > n' f", false),
    ] {
        assert_eq!(is_unclear(line), expected, "{line:?}: {:#?}", parse(line));
    }
}

#[test]
fn a_program_of_another_folder_has_its_own_name() {
    let runs = |line: &str| {
        let commands = parse(line).commands;
        commands.iter().any(|command| {
            let forms = command.forms.iter().chain(&command.variants);
            forms.chain(&command.equivalents).any(|form| form == "rm x")
        })
    };
    for line in [
        "cd /; bin/rm x",
        "cd /usr && bin/rm x",
        "cd / && usr/bin/rm x",
        "cd /bin && ./rm x",
        "bash -c 'cd /bin; ./rm x'",
        "systemd-run -G rm x",
        "systemd-run -t rm x",
        "env -a ls rm x",
    ] {
        assert!(runs(line), "{line:?}: {:#?}", parse(line));
    }
    assert!(!runs("cd sub && bin/rm x"));
}
