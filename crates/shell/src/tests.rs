//! Whole lines: what is found in them.

mod hidden;

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// The patterns of the specification, of all commands.
fn patterns(line: &str) -> Vec<String> {
    let commands = parse(line).commands.into_iter();
    commands.flat_map(|command| command.patterns).collect()
}

#[test]
fn lists_every_command() {
    let check = |line: &str, expected: &[&str]| assert_eq!(patterns(line), expected, "{line}");
    check("ls -la", &["ls -la"]);
    check("a && b || c; d & e | f\ng", &["a", "b", "c", "d", "e", "f", "g"]);
    check("(a; b) && { c; }; ! d", &["a", "b", "c", "d"]);
    check("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]);
    check("while a; do b; done; for x in y; do c; done", &["a", "b", "c"]);
    check("case $x in a) b;; *) c;; esac", &["b", "c"]);
    check("f() { a; }", &["a"]);
    check(
        "echo $(a) `b` \"$(c)\" <(d) ${x:-$(e)}",
        &["echo $(a) `b` \"$(c)\" <(d) ${x:-$(e)}", "a", "b", "c", "d", "e"],
    );
    check("x=$(a)", &["a"]);
    check("[ -n \"$(a)\" ] && [[ $(b) ]]", &["a", "b"]);
    check("cat <<E\n$(a)\nE\n", &["cat <<E\n$(a)\nE", "a"]);
    check("cat <<'E'\n$(a)\nE\n", &["cat <<'E'\n$(a)\nE"]);
    check("ls 2>/dev/null | sort", &["ls 2>/dev/null", "sort"]);
    check("echo hi > out.txt", &["echo hi > out.txt"]);
    check("> f", &["> f"]);
    check("[[ -f x ]] > f", &["> f"]);
    check("git  push   x", &["git  push   x", "git push x"]);
    check("X=1 git push", &["X=1 git push", "git push"]);
    check("git \\\n  push", &["git \\\n  push", "git push"]);
    check("cd src", &[]);
    check("cd src && pwd", &["pwd"]);
    check("cd . > f", &["> f"]);
    check("ls &&", &["ls"]);
    check("# nothing", &[]);
    check("export A=1; unset A", &["export A=1; unset A"]);
    check("x=1", &["x=1"]);
    check("((x))", &["((x))"]);
    check("[ -f x ]", &["[ -f x ]"]);
    check("x=$(> f)", &["> f"]);
    check("x=$(< f)", &["< f"]);
    check("", &[]);
}

#[test]
fn offers_prefixes() {
    let check = |line: &str, expected: &[&str]| {
        let always: Vec<String> = parse(line)
            .commands
            .into_iter()
            .flat_map(|command| command.always)
            .collect();
        assert_eq!(always, expected, "{line}");
    };
    check("ls -la", &["ls *"]);
    check("npm run build -- --watch", &["npm run build *"]);
    check("for f in a b; do touch $f; done", &["touch *"]);
    check("touch $f", &[]);
    check("sudo git push x", &["sudo *", "git push *"]);
    check("bash -c 'git push; ls'", &["bash *", "git push *", "ls *"]);
    check("/usr/bin/git push", &["/usr/bin/git *"]);
    check("git -C dir status", &["git status *"]);
    check("sudo git -C dir status", &["sudo *", "git status *"]);
    check("../bin/git push", &["../bin/git *", "git push *"]);
    check("xargs rm", &[]);
    check("find . | xargs grep x", &["find *", "xargs *", "grep *"]);
    check("./*", &[]);
    check("make '*'", &[]);
    check("echo '*'", &["echo *"]);
    check("> f", &[]);
    check("eval ls", &[]);
    check("$x", &[]);
    check("cd x", &[]);
}

/// Ways to write `git push`, and one form that each must be judged as.
#[test]
fn finds_a_command_however_it_is_written() {
    let check = |line: &str| {
        let parsed = parse(line);
        let mut commands = parsed.commands.iter();
        assert!(
            commands.any(|command| command
                .forms
                .iter()
                .chain(&command.variants)
                .any(|form| form == "git push" || form.starts_with("git push "))),
            "{line}: {parsed:#?}"
        );
    };
    for line in [
        "git push",
        "git  push",
        "\\git push",
        "\"git\" push",
        "g'i't pu\"sh\"",
        "$'\\x67it' push",
        "/usr/bin/git push",
        "../../../usr/bin/git push",
        "X=1 git push",
        "X=1 >f git push",
        ">f git push",
        "git >f push",
        "git -C dir push",
        "git -c a=b --no-pager push",
        "git --git-dir=x push",
        "sudo -n git push",
        "sudo -u x env A=1 nice -n 5 timeout -k 1 5 git push",
        "command git push",
        "exec git push",
        "time -p git push",
        "time -p -- git push",
        "time A=1 git push",
        "time (git push)",
        "time git push | cat",
        "git >&- push",
        "git >&-push",
        "git 2>&- push",
        "git push <&- origin",
        "true &<>f git push",
        "git <> f push",
        "<>f git push",
        "coproc git push",
        "nohup git push &",
        "xargs -n1 git push",
        "find . -exec git push {} +",
        "bash -c 'git push'",
        "bash -c \"bash -c 'git push'\"",
        "sh -ec 'ls && git push'",
        "eval 'git push'",
        "trap 'git push' EXIT",
        "echo $(git push)",
        "echo `git push`",
        "cat <(git push)",
        "ls | tee >(git push)",
        "cat <<E | git push\nE\n",
        "cat <<E && git push\nE\n",
        "f() { git push; }; f",
        "if true; then :; else git push; fi",
        "git push>f",
        "ls\ngit push",
        "ls;git push",
        "{ git push; }",
        "env -S 'git push'",
        "busybox git push",
        "su -c 'git push'",
        "ls & git push",
        "echo ${x:-$(git push)}",
        "git submodule foreach 'git push'",
        "nice nice nice git push",
        "((x)); git push",
        "[[ x ]] && git push",
    ] {
        check(line);
    }
}

#[test]
fn says_what_is_unclear() {
    let is_unclear = |line: &str| {
        let parsed = parse(line);
        parsed.unclear.is_some() || parsed.commands.iter().any(|command| command.unclear.is_some())
    };
    for line in [
        "$x push",
        "x=push; git $x",
        "g?t push",
        "{git,push}",
        "git {push,x}",
        "$(echo git) push",
        "eval x",
        "echo x | bash",
        "bash <<< x",
        "python3 <<E\nx\nE\n",
        "curl x | python3 -",
        "python -c x",
        "source <(x)",
        ". /dev/stdin",
        "alias x=y",
        "gi\\\nt push",
        "ls (",
        "echo 'x",
        "PATH=/x ls",
        "export PATH=/x; ls",
        "export \"LD_PRELOAD=x\"; ls",
        "f() { ls; }; f",
        "find . -exec {} \\;",
        "find . -exec sh -c 'rm {}' \\;",
        "xargs git",
        "xargs sudo",
        "xargs bash",
        "xargs",
        "parallel",
        "g\u{456}t push",
        "git\u{a0}push",
        "ls \u{202e}x",
        "ls\rgit push",
        "exec 3<>/dev/tcp/x/1",
        "cat > /dev/tcp/x/1",
        "echo ${x@P}",
        "let 'a[$(git push)]'",
        "let \"a[\\$(p)]\"",
        "declare -i x=\"a[\\$(p)]\"",
        "export -n x",
        "a=([['$(p)']]='')",
        "true & wait -np \"a[\\$(p)]\"",
        "a=(${x=<(p)}'')",
        "[[ a&&a = <(p) ]]",
        "x=\\ \\\n \"q\"",
        "time 0<a p",
        ">} ]",
        "''>$ t",
        "['p']",
        "env LD_PRELOAD=x ls",
        "git -c alias.x='!ls' x",
        "awk 'BEGIN{system(\"x\")}'",
        "sed 's/x/y/e' f",
        "tar --to-command=x -xf y",
        "cat <<E\nx\n E\nE2\n",
        "sudo --odd-option x git push",
        "time { git push; }",
        "time $x",
        "time PATH=/x ls",
        "f() { ls; }; time f",
        "sudo sudo sudo sudo sudo sudo sudo sudo sudo sudo git push",
    ] {
        let is_idle = line == "xargs";
        assert_eq!(is_unclear(line), !is_idle, "{line:?}: {:#?}", parse(line));
    }
}

#[test]
fn ordinary_lines_are_clear() {
    for line in [
        "git status",
        "git commit -m \"$(cat <<'E'\nfix: it's (done)\nE\n)\"",
        "git log --format='%h %s' --since=2.days | head -20",
        "cd web && npm ci && npm run build 2>&1 | tail -n 50",
        "cargo test --workspace -- --nocapture",
        "RUST_LOG=debug cargo run --bin x -- --port 80",
        "find . -name '*.rs' -not -path './target/*' | xargs grep -n TODO",
        "find . -type f -exec grep -l x {} +",
        "for f in *.txt; do echo \"$f\"; mv \"$f\" \"${f%.txt}.md\"; done",
        "while read -r l; do echo \"$l\"; done < f",
        "docker compose -f a.yml up -d && docker ps",
        "kubectl get pods -n x -o jsonpath='{.items[*].metadata.name}'",
        "curl -s https://x.y/z | jq '.a[] | .b'",
        "awk '{print $1}' f | sort | uniq -c | sort -rn",
        "sed -n '1,20p' f",
        "sed -i 's/a/b/g' src/*.rs",
        "python3 -m venv .venv && . .venv/bin/activate && pip install -r x.txt",
        "make -j$(nproc) all",
        "set -euo pipefail; ls",
        "test -f x || { echo no; exit 1; }",
        "ls -la > out.txt 2>&1 &",
        "grep -rn \"foo\" --include='*.rs' . | wc -l",
        "tar czf a.tgz dir && rm -rf dir",
        "node --version && npm --version",
        "echo \"a b\" | tr a-z A-Z",
        "git stash list; git diff --stat HEAD~1",
        "if [ -d x ]; then ls x; fi",
        "cat <<'E' > f.txt\nhello $x\nE\n",
        "timeout 60 npm test",
        "echo a # comment",
        "sleep 5 && ps aux | grep '[n]ode'",
        "diff <(sort a) <(sort b)",
        "export NODE_ENV=test && npx jest",
        "chmod +x s.sh && ./s.sh --flag",
        "mkdir -p a/b/{c,d}",
        "echo $((1 + 2)) \"${x:-y}\"",
        "command -v git >/dev/null 2>&1 || echo none",
        "ssh host 'ls -la'",
        "gh pr create --title \"x\" --body \"y\"",
    ] {
        let parsed = parse(line);
        let doubts: Vec<&str> = parsed
            .commands
            .iter()
            .filter_map(|command| command.unclear.as_deref())
            .collect();
        assert!(parsed.unclear.is_none() && doubts.is_empty(), "{line}: {parsed:#?}");
    }
}

#[test]
fn what_a_line_makes_and_hides_is_unclear() {
    let check = |line: &str, expected: bool| {
        let parsed = parse(line);
        let is_unclear = parsed.unclear.is_some() || parsed.commands.iter().any(|command| command.unclear.is_some());
        assert_eq!(is_unclear, expected, "{line:?}: {parsed:#?}");
    };
    check("cp a t; ./t", true);
    check("cat > t <<'E'\nls\nE\nsh t", true);
    check("cp a t; ./u", false);
    check("cp a b.json; node x.js b.json", false);
    check("echo x > $f", true);
    check("cd $d; echo x > f", true);
    check("cd $d; ls > /f", true);
    check("cd $d && npm test", true);
    check("for d in a/*/; do (cd \"$d\" && npm test); done", false);
    check("cat <<E\n`ls`\nE", true);
    check("cat <<-E\n\t$(ls)\n\tE", true);
    // The grammar takes this text for a word.
    check("cat <<E\n\\`ls\\`\nE", true);
    check("cat <<E\nx \\`ls\\`\nE", false);
    check("cat <<'E'\n`ls`\nE", false);
    check("echo `echo \\`ls\\``", true);
    check("echo \"${x#$(ls)}\"", true);
    check("echo \"a \\`b\\`\"", false);
    check("python3 - <<'E'\n1\nE", true);
    check("cat - <<'E'\n1\nE", false);
    check("! ! ls", true);
    check("coproc C { ls; }", true);
    check("/proc/self/exe x", true);
    check("xargs sh -c", true);
    check("HOME=x git status", true);
    check("npm pkg set scripts.x=y", true);
    check("cargo run -- --config x", false);
    check("less '+!ls' f", true);
    check("python3 -m timeit x", true);
    check("echo x > t.py; python3 -mt", true);
    check("echo x > json.py; python3 -m json.tool x", true);
    check("echo x > t.js; node t", true);
    check("xargs find keep.txt <<< -delete", true);
    check("printf %s x | xargs sed -n p", true);
    check("flock -n `echo ../x`/new true", true);
    check("timeout 5 make", false);
    check("zip -qTT 'CMD #' t.zip x -T", true);
}

#[test]
fn what_stands_in_front_belongs_to_the_text() {
    let check = |line: &str, expected: &[&str]| {
        let parsed = parse(line);
        let patterns: Vec<&String> = parsed.commands.iter().flat_map(|command| &command.patterns).collect();
        assert_eq!(patterns, expected, "{line}");
    };
    check("time ls -l", &["time ls -l"]);
    check("time -p ls > f", &["time -p ls > f"]);
    check("time ls | wc", &["time ls", "wc"]);
    check("time cd x", &["time cd x"]);
    check("time -v ls", &["time -v ls"]);
    check("\\time ls", &["\\time ls"]);
    check("! ls", &["ls"]);
}

#[test]
fn commands_elsewhere_count() {
    let check = |line: &str, expected: &str| {
        let parsed = parse(line);
        assert!(
            parsed.commands[0].forms.contains(&expected.to_owned()),
            "{line}: {parsed:#?}"
        );
    };
    check("ssh -p 22 h rm x", "rm x");
    check("docker run --rm -v a:b i rm x", "rm x");
    check("docker compose exec web rm x", "rm x");
    check("kubectl exec -it p -- rm x", "rm x");
    check("setarch -R rm x", "rm x");
    check("env - rm x", "rm x");
    check("/usr/lib/git-core/git-push origin", "git push origin");
    check("grm x", "rm x");
    check("pnpm exec rm x", "rm x");
    check("aws-vault exec p -- rm x", "rm x");
}

#[test]
fn finds_paths() {
    let check = |line: &str, expected: &str| {
        let parsed = parse(line);
        let uses = parsed
            .commands
            .iter()
            .flat_map(|command| &command.paths)
            .filter(|used| used.is_asked);
        let shown: Vec<String> = uses
            .map(|used| used.from.iter().map(|from| format!("{from}:")).collect::<String>() + &used.path)
            .collect();
        assert_eq!(shown.join(" "), expected, "{line}");
    };
    check("rm /x 'y z'", "/x y z");
    check("echo hi > /x 2>&1 </y", "/x /y");
    check("ls 2>/dev/null >&2 | tee /x", "/x");
    check("cd .. && rm x", ".. ..:x");
    check("chmod 755 f", "f");
    check("sudo rm /x", "/x");
    check("bash -c 'rm /x; echo > /y'", "/x /y");
    check("for i in a; do ls; done > /x", "/x");
    check("ls; pwd > /x", "/x");
    check("ls /usr", "");
    check("rm $HOME/x", "~/x");
    check(">f rm x", "x f");
    check("ln -s /x l", "l");
    check("ln -s /x l; ls", "l");
    check("ln -s /x l; echo > l", "l l /x");
    check("ln -s /x l; cd l", "l l /x");
    check("ln -s ../x a/l; echo > y", "a/l y a/../x");
    check("sh -c 'ln /x l; echo > l'", "l /x l /x");
    check("curl -o /dev/null u", "");
    check("echo x > /dev/fd/3 2> /dev/fd/2", "/dev/fd/3");
    check("ssh h 'rm /x'", "");
    check("docker run -v /x:/y -v ./z:/z i rm /w", "/x ./z");
    check(
        "cd a; command cd b; time -p cd c; \\cd d; rm x",
        "a a:b a:a/b:c a:a/b:a/b/c:d a:a/b:a/b/c:a/b/c/d:x",
    );
    check("rm >&- /x", "/x");
    check("rm >&-/x", "/x");
    check("rm 2>&- /x > y", "/x y");
    check("rm <&- /x /y", "/x /y");
    check("cat <&- >&3- 2>&1", "");
    check("cat <> /x", "/x");
    check("cat 3<>/x 0<> /y", "0 /x /y");
    check("<>/x cat", "/x");
    check("exec {fd}<>/x", "/x");
    check("{ ls; } <> /x", "/x");
    check("for i in a; do ls; done 4<>/x", "/x");
    check("cat <<E <>/x\nE\n", "/x");
    check(
        "ls >| /a; ls &> /b; ls &>> /c; ls >& /d; ls >&/e; exec {fd}>/f",
        "/a /b /c /d /e /f",
    );
    check("true &<>/x rm /y", "/y /x");
}

#[test]
fn paths_know_where_they_stand() {
    let check = |line: &str, expected: &str| {
        let parsed = parse(line);
        let uses = parsed.commands.iter().flat_map(|command| &command.paths);
        let mut uses: Vec<&PathUse> = uses.filter(|used| used.is_asked).collect();
        uses.sort_by_key(|used| used.at);
        let shown: Vec<&str> = uses.iter().map(|used| &*used.path).collect();
        assert_eq!(shown.join(" "), expected, "{line}");
        assert!(
            uses.iter().all(|used| used.at.is_some_and(|at| at < line.len())),
            "{uses:?}"
        );
    };
    check("> /a rm /b", "/a /b");
    check("rm /b > /a /c", "/b /a /c");
    check("{ cat /a; cat /b; } > /c", "/a /b /c");
    check("for i in 1; do cat /b; rm /a; done > /c", "/b /a /c");
    check("f() { rm /b; } > /a; rm /c", "/b /a /c");
    check("cp {/b,/a} --target-directory=/c 2> /d", "/b /a /c /d");
    check("rm /a; bash -c '    rm /c; echo > /b'; rm /d", "/a /c /b /d");
    check("cp /b $(cat /a)", "/b /a");
    check("[[ -f x ]] > /b; cd; rm /a", "/b ~ /a");
    check("ln -s /x l; echo > y", "/x l y");
}

#[test]
fn only_the_same_command_is_a_variant() {
    let check = |line: &str, variants: &[&str], forms: &[&str]| {
        let parsed = parse(line);
        assert_eq!(parsed.commands[0].variants, variants, "{line}");
        assert_eq!(parsed.commands[0].forms, forms, "{line}");
    };
    check(
        "git diff HEAD --stat",
        &["git diff --stat HEAD"],
        &["git diff HEAD --stat"],
    );
    check("rm -fr x", &["rm -rf x"], &["rm -fr x"]);
    check("echo \"a\"", &["echo a"], &["echo \"a\""]);
    check("git  status", &["git status"], &["git  status"]);
    check(
        "git -C x push -f",
        &["git push -f", "git push --force"],
        &["git -C x push -f"],
    );
    check("/bin/rm x", &["rm x"], &["/bin/rm x"]);
    check("../bin/rm x", &[], &["../bin/rm x", "rm x"]);
    check("/a/../bin/rm x", &[], &["/a/../bin/rm x", "rm x"]);
    check("sudo rm -fr x", &[], &["sudo rm -fr x", "rm -fr x", "rm -rf x"]);
    check("sh -c 'rm -fr x'", &[], &["sh -c 'rm -fr x'", "rm -fr x", "rm -rf x"]);
    check("time rm x -f", &[], &["time rm x -f", "rm x -f", "rm -f x"]);
}

#[test]
fn hostile_lines_end_in_time() {
    let most = 128 * 1024;
    let deep = most / 3;
    for line in [
        "(".repeat(most),
        "$(".repeat(deep),
        format!("{}ls{}", "$(".repeat(deep), ")".repeat(deep)),
        format!("{}ls{}", "{ ".repeat(deep / 2), "; }".repeat(deep / 2)),
        "a;".repeat(most / 2),
        "a|".repeat(most / 2),
        "`".repeat(most),
        "'".repeat(most - 1),
        "sudo ".repeat(most / 5),
        "cat <<E\n".repeat(most / 8),
        "{a,b}".repeat(most / 5),
        "\\\n".repeat(most / 2),
        "if ".repeat(most / 3),
        "x[".repeat(most / 2),
        format!("find . {}", "-exec rm {} ; ".repeat(most / 16)),
        format!("echo {}", "x ".repeat(most / 2)),
        ">f ".repeat(most / 3),
        "<>f ".repeat(most / 4),
        "time ".repeat(most / 5),
        format!("{}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("echo $({}1{})", "(".repeat(deep), ")".repeat(deep)),
        format!("((1{}))", "+1".repeat(deep)),
        format!("[[ {}1 -eq 1 ]]", "1 -eq 1 && ".repeat(most / 11)),
    ] {
        let start = Instant::now();
        parse(&line);
        // Far more than the patience, since tests share their processors.
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}…: {:?}",
            line.get(..20),
            start.elapsed()
        );
    }
}

