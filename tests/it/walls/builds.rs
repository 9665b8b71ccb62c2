//! Ordinary work with the programs that are there, within walls: nothing asks. Registries are not needed.

use super::*;

/// One piece of work: the program without which it is left out, files, and a command line.
type Work = (&'static str, &'static [(&'static str, &'static str)], &'static str);

const WORK: &[Work] = &[
    (
        "cargo",
        &[
            (
                "crate/Cargo.toml",
                "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
            ),
            ("crate/src/main.rs", "fn main() { println!(\"{}\", tiny::two()); }\n"),
            (
                "crate/src/lib.rs",
                "pub fn two() -> u8 { 2 }\n#[test]\nfn is_two() { assert_eq!(two(), 2); }\n",
            ),
            (
                "crate/build.rs",
                "fn main() { std::fs::write(std::env::var(\"OUT_DIR\").unwrap() + \"/x\", \"x\").unwrap(); }\n",
            ),
        ],
        "cargo build --offline --manifest-path crate/Cargo.toml",
    ),
    (
        "cargo",
        &[],
        "cd crate && cargo test --offline && cargo run --offline --quiet",
    ),
    ("cargo", &[], "cargo clean --manifest-path crate/Cargo.toml"),
    (
        "npm",
        &[
            (
                "web/package.json",
                "{\"name\": \"web\", \"version\": \"1.0.0\", \"dependencies\": {\"dep\": \"file:./dep\"}, \
              \"scripts\": {\"build\": \"node build.js\", \"test\": \"node --test\"}}",
            ),
            (
                "web/dep/package.json",
                "{\"name\": \"dep\", \"version\": \"1.0.0\", \"main\": \"index.js\"}",
            ),
            ("web/dep/index.js", "module.exports = 2"),
            (
                "web/build.js",
                "require('fs').mkdirSync('dist', {recursive: true}); \
              require('fs').writeFileSync('dist/out.js', String(require('dep')))",
            ),
            (
                "web/two.test.js",
                "require('node:test')('two', () => require('assert').equal(require('dep'), 2))",
            ),
        ],
        "cd web && npm install --offline --no-audit --no-fund",
    ),
    ("npm", &[], "cd web && npm run build && npm test && cat dist/out.js"),
    (
        "npm",
        &[],
        "cd web && npm pack ./dep && npm ls && rm -rf node_modules && npm ci --offline --no-audit --no-fund",
    ),
    (
        "node",
        &[(
            "tool.mjs",
            "import fs from 'node:fs'; import cp from 'node:child_process'; import os from 'node:os'; \
          fs.writeFileSync(os.tmpdir() + '/t', 'x'); fs.mkdtempSync('made-'); cp.execFileSync('ls'); \
          fs.watch('.').close(); fs.rmSync('gone', {recursive: true, force: true}); fs.copyFileSync('tool.mjs', 'copy.mjs')",
        )],
        "node tool.mjs",
    ),
    (
        "python3",
        &[(
            "wheel.py",
            "import zipfile\nwith zipfile.ZipFile('tiny-1.0-py3-none-any.whl', 'w') as z:\n \
          z.writestr('tiny.py', 'two = 2\\n')\n \
          z.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n \
          z.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n \
          z.writestr('tiny-1.0.dist-info/RECORD', '')\n",
        )],
        "python3 -m venv .venv && python3 wheel.py && .venv/bin/pip install --no-index ./tiny-1.0-py3-none-any.whl && \
         .venv/bin/python -c 'import tiny; print(tiny.two)'",
    ),
    (
        "pytest",
        &[(
            "tests/test_two.py",
            "def test_two(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    assert 1 + 1 == 2\n",
        )],
        "pytest -q tests",
    ),
    (
        "python3",
        &[
            ("pkg/__init__.py", ""),
            (
                "pkg/many.py",
                "import multiprocessing as m, sqlite3, tempfile, concurrent.futures as c\n\
          def f(x): return x * 2\n\
          if __name__ == '__main__':\n \
          print(m.Pool(2).map(f, [1, 2])); print(m.Manager().list([1])[0])\n \
          print(list(c.ProcessPoolExecutor(2, mp_context=m.get_context('forkserver')).map(f, [1])))\n \
          d = sqlite3.connect('x.db'); d.execute('pragma journal_mode=wal'); d.execute('create table if not exists t(x)'); d.commit()\n \
          tempfile.NamedTemporaryFile().write(b'x'); tempfile.TemporaryFile(dir='.').write(b'x')\n",
            ),
        ],
        "python3 -m pkg.many && python3 -m compileall -q pkg && python3 -m unittest discover -q -s tests -p none.py || test $? = 5",
    ),
    (
        "go",
        &[
            ("go/go.mod", "module tiny\n\ngo 1.20\n"),
            (
                "go/main.go",
                "package main\n\nimport \"fmt\"\n\nfunc two() int { return 2 }\n\nfunc main() { fmt.Println(two()) }\n",
            ),
            (
                "go/main_test.go",
                "package main\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) { if two() != 2 { t.Fatal() } }\n",
            ),
        ],
        "cd go && GOFLAGS=-mod=mod GOPROXY=off go build -o tiny . && ./tiny",
    ),
    ("go", &[], "cd go && go test ./... && go vet ./... && gofmt -l ."),
    (
        "make",
        &[
            (
                "c/Makefile",
                "all: two\ntwo: two.o\n\t$(CC) -o $@ $^\n%.o: %.c\n\t$(CC) -c -o $@ $<\nclean:\n\trm -f two *.o\n",
            ),
            (
                "c/two.c",
                "#include <stdio.h>\nint main(void) { FILE *f = tmpfile(); puts(\"2\"); return f == NULL; }\n",
            ),
        ],
        "make -C c -j2 && make -C c clean && cd c && make && test -x two",
    ),
    (
        "javac",
        &[(
            "java/Two.java",
            "public class Two { public static void main(String[] a) throws Exception { \
          java.nio.file.Files.createTempFile(java.nio.file.Path.of(\".\"), \"x\", \"y\"); System.out.println(2); } }",
        )],
        "javac -d java/out java/Two.java && java -cp java/out Two && jar cf java/two.jar -C java/out .",
    ),
    (
        "git",
        &[("file.txt", "one\n")],
        "git add -A . && git commit -q -m one && git log --oneline && git status --short",
    ),
    (
        "git",
        &[],
        "git checkout -q -b two && echo x >> file.txt && git stash -q && git stash pop -q && git commit -qam two && \
      git checkout -q - && git merge -q two && git branch -d two && git tag v1 && git diff HEAD~1 --stat && git gc -q",
    ),
    (
        "git",
        &[],
        "git clone -q . copy && git -C copy log --oneline && git -C copy checkout -q -b other && rm -rf copy",
    ),
    (
        "git",
        &[],
        "git init -q inner && cd inner && git config user.name x && git add -A && git status && git reset -q --hard || true",
    ),
    (
        "tar",
        &[],
        "mkdir -p pack/in && echo x > pack/in/x && tar czf pack.tgz pack && rm -r pack && tar xzf pack.tgz && \
      find pack -type f -exec touch {} + && sed -i s/x/y/ pack/in/x && ls -lR pack | sort | uniq -c > list && cp -a pack pack2 && \
      mv pack2 pack3 && ln -s pack3 link && chmod -R u+w pack3 && rm -r pack3 link",
    ),
    (
        "perl",
        &[],
        "perl -i -pe 's/y/z/' pack/in/x && perl -MFile::Temp=tempfile -e 'my ($h, $n) = tempfile(); print $h 1' && cat pack/in/x",
    ),
    (
        "awk",
        &[],
        "seq 1 200000 | sort -S 1M -r | awk '{ s += $1 } END { print s > \"sum\" }' && cat sum && mktemp && \
      cat <<< here && diff <(echo 1) <(echo 1) && xargs -n 1 echo < sum | tee copy.txt",
    ),
    (
        "bash",
        &[(
            "run.sh",
            "#!/bin/bash\nset -euo pipefail\ncd \"$(dirname \"$0\")\"\nexec > >(tee run.log) 2>&1\necho x > /dev/stderr\n\
      date > made/date 2>/dev/null || mkdir -p made && date > made/date\nmkfifo pipe && (echo x > pipe &) && cat pipe && rm pipe\n",
        )],
        "bash run.sh && test -s made/date",
    ),
];

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Programs that only say that a version is missing count as missing.
    let is_file = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let asked = Command::new(program).arg("--version").output();
    let version = Command::new(program).arg("version").output();
    is_file
        && [asked, version]
            .into_iter()
            .flatten()
            .any(|output| output.status.success())
}

