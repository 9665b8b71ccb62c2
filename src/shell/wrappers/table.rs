//! The programs that run their arguments, and how much of them are their own.
//!
//! *Invariant:* data.

/// A program whose arguments, after its own options, are a command.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Short options that take a value.
    pub(super) short: &'static str,
    /// Long options that take a value.
    pub(super) long: &'static str,
    /// Words between the options and the command.
    pub(super) skip: usize,
}

pub(super) const fn wrapper(name: &'static str, short: &'static str, long: &'static str, skip: usize) -> Wrapper {
    Wrapper {
        name,
        short,
        long,
        skip,
    }
}

#[rustfmt::skip]
pub(super) const WRAPPERS: &[Wrapper] = &[
    wrapper("sudo", "ugpChDRrtTU", "user group prompt close-from host chdir chroot role type command-timeout other-user", 0),
    wrapper("doas", "uC", "", 0),
    wrapper("pkexec", "", "user", 0),
    wrapper("gosu", "", "", 1),
    wrapper("su-exec", "", "", 1),
    wrapper("env", "uCS", "unset chdir split-string", 0),
    wrapper("nice", "n", "adjustment", 0),
    wrapper("nohup", "", "", 0),
    wrapper("time", "fo", "format output", 0),
    wrapper("gtime", "fo", "format output", 0),
    wrapper("timeout", "ks", "kill-after signal", 1),
    wrapper("gtimeout", "ks", "kill-after signal", 1),
    wrapper("command", "", "", 0),
    wrapper("builtin", "", "", 0),
    wrapper("exec", "a", "", 0),
    wrapper("coproc", "", "", 0),
    wrapper("noglob", "", "", 0),
    wrapper("nocorrect", "", "", 0),
    wrapper("stdbuf", "ioe", "input output error", 0),
    wrapper("unbuffer", "", "", 0),
    wrapper("setsid", "", "", 0),
    wrapper("ionice", "cnpPu", "class classdata", 0),
    wrapper("chrt", "TPD", "sched-runtime sched-period sched-deadline", 1),
    wrapper("taskset", "", "", 1),
    wrapper("numactl", "iNmCpP", "interleave cpunodebind membind physcpubind localalloc preferred", 0),
    wrapper("flock", "wEc", "wait timeout conflict-exit-code command", 1),
    wrapper("strace", "aeEIoOpPsSuUXb", "", 0),
    wrapper("ltrace", "aAeDFlnopsSuwx", "", 0),
    wrapper("perf", "", "", 1),
    wrapper("valgrind", "", "", 0),
    wrapper("unshare", "SGRw", "setuid setgid root wd", 0),
    wrapper("nsenter", "tSGNW", "target setuid setgid", 0),
    wrapper("chroot", "", "userspec groups", 1),
    wrapper("setpriv", "", "ruid euid rgid egid groups reuid regid", 0),
    wrapper("prlimit", "p", "pid", 0),
    wrapper("systemd-run", "EGHMptu", "unit property description slice setenv uid gid nice working-directory", 0),
    wrapper("systemd-inhibit", "", "what who why mode", 0),
    wrapper("runuser", "ugG", "user group", 0),
    wrapper("caffeinate", "tw", "", 0),
    wrapper("faketime", "f", "", 1),
    wrapper("fakeroot", "lfisb", "lib faked", 0),
    wrapper("eatmydata", "", "", 0),
    wrapper("dbus-run-session", "", "config-file", 0),
    wrapper("xvfb-run", "efnps", "error-file auth-file server-num xauth-protocol server-args", 0),
    wrapper("proxychains4", "f", "", 0),
    wrapper("torsocks", "", "", 0),
    wrapper("tini", "e", "", 0),
    wrapper("dumb-init", "r", "rewrite", 0),
    wrapper("ip netns exec", "", "", 1),
    wrapper("chronic", "", "", 0),
    wrapper("softlimit", "acdflmoprst", "", 0),
    wrapper("setuidgid", "", "", 1),
    wrapper("chpst", "uUbemdopfcrt/C", "", 0),
    wrapper("with-contenv", "", "", 0),
    wrapper("dbus-launch", "", "", 0),
    wrapper("catchsegv", "", "", 0),
    wrapper("proot", "rbwkq", "", 0),
    wrapper("fakechroot", "lsdcb", "", 0),
    wrapper("wine", "", "", 0),
    wrapper("capsh", "", "", 0),
    wrapper("watchexec", "weifs", "watch exts ignore filter signal", 0),
    wrapper("pnpm exec", "", "", 0),
    wrapper("yarn exec", "", "", 0),
    wrapper("npm explore", "", "", 1),
    wrapper("mise x", "C", "", 0),
    wrapper("foreman run", "e", "env", 0),
    wrapper("dotenvx run", "f", "env-file", 0),
    wrapper("cargo watch", "xsiwdC", "exec shell ignore watch delay", 0),
    wrapper("guix shell", "", "", 0),
    wrapper("nix develop", "", "", 0),
    wrapper("entr", "", "", 0),
    wrapper("cross-env", "", "", 0),
    wrapper("dotenv", "efcv", "", 0),
    wrapper("firejail", "", "", 0),
    wrapper("cpulimit", "lpPe", "limit pid exe path", 0),
    wrapper("start-stop-daemon", "", "", 0),
    wrapper("linux64", "", "", 0),
    wrapper("linux32", "", "", 0),
    wrapper("rlwrap", "", "", 0),
    wrapper("busybox", "", "", 0),
    wrapper("toybox", "", "", 0),
    wrapper("direnv exec", "", "", 1),
    wrapper("rustup run", "", "", 1),
    wrapper("aws-vault exec", "", "", 1),
    wrapper("bundle exec", "", "gemfile", 0),
    wrapper("poetry run", "CP", "directory project", 0),
    wrapper("pipenv run", "", "", 0),
    wrapper("uv run", "p", "python with project directory extra group package", 0),
    wrapper("pdm run", "p", "project", 0),
    wrapper("rye run", "", "", 0),
    wrapper("hatch run", "", "", 0),
    wrapper("conda run", "np", "name prefix cwd", 0),
    wrapper("rbenv exec", "", "", 0),
    wrapper("pyenv exec", "", "", 0),
    wrapper("asdf exec", "", "", 0),
    wrapper("mise exec", "C", "", 0),
    wrapper("doppler run", "pc", "project config", 0),
    wrapper("op run", "", "env-file account", 0),
    wrapper("git bisect run", "", "", 0),
];

/// Long options without a value, of any of the wrappers.
pub(super) const FLAGS: &str = "preserve-env login shell background non-interactive set-home stdin preserve-groups reset-timestamp \
    remove-timestamp ignore-environment null debug foreground preserve-status verbose no-run-if-empty interactive exit \
    quiet portability append pid mount net uts ipc user fork map-root-user wait ctty line-buffered nonblock shared \
    exclusive unlock close no-fork all all-tasks cpu-list idle batch fifo other rr reset-on-fork scope pty pipe collect \
    same-dir frozen locked no-sync isolated no-dev no-capture-output live-stream";