proptest! {
    #[test]
    fn any_text_gives_parts_of_it(line in "[a-c $(){}|&;<>'\"`\\\\\n*~=#E-]{0,60}") {
        for command in parse(&line).commands {
            prop_assert!(line.contains(&command.text), "{:?} in {:?}", command.text, line);
            prop_assert!(!command.text.is_empty());
        }
    }

    #[test]
    fn any_unicode_gives_an_answer(line in any::<String>()) {
        parse(&line);
    }

    #[test]
    fn a_quoted_script_is_found(name in "[a-z]{3,8}") {
        let script = words::quote(&words::quote(&format!("zz{name} x")));
        let line = format!("sh -c {}", words::quote(&format!("sh -c {}", &script[1..script.len() - 1].replace(r"'\''", "'"))));
        let parsed = parse(&line);
        prop_assert!(parsed.commands[0].forms.contains(&format!("zz{name} x")), "{:?}", parsed);
    }
}

#[test]
fn characters_beyond_the_tables_of_the_scanner_are_letters() {
    for character in ['é', 'Ω', '字', '\u{3000}', '\u{feff}', '\u{1f600}', '\u{10ffff}'] {
        for line in [
            format!("echo {{{character}"),
            format!("echo {{1..{character}}} {{{character}..2}}"),
            format!("rm {character} \"{character}\"; ls {character}"),
        ] {
            let parsed = parse(&line);
            assert!(!parsed.commands.is_empty(), "{line}");
        }
        let parsed = parse(&format!("rm {character} x{character}y; ls"));
        let texts: Vec<&str> = parsed.commands.iter().map(|command| command.text.as_str()).collect();
        assert_eq!(texts, [format!("rm {character} x{character}y").as_str(), "ls"]);
    }
}