#[test]
fn builds_ask_nothing() {
    test(async {
        let home = std::env::var("HOME").unwrap();
        let of_home = |name: &str, folder: &str| std::env::var(name).unwrap_or(format!("{home}/{folder}"));
        let setup = Setup::permission(json!({"bash": "allow", "external_directory": "ask"}))
            .env("TOOLGATE_PERMISSION_UNATTENDED", "refuse")
            .env("RUSTUP_HOME", &of_home("RUSTUP_HOME", ".rustup"))
            .env("GOTOOLCHAIN", "local")
            .env("CARGO_NET_OFFLINE", "true");
        let server = Server::with(setup).await;
        fs::write(
            server.folder().join("home/.gitconfig"),
            "[user]\n\tname = a\n\temail = a@b\n[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n",
        )
        .unwrap();
        let made = Command::new("git")
            .args(["init", "-q"])
            .current_dir(server.work())
            .status();
        assert!(made.unwrap().success());
        fs::write(
            server.work().join(".gitignore"),
            "target\nnode_modules\n.venv\ninner\ncopy\n",
        )
        .unwrap();
        let mut known = BTreeMap::new();
        let mut failures = Vec::new();
        let mut count = 0;
        for (program, files, command) in WORK {
            write(server.work().as_path(), files);
            if !*known.entry(program).or_insert_with(|| is_there(program)) {
                continue;
            }
            count += 1;
            let started = std::time::Instant::now();
            let ran = run(&server, command).await;
            eprintln!("{:>6} ms  {command}", started.elapsed().as_millis());
            // Git tidies its configuration when a branch goes, and minds nothing if it cannot.
            let refused = ran.sandbox["refused"].as_array().cloned().unwrap_or_default();
            let is_asked = |refused: &Value| refused["answer"] != "not asked: the command ended well";
            if !ran.is_well() || refused.iter().any(is_asked) || ran.sandbox["mode"] != "walls" {
                failures.push(format!("{command}\n{}\n{}", ran.sandbox, ran.output));
            }
        }
        assert!(
            failures.is_empty(),
            "{} of {count}:\n{}",
            failures.len(),
            failures.join("\n\n")
        );
    });
}

fn write(work: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = work.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
