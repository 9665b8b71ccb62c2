package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long anything may take on a busy machine.
const patience = time.Minute

// The devices that engines give to every container.
var devices = map[string]uint64{
	"null":    unix.Mkdev(1, 3),
	"zero":    unix.Mkdev(1, 5),
	"full":    unix.Mkdev(1, 7),
	"random":  unix.Mkdev(1, 8),
	"urandom": unix.Mkdev(1, 9),
}

// spec says how a program is boxed. It travels to the process that boxes itself and becomes the program.
type spec struct {
	Root        string            // the root file system
	Loose       bool              // whether the root is left writable, for those whom its modes let write
	Volumes     map[string]string // folders of the host, by where they are mounted
	UID, GID    int
	Groups      []int // more of them
	Environment []string
	Directory   string
	Arguments   []string // the program, by its path, and its arguments
}

// inside boxes this process and becomes the program: the first of its process namespace, on a root that nobody can
// write, with a temporary `/tmp` and home, without any capability, and unable to get one.
func inside(text string) error {
	runtime.LockOSThread()
	var spec spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	if err := spec.enter(); err != nil {
		return err
	}
	if err := os.Chdir(spec.Directory); err != nil {
		return err
	}
	if err := spec.restrict(); err != nil {
		return err
	}
	return fmt.Errorf("cannot execute %s: %w", spec.Arguments[0], unix.Exec(spec.Arguments[0], spec.Arguments, spec.Environment))
}

// enter changes the root.
func (s spec) enter() error {
	type mount struct {
		source, target, kind string
		flags                uintptr
		options              string
	}
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	mounts := []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{s.Root, s.Root, "", unix.MS_BIND, ""},
		{"proc", s.Root + "/proc", "proc", safe | unix.MS_NOEXEC, ""},
		{"tmpfs", s.Root + "/dev", "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755,size=64k"},
		{"tmpfs", s.Root + "/tmp", "tmpfs", safe, "mode=1777,size=64m"},
		{"tmpfs", s.Root + "/home/toolgate", "tmpfs", safe, fmt.Sprintf("mode=700,size=64m,uid=%d,gid=%d", s.UID, s.GID)},
	}
	for target, source := range s.Volumes {
		mounts = append(mounts, mount{source, s.Root + target, "", unix.MS_BIND, ""})
	}
	for _, one := range mounts {
		if err := unix.Mount(one.source, one.target, one.kind, one.flags, one.options); err != nil {
			return fmt.Errorf("cannot mount %s: %w", one.target, err)
		}
	}
	if err := makeDevices(s.Root); err != nil {
		return err
	}
	folders := []string{"/dev", ""}
	if s.Loose {
		folders = folders[:1]
	}
	for _, folder := range folders {
		if err := unix.Mount("", s.Root+folder, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID, ""); err != nil {
			return fmt.Errorf("cannot make %s read-only: %w", folder, err)
		}
	}
	// The old root is stacked below the new one, and taken away: no path leads to the host any more.
	if err := os.Chdir(s.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	return unix.Unmount(".", unix.MNT_DETACH)
}

// restrict gives up everything that the user of an engine with `--cap-drop ALL` and `no-new-privileges` has not.
func (s spec) restrict() error {
	for capability := uintptr(0); ; capability++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break
		} else if err != nil {
			return fmt.Errorf("cannot drop capabilities: %w", err)
		}
	}
	if err := errors.Join(syscall.Setgroups(s.Groups), syscall.Setresgid(s.GID, s.GID, s.GID), syscall.Setresuid(s.UID, s.UID, s.UID)); err != nil {
		return fmt.Errorf("cannot become %d:%d: %w", s.UID, s.GID, err)
	}
	unix.Umask(0o022)
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

func makeDevices(root string) error {
	for name, number := range devices {
		path := filepath.Join(root, "dev", name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(number)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("cannot make %s: %w", path, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// box is a root file system with volumes, and who runs in it.
type box struct {
	spec
	work      string // where volumes are made
	authority *authority
	health    []string // the health check of the image
}

// volume makes a folder and mounts it. Where the image has one, the new one is like it, as in a volume that an engine
// makes; else it is the user's.
func (b *box) volume(target string) (string, error) {
	source, place := filepath.Join(b.work, strings.ReplaceAll(strings.TrimPrefix(target, "/"), "/", "-")), b.Root+target
	uid, gid, mode := b.UID, b.GID, os.FileMode(0o770)
	if there, err := os.Stat(place); err == nil {
		owner := there.Sys().(*syscall.Stat_t)
		uid, gid, mode = int(owner.Uid), int(owner.Gid), there.Mode().Perm()
	}
	// A place to mount at, which engines make before the root is read-only.
	if err := errors.Join(os.MkdirAll(source, 0o755), os.MkdirAll(place, 0o755)); err != nil {
		return "", err
	}
	if b.Volumes == nil {
		b.Volumes = map[string]string{}
	}
	b.Volumes[target] = source
	return source, errors.Join(os.Chown(source, uid, gid), os.Chmod(source, mode))
}

// command returns what starts a program in the box.
func (b *box) command(environment []string, arguments ...string) (*exec.Cmd, error) {
	spec := b.spec
	spec.Environment = append(slices.Clone(b.Environment), environment...)
	spec.Arguments = arguments
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	command := exec.Command("/proc/self/exe", "inside", string(text))
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	return command, nil
}

// run starts a program, waits for its end, and returns what it printed.
func (b *box) run(environment []string, arguments ...string) (string, error) {
	command, err := b.command(environment, arguments...)
	if err != nil {
		return "", err
	}
	var said, complained bytes.Buffer
	command.Stdout, command.Stderr = &said, &complained
	if err := command.Start(); err != nil {
		return "", err
	}
	late := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer late.Stop()
	if err := command.Wait(); err != nil {
		return said.String(), fmt.Errorf("%s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(complained.String()))
	}
	return said.String(), nil
}

// try says why no process can be boxed here.
func try() error {
	root, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	for _, folder := range []string{"", "proc", "dev", "tmp", "home/toolgate"} {
		folder := filepath.Join(root, folder)
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o755)); err != nil {
			return err
		}
	}
	if err := copyFile("/proc/self/exe", filepath.Join(root, "check")); err != nil {
		return err
	}
	trial := box{spec: spec{Root: root, UID: 65532, GID: 65532, Directory: "/"}}
	_, err = trial.run(nil, "/check", "probe")
	return err
}

// copyFile makes a copy that everybody may execute.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	return errors.Join(err, file.Close())
}
