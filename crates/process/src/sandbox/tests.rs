//! Real programs under the real kernel. Where the kernel cannot confine, these tests fail and say so.

mod walls;

use std::os::unix::fs::symlink;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Environment, Exit, Launch, Programs, Settings, Stdin};

const LONG: Duration = Duration::from_secs(60);

struct Fixture {
    folder: tempfile::TempDir,
    programs: Programs,
    sandbox: Arc<Sandbox>,
}

impl Fixture {
    fn new() -> Self {
        let kernel = Kernel::probe();
        assert_eq!(
            kernel.lacks(),
            Vec::<String>::new(),
            "these tests need a kernel that can confine"
        );
        Self::on(kernel)
    }

    fn on(kernel: Kernel) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work/sub", "out", "data/tool-output"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("work/mine"), "mine").unwrap();
        std::fs::write(folder.path().join("out/theirs"), "theirs").unwrap();
        std::fs::write(folder.path().join("data/secret"), "secret").unwrap();
        std::fs::write(folder.path().join("data/tool-output/shown"), "shown").unwrap();
        symlink("../out", folder.path().join("work/link")).unwrap();
        let places = Places {
            hidden: vec![folder.path().join("data")],
            readable: vec![folder.path().join("data/tool-output")],
            protected: [
                ".opencode",
                "opencode.json",
                "opencode.jsonc",
                ".git/hooks",
                ".git/config",
                ".git/commondir",
            ]
            .map(PathBuf::from)
            .into(),
            ..Places::default()
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let environment: Environment = [
            ("PATH".into(), path),
            ("SHELL".into(), "/bin/bash".into()),
            ("TMPDIR".into(), "/nowhere".into()),
        ]
        .into();
        Self {
            programs: Programs::new(&environment, Settings::default()).unwrap(),
            sandbox: Arc::new(Sandbox::new(kernel, places).unwrap()),
            folder,
        }
    }

    fn demand(&self, mode: Mode) -> Demand {
        Demand::new(mode, self.folder.path().join("work"))
    }

    /// Runs a command in the workspace; `$O` is the folder outside, `$D` the hidden one.
    async fn run(&self, demand: &Demand, command: &str) -> (Option<i32>, String) {
        let confinement = Arc::new(self.sandbox.confine(demand).unwrap());
        let root = self.folder.path().display();
        let command = format!("O={root}/out D={root}/data R={root}; {command}");
        let launch = Launch {
            environment: Default::default(),
            stdin: Stdin::Null,
            call: "a call".to_owned(),
            program: self.programs.shell().unwrap().to_path_buf(),
            arguments: vec!["-c".into(), command.into()],
            directory: demand.workspace.clone(),
            shown_directory: demand.workspace.clone(),
            sandbox: Some(confinement),
        };
        let mut running = self.programs.start(launch).await.unwrap();
        let mut output = running.take_output().unwrap();
        let token = CancellationToken::new();
        let read = async {
            let mut all = Vec::new();
            while let Some(chunk) = output.next().await {
                all.extend_from_slice(&chunk);
            }
            String::from_utf8_lossy(&all).into_owned()
        };
        let (ending, printed) = tokio::join!(running.supervise(LONG, &token), read);
        let code = match ending.exit {
            Some(Exit::Code(code)) => Some(code),
            Some(Exit::Signal(_)) | None => None,
        };
        (code, printed)
    }

