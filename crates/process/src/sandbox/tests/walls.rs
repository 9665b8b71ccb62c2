//! What is protected, named or somebody else's, under the real kernel.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn code_and_configuration_of_the_workspace_stay_as_they_are() {
    let fixture = Fixture::new();
    let work = fixture.folder.path().join("work");
    std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
    std::fs::create_dir_all(work.join("plain")).unwrap();
    for (name, text) in [
        (".git/config", "[core]\n"),
        (".git/hooks/old", "old"),
        (".git/HEAD", "ref: x\n"),
        ("opencode.json", "{}"),
    ] {
        std::fs::write(work.join(name), text).unwrap();
    }
    let demand = fixture.demand(Mode::WorkspaceWrite);
    for command in [
        "mkdir .opencode",
        "mkdir -p .opencode/tool && echo x > .opencode/tool/z.sh",
        "mkdir -p plain/.opencode",
        "ln -s plain .opencode",
        "mv plain .opencode",
        "python3 -c \"import os; os.makedirs('.opencode/tool')\"",
        "echo x > .opencode",
        "echo x > opencode.jsonc",
        "echo x > plain/../opencode.jsonc",
        "echo x > $PWD/opencode.jsonc",
        "cd plain && echo x > ../opencode.jsonc",
        "echo x > y && mv y opencode.json",
        "echo x > y && ln y opencode.jsonc",
        "ln opencode.json y && echo x > y",
        "echo x >> opencode.json",
        "rm opencode.json",
        "truncate -s 0 opencode.json",
        "sed -i s/x/y/ opencode.json",
        "exec 3<opencode.json; echo x > /proc/self/fd/3",
        "exec 3<opencode.json; echo x > /dev/fd/3",
        "ln -s opencode.json l && echo x > l",
        "ln -s $PWD/opencode.jsonc l2 && echo x > l2",
        "ln -s .git g && echo x > g/config",
        "echo x > .git/config",
        "git config user.name x",
        "echo x > .git/hooks/pre-commit",
        "cd .git/hooks && echo x > pre-commit",
        "mv .git/hooks .git/h",
        "mv .git g2",
        "rm -r .git",
        "mkdir g3 && mv -T g3 .git",
        "python3 -c \"import os; d=os.open('.git', os.O_PATH); os.open('config', os.O_WRONLY, dir_fd=d)\"",
        "python3 -c \"import ctypes; l=ctypes.CDLL(None,use_errno=True); l.syscall(316,-100,b'plain',-100,b'.git',2) == 0 or exit(1)\"",
        "cp /bin/true s && chmod u+s s",
        "cp /bin/true s2 && chmod g+s s2",
        "python3 -c \"import os; os.open('s3', os.O_CREAT|os.O_WRONLY, 0o4755)\"",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_ne!(code, Some(0), "{command}: {printed}");
        assert!(
            !work.join(".opencode").exists() && !work.join("opencode.jsonc").exists(),
            "{command}"
        );
        assert_eq!(
            std::fs::read_to_string(work.join("opencode.json")).unwrap(),
            "{}",
            "{command}"
        );
        assert_eq!(
            std::fs::read_to_string(work.join(".git/config")).unwrap(),
            "[core]\n",
            "{command}"
        );
        let hooks = std::fs::read_dir(work.join(".git/hooks")).unwrap();
        assert_eq!(hooks.count(), 1, "{command}");
    }
    for command in [
        "umask 027; echo x > file; mkdir dir; test $(stat -c %a file)$(stat -c %a dir) = 640750",
        "echo a > f && echo b >> f && cat f > g4 && mv g4 h && rm f && ln h i && ln -s i j && echo z > j && test $(cat h) = z",
        "mkdir -p a/b/c && touch a/b/c/d && mv a/b a/e && rm -r a",
        "mkfifo p; echo x > p & test $(cat p) = x; wait",
        "(echo a; echo b > /dev/stdout) > out; test \"$(cat out)\" = b || test \"$(cat out)\" = \"a\nb\"; exec 3>>out; echo c >&3",
        "git init -q sub && cd sub && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git config x.y z",
        "git clone -q sub copy && rm -rf copy",
        "mv $TMPDIR/none x 2>/dev/null; echo t > $TMPDIR/t && mv $TMPDIR/t t && cat t",
        "python3 -c \"import tempfile, os; tempfile.TemporaryFile(dir='.').write(b'x'); d=tempfile.mkdtemp(dir='.'); os.rmdir(d)\"",
        "python3 -c \"import os; os.truncate('mine', 2); open('mine','r+').write('m'); os.mkdir('q'); os.rename('q','r'); os.rmdir('r')\"",
        "echo x > .git/index && echo y > .git/HEAD.lock && mv .git/HEAD.lock .git/HEAD",
        "mkdir -p node_modules/x/.opencode && rm -r node_modules",
        "python3 -c 'import pty; exit(pty.spawn([\"tty\"]))'",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_eq!(code, Some(0), "{command}: {printed}");
    }
    let stopped = |demand: &Demand| fixture.sandbox.confine(demand).unwrap().stopped();
    assert_eq!(stopped(&demand), Vec::new());
    // What a person opened.
    let opened = Demand {
        opened: vec![work.canonicalize().unwrap().join(".git/config")],
        ..demand
    };
    let (code, printed) = fixture
        .run(&opened, "echo y > .git/config && ! echo x > .git/hooks/new")
        .await;
    assert_eq!(code, Some(0), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_safe_whatever_their_file_is_called() {
    let fixture = Fixture::new();
    let work = fixture.folder.path().join("work").canonicalize().unwrap();
    std::fs::create_dir_all(work.join("team/rules")).unwrap();
    std::fs::create_dir_all(work.join("sub/project")).unwrap();
    std::fs::write(work.join("team/rules/base.json"), "{}").unwrap();
    std::fs::write(work.join("team/other"), "x").unwrap();
    let demand = Demand {
        configuration: ["team/rules/base.json", "later/agents"]
            .map(|name| work.join(name))
            .into(),
        directory: Some(work.join("sub/project")),
        ..fixture.demand(Mode::WorkspaceWrite)
    };
    for command in [
        "echo x > team/rules/base.json",
        "rm team/rules/base.json",
        "rm -r team",
        "mv team/rules team/r",
        "mv team t",
        "echo x > y && mv y team/rules/base.json",
        "ln -s team l && echo x > l/rules/base.json",
        "ln team/rules/base.json y2 && echo x > y2",
        "ln -s sub later",
        "mkdir l2 && mv -T l2 later",
        "echo x > later",
        "mkdir -p later/agents",
        "mv sub/project sub/p",
        "mv sub s",
        "echo x > Team/Rules/BASE.json && test ! -e Team",
        "mkdir .OpenCode",
        "echo x > OPENCODE.json",
        "mkdir -p Later/AGENTS",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_ne!(code, Some(0), "{command}: {printed}");
        assert!(
            !work.join("later/agents").exists() && !work.join("later").is_symlink(),
            "{command}"
        );
        assert!(work.join("sub/project").is_dir(), "{command}: {printed}");
        let rules = std::fs::read_to_string(work.join("team/rules/base.json"));
        assert_eq!(rules.unwrap(), "{}", "{command}");
    }
    let (code, printed) = fixture
        .run(
            &demand,
            "echo y > team/other && echo z > team/rules/new && rm team/rules/new && mkdir -p later/other && rm -r later \
             && echo x > sub/project/a && mkdir sub/b && mv sub/b sub/c && rmdir sub/c",
        )
        .await;
    assert_eq!(code, Some(0), "{printed}");
    let demand = Demand {
        opened: vec![work.join("team/rules/base.json")],
        ..demand
    };
    let (code, printed) = fixture.run(&demand, "echo opened > team/rules/base.json").await;
    assert_eq!(code, Some(0), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_in_an_approved_folder_are_safe_and_what_is_beside_them_is_not() {
    let fixture = Fixture::new();
    let out = fixture.folder.path().join("out").canonicalize().unwrap();
    std::fs::create_dir_all(out.join("settings/agent")).unwrap();
    std::fs::write(out.join("settings/rules.json"), "{}").unwrap();
    let demand = Demand {
        configuration: ["settings/rules.json", "settings/agent"]
            .map(|name| out.join(name))
            .into(),
        approved: vec![out.clone()],
        ..fixture.demand(Mode::WorkspaceWrite)
    };
    for command in [
        "echo x > $O/settings/rules.json",
        "rm $O/settings/rules.json",
        "echo x > $O/y && mv $O/y $O/settings/rules.json",
        "mv $O/settings $O/s",
        "echo x > $O/settings/agent/build.md",
        "ln -s $O/settings l && echo x > l/rules.json",
        "mkdir $O/.opencode",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_ne!(code, Some(0), "{command}: {printed}");
        let rules = std::fs::read_to_string(out.join("settings/rules.json"));
        assert_eq!(rules.unwrap(), "{}", "{command}");
        assert!(!out.join("settings/agent/build.md").exists(), "{command}");
    }
    let fine =
        "echo x > $O/theirs && mkdir $O/new && mv $O/new $O/other && echo y > $O/settings/more && rm $O/settings/more";
    let (code, printed) = fixture.run(&demand, fine).await;
    assert_eq!(code, Some(0), "{printed}");
    // Where no rules are, nothing is in the way.
    let demand = Demand {
        configuration: Vec::new(),
        ..demand
    };
    let (code, printed) = fixture.run(&demand, "echo x > $O/settings/rules.json").await;
    assert_eq!(code, Some(0), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_processes_are_out_of_reach() {
    let fixture = Fixture::new();
    let demand = Demand {
        network: true,
        ..fixture.demand(Mode::WorkspaceWrite)
    };
    for command in [
        "prlimit --pid $PPID --cpu=100000:100000",
        "python3 -c 'import os, resource as r; r.prlimit(os.getppid(), r.RLIMIT_CPU, (9**6, 9**6))'",
        "python3 -c 'import os; os.setpriority(os.PRIO_PROCESS, int(os.environ[\"P\"]), 5)'",
        "python3 -c 'import os; os.setpriority(os.PRIO_USER, 0, 5)'",
        "renice -n 5 -p $P",
        "renice -n 5 -u $(id -u)",
        "taskset -p 1 $P",
        "chrt -b -p 0 $P",
        "ionice -c 3 -p $P",
        "ulimit -R unlimited",
        "prlimit --rttime=unlimited true",
        "kill -CONT $P",
    ] {
        let (code, printed) = fixture
            .run(&demand, &format!("export P={}; {command}", std::process::id()))
            .await;
        assert_ne!(code, Some(0), "{command}: {printed}");
    }
    for command in [
        "nice -n 5 true",
        "taskset 1 true",
        "ionice -c 3 true",
        "ulimit -n 100",
        "chrt -b 0 true",
        "prlimit --nofile=64 true",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_eq!(code, Some(0), "{command}: {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unix_sockets_are_refused_unless_named() {
    let fixture = Fixture::new();
    let root = fixture.folder.path();
    let listen = |name: &str| std::os::unix::net::UnixListener::bind(root.join(name)).unwrap();
    let _listeners = [listen("out/s"), listen("work/s"), listen("data/s"), listen("out/agent")];
    let places = Places {
        hidden: vec![root.join("data")],
        sockets: vec![root.join("out/agent")],
        ..Places::default()
    };
    let fixture = Fixture {
        sandbox: Arc::new(Sandbox::new(Kernel::probe(), places).unwrap()),
        ..fixture
    };
    for (mode, network) in [
        (Mode::WorkspaceWrite, false),
        (Mode::WorkspaceWrite, true),
        (Mode::ReadOnly, false),
    ] {
        let demand = Demand {
            network,
            ..fixture.demand(mode)
        };
        for (path, expected) in [
            ("$O/s", false),
            ("../out/s", false),
            ("link/s", false),
            ("$D/s", false),
            ("$O/agent", true),
            ("s", network),
        ] {
            let command = format!("python3 -c \"import socket as s; s.socket(s.AF_UNIX).connect('{path}')\"");
            let (code, printed) = fixture.run(&demand, &command).await;
            assert_eq!(code == Some(0), expected, "{mode:?} {network} {command}: {printed}");
        }
        let command = "python3 -c \"import socket as s; s.socket(s.AF_UNIX, s.SOCK_DGRAM).sendto(b'x', '/dev/log')\"";
        let (code, printed) = fixture.run(&demand, command).await;
        assert!(code != Some(0) && printed.contains("not permitted"), "{printed}");
        let pair = "python3 -c 'import socket; a,b=socket.socketpair(); a.send(b\"x\"); b.recv(1)'";
        assert_eq!(fixture.run(&demand, pair).await.0, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn within_walls_only_what_was_named_is_read() {
    let fixture = Fixture::new();
    let root = fixture.folder.path();
    for name in ["home/.ssh", "home/cache", "home/more"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("f"), "text").unwrap();
    }
    let places = Places {
        // What python3 is may be in a home folder; this test needs none.
        common: ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc"]
            .map(PathBuf::from)
            .into(),
        caches: vec![root.join("home/cache"), root.join("home/later")],
        ..Places::default()
    };
    let fixture = Fixture {
        sandbox: Arc::new(Sandbox::new(Kernel::probe(), places).unwrap()),
        ..fixture
    };
    let root = fixture.folder.path();
    let demand = Demand {
        walls: true,
        readable: vec![root.join("home/more")],
        ..fixture.demand(Mode::WorkspaceWrite)
    };
    for command in [
        "cat $O/theirs",
        "ls $O",
        "cat $R/home/.ssh/f",
        "ls $R",
        "cat link/theirs",
        "echo x > $R/home/more/g",
        "ls /",
        "echo x > $R/home/later/g",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_ne!(code, Some(0), "{command}: {printed}");
    }
    for command in [
        "cat mine /etc/passwd > /dev/null",
        "cat $R/home/more/f",
        "echo x > $R/home/cache/g && cat $R/home/cache/*",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_eq!(code, Some(0), "{command}: {printed}");
    }
    // A cache that came to be there.
    std::fs::create_dir(root.join("home/later")).unwrap();
    let (code, printed) = fixture.run(&demand, "echo x > $R/home/later/g").await;
    assert_eq!(code, Some(0), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_is_so_when_it_comes_to_be_there() {
    let fixture = Fixture::new();
    let root = fixture.folder.path();
    let places = Places {
        hidden: vec![root.join("out/key")],
        ..Places::default()
    };
    let fixture = Fixture {
        sandbox: Arc::new(Sandbox::new(Kernel::probe(), places).unwrap()),
        ..fixture
    };
    let demand = fixture.demand(Mode::WorkspaceWrite);
    assert_ne!(fixture.run(&demand, "cat $O/key").await.0, Some(0));
    std::fs::write(fixture.folder.path().join("out/key"), "key").unwrap();
    let (code, printed) = fixture.run(&demand, "cat $O/key").await;
    assert!(code != Some(0) && printed != "key", "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminals_of_others_are_out_of_reach() {
    use std::io::BufRead as _;
    let fixture = Fixture::new();
    let line = "import os; m, s = os.openpty(); print(os.ttyname(s), flush=True); input()";
    let mut other = std::process::Command::new("python3")
        .args(["-c", line])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut name = String::new();
    let mut told = std::io::BufReader::new(other.stdout.take().unwrap());
    told.read_line(&mut name).unwrap();
    for command in ["echo x >", "exec 3<>", "cat <"] {
        let command = format!("{command} {}", name.trim());
        let (code, printed) = fixture.run(&fixture.demand(Mode::WorkspaceWrite), &command).await;
        assert_ne!(code, Some(0), "{command}: {printed}");
    }
    drop(other.stdin.take());
    other.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repositories_inside_a_repository_stay_as_they_are() {
    let fixture = Fixture::new();
    let demand = fixture.demand(Mode::WorkspaceWrite);
    let prepare = "set -e
        cd work
        git init -q . && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x
        git worktree add -q linked
        mkdir -p .git/modules/m/refs evil && cp .git/config .git/modules/m/ && cp .git/config evil/
        git init -q nested && git init -q other && mkdir -p sub && echo 'gitdir: ../.git/modules/m' > sub/.git";
    let prepared = std::process::Command::new("bash")
        .args(["-c", prepare])
        .current_dir(fixture.folder.path())
        .status();
    assert!(prepared.unwrap().success());
    for command in [
        "echo ../../../evil > .git/worktrees/linked/commondir",
        "rm .git/worktrees/linked/commondir",
        "echo x > c && mv c .git/worktrees/linked/commondir",
        "ln -f evil/config .git/worktrees/linked/commondir",
        "mv .git/worktrees/linked .git/worktrees/other",
        "mv .git/worktrees aside",
        "echo x > .git/commondir",
        "echo x > .git/modules/m/commondir",
        "echo x >> .git/modules/m/config",
        "mv .git/modules/m aside",
        "mv -T evil .git/modules/m",
        "mv -T evil .git/modules/n",
        "mv .git/modules .git/m",
        "rm nested/.git/config",
        "rm -r nested/.git/hooks",
        "rm -rf nested",
        "rm -rf nested/.git && git init nested",
        "rm sub/.git",
        "mv nested/.git away",
        "mv nested/.git/config away",
        "ln -sf ../evil sub/.git",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_ne!(code, Some(0), "{command}: {printed}");
    }
    for command in [
        "git init -q made && git -C made config user.name x && rm -r made",
        "git worktree add -q second && git -C second status && git -C linked status",
        "git worktree list && git worktree lock second && git worktree unlock second",
        "git -C linked -c user.name=x -c user.email=x@x commit -q --allow-empty -m y",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_eq!(code, Some(0), "{command}: {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_below_a_file_hinders_nothing() {
    let fixture = Fixture::new();
    let places = Places {
        common: ["/usr", "/bin", "/lib", "/lib64"].map(PathBuf::from).into(),
        caches: vec![fixture.folder.path().join("out/theirs/cache")],
        ..Places::default()
    };
    let fixture = Fixture {
        sandbox: Arc::new(Sandbox::new(Kernel::probe(), places).unwrap()),
        ..fixture
    };
    let demand = Demand {
        walls: true,
        ..fixture.demand(Mode::WorkspaceWrite)
    };
    let (_, printed) = fixture.run(&demand, "echo ran").await;
    assert_eq!(printed.trim(), "ran");
}