    /// What lies outside, names and contents.
    fn outside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut left = vec![self.folder.path().join("out"), self.folder.path().join("data")];
        while let Some(folder) = left.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    left.push(path.clone());
                    found.push((path, Vec::new()));
                } else {
                    let content = std::fs::read(&path).unwrap_or_default();
                    found.push((path, content));
                }
            }
        }
        found.sort();
        found
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_is_changed() {
    let fixture = Fixture::new();
    let before = fixture.outside();
    let demand = fixture.demand(Mode::WorkspaceWrite);
    for command in [
        "echo x > $O/new",
        "echo x > ../out/new",
        "echo x >> $O/theirs",
        "echo x > link/new",
        "echo x > link/theirs",
        "ln -s $O fresh && echo x > fresh/new",
        "ln mine $O/new",
        "ln $O/theirs hard && echo x > hard",
        "mv mine $O/new",
        "mv $O/theirs here",
        "cp mine $O/new",
        "cp mine $O/theirs",
        "tee $O/new < mine",
        "truncate -s 0 $O/theirs",
        "python3 -c \"import os; os.truncate('$O/theirs', 0)\"",
        "python3 -c \"open('$O/new', 'w')\"",
        "python3 -c \"import os; os.open('$O/theirs', os.O_RDONLY | os.O_TRUNC)\"",
        "python3 -c \"import os; d=os.open('$O', os.O_PATH); os.open('new', os.O_CREAT|os.O_WRONLY, dir_fd=d)\"",
        "rm $O/theirs",
        "mkdir $O/new",
        "mkfifo $O/new",
        "ln -s x $O/new",
        "echo x > /proc/self/root$O/new",
        "cd $O && echo x > /proc/self/cwd/new",
        "cd $O && echo x > new",
        "setsid sh -c \"echo x > $O/new\" & wait; test -e $O/new",
        "exec 3<$O/theirs; echo x > /proc/self/fd/3",
        "exec 3<>$O/theirs && echo x >&3",
        "dd if=mine of=$O/theirs",
        "install mine $O/new",
        "sed -i s/t/x/ $O/theirs",
        "tar cf $O/new mine",
        "env -i /bin/sh -c \"echo x > $O/new\"",
        "unshare -r true",
        "unshare -m true",
        "mount -t tmpfs x $O",
        "mount --bind $R/work $O",
        "chroot / true",
        "mknod disk b 7 0",
        "cat $D/secret",
        "ln $D/secret copy && cat copy",
        "mv $D/secret copy && cat copy",
        "ln -s ../data d && cat d/secret",
        "cat /proc/self/root$D/secret",
        "echo x > $D/new",
        "cat /proc/$PPID/environ",
        "cat /proc/$PPID/maps",
        "kill -0 $PPID",
        "echo x > $TMPDIR/../new",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_ne!(code, Some(0), "{command}: {printed}");
        assert!(
            !printed.contains("secret\n") && !printed.ends_with("secret"),
            "{command}: {printed}"
        );
        assert_eq!(fixture.outside(), before, "{command}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_work_goes_on() {
    let fixture = Fixture::new();
    let demand = fixture.demand(Mode::WorkspaceWrite);
    for command in [
        "echo x > new && cat new && rm new",
        "mkdir -p a/b && echo x > a/f && mv a/f a/b/f && ln a/b/f hard && chmod +x hard && rm -r a hard",
        "echo x > link2 && ln -sf link2 l && cat l",
        "ls / /etc /usr $O > /dev/null && cat /etc/passwd $O/theirs > /dev/null",
        "ls $D > /dev/null && test \"$(cat $D/tool-output/shown)\" = shown",
        "test -z \"$(ls -A $TMPDIR)\" && f=$(mktemp) && echo x > $f && case $f in $TMPDIR/*) ;; *) false;; esac",
        "cat <<< here > /dev/null; cat <(echo x) > /dev/null; echo x > >(cat > /dev/null)",
        "echo x > /dev/stderr; echo x > /dev/stdout; echo x > /dev/null; head -c 4 /dev/urandom > /dev/null",
        "python3 -c 'import multiprocessing as m; m.Lock(); print(1)'",
        "python3 -c 'import threading as t; x=t.Thread(target=print); x.start(); x.join()'",
        "sleep 60 & kill $! && wait $!; test $? = 143",
        "sh -c 'kill -TERM $$'; test $? = 143",
        "python3 -c 'import socket; a,b=socket.socketpair(); a.send(b\"x\"); b.recv(1)'",
        "cd $TMPDIR; python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.bind(\"sock\"); s.listen(); \
         c=socket.socket(socket.AF_UNIX); c.connect(\"sock\")'",
        "git init -q repo && cd repo && git -c user.name=a -c user.email=b commit -q --allow-empty -m x",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_eq!(code, Some(0), "{command}: {printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_means_attributes_too() {
    let fixture = Fixture::new();
    let demand = fixture.demand(Mode::ReadOnly);
    for command in [
        "echo x > new",
        "echo x >> mine",
        "rm mine",
        "chmod 777 mine",
        "chmod 777 $O/theirs",
        "chown 1 mine",
        "touch mine",
        "python3 -c 'import os; os.utime(\"mine\", (0, 0))'",
    ] {
        let (code, printed) = fixture.run(&demand, command).await;
        assert_ne!(code, Some(0), "{command}: {printed}");
    }
    let (code, printed) = fixture
        .run(&demand, "cat mine && echo x > $TMPDIR/f && cat $TMPDIR/f")
        .await;
    assert_eq!((code, printed.as_str()), (Some(0), "minex\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_approved_can_be_written() {
    let fixture = Fixture::new();
    let mut demand = fixture.demand(Mode::ReadOnly);
    demand.approved = vec![fixture.folder.path().join("out"), fixture.folder.path().join("missing")];
    let (code, printed) = fixture
        .run(&demand, "echo x > $O/new && mkdir $O/dir && mv $O/new $O/dir/")
        .await;
    assert_eq!(code, Some(0), "{printed}");
    // The hidden folder stays hidden where everything around it is approved.
    demand.approved = vec![fixture.folder.path().to_path_buf()];
    let (code, printed) = fixture
        .run(&demand, "echo x > $O/more && ! cat $D/secret && ! rm $D/secret")
        .await;
    assert_eq!(code, Some(0), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_network_is_closed_or_open() {
    let fixture = Fixture::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let abstract_name = format!("toolgate-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&abstract_name);
    let _outside = std::os::unix::net::UnixListener::bind_addr(&address.unwrap()).unwrap();
    let uses = [
        format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"),
        "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'".to_owned(),
        format!(
            "python3 -c 'import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", {port}))'"
        ),
        format!("echo x > /dev/tcp/127.0.0.1/{port}"),
    ];
    let mut demand = fixture.demand(Mode::WorkspaceWrite);
    for network in [false, true] {
        demand.network = network;
        for command in &uses {
            let (code, printed) = fixture.run(&demand, command).await;
            assert_eq!(code == Some(0), network, "{command}: {printed}");
        }
        if fixture.sandbox.kernel().landlock >= 6 {
            let connect =
                format!("python3 -c 'import socket as s; s.socket(s.AF_UNIX).connect(\"\\0{abstract_name}\")'");
            let (code, printed) = fixture.run(&demand, &connect).await;
            assert_ne!(code, Some(0), "{connect}: {printed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_kernel_that_confines_nothing_is_claimed() {
    let fixture = Fixture::on(Kernel {
        landlock: 0,
        seccomp: false,
        notify: false,
    });
    let demand = fixture.demand(Mode::ReadOnly);
    let confinement = fixture.sandbox.confine(&demand).unwrap();
    let enforced = confinement.enforced();
    assert_eq!((enforced.filesystem.as_str(), enforced.network), ("none", "none"));
    let (code, _) = fixture.run(&demand, "echo x > $O/new").await;
    assert_eq!(code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn rulesets_and_folders_are_used_again() {
    let fixture = Fixture::new();
    let demand = fixture.demand(Mode::WorkspaceWrite);
    // With nothing hidden only the root is listed; with something hidden, folders that other tests change.
    let sandbox = Sandbox::new(fixture.sandbox.kernel(), Places::default()).unwrap();
    let cached = || {
        let cache = sandbox.cache.lock();
        cache
            .iter()
            .map(|entry| Arc::as_ptr(&entry.rules) as usize)
            .collect::<Vec<_>>()
    };
    let first = sandbox.confine(&demand).unwrap();
    let slot = first.temporary().to_path_buf();
    std::fs::write(slot.join("left"), "x").unwrap();
    let rules = cached();
    drop(first);
    let mut again = sandbox.confine(&demand).unwrap();
    for _ in 0..2_000 {
        if again.temporary() == slot {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        again = sandbox.confine(&demand).unwrap();
    }
    assert_eq!(again.temporary(), slot);
    assert_eq!(std::fs::read_dir(&slot).unwrap().count(), 0);
    assert!(
        cached().contains(&rules[0]),
        "nothing has changed, so the ruleset is the same"
    );
    // A new folder beside the hidden one is not among what was listed.
    std::fs::create_dir(fixture.folder.path().join("fresh")).unwrap();
    std::fs::write(fixture.folder.path().join("fresh/file"), "fresh").unwrap();
    let (code, printed) = fixture.run(&demand, "cat $R/fresh/file").await;
    assert_eq!((code, printed.as_str()), (Some(0), "fresh"));
    sandbox.close();
    assert!(!slot.exists());
}
