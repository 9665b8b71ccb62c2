package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
)

// Where a socket is that containers share.
const socket = "/run/toolgate"

// The volumes of a strict container, beside the temporary folders.
var writable = []string{"/home/toolgate", "/tmp", "/var/lib/toolgate", "/workspace"}

const rules = `{"permission": {"*": "ask", "read": "allow", "edit": "allow", "bash": "allow", "external_directory": "allow"}}`

// scene is played in a box.
type scene func(*report, *box) error

// checkService runs the service as the images say.
func (at paths) checkService(report *report, images images, chart chart) error {
	report.check("the program needs no library", static(at.program))
	if err := os.RemoveAll(at.work); err != nil {
		return err
	}
	checks := []struct {
		name    string
		image   string
		run     scene
		tools   func(string) error // puts more into the root file system
		uid     int                // in the group of root; 0: the image's user
		volumes []string           // besides those that every container gets
	}{
		{name: "the service alone", image: alone, run: at.checkAlone},
		{name: "the service with a shell", image: workspace, run: at.checkWorkspace, tools: standIn},
		// As OpenShift does it.
		{name: "the service as any user", image: alone, run: at.checkAnyUser, uid: 1000680000},
		{name: "the program in another image", image: alone, run: at.checkInstall(chart.Toolbox.CopyCommand), volumes: []string{"/opt/toolgate"}},
		{name: "the service of another container", image: alone, run: at.checkShared, volumes: []string{socket}},
	}
	for _, one := range checks {
		box, err := at.box(filepath.Join(at.work, strings.ReplaceAll(one.name, " ", "-")), images[one.image], one.tools)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		if one.uid != 0 {
			box.UID, box.GID = one.uid, 0
		}
		if err := box.prepare(one.volumes); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		before, err := box.files()
		if err != nil {
			return err
		}
		failed := report.failed
		report.check(one.name, one.run(report, box))
		after, err := box.files()
		if err != nil {
			return err
		}
		report.check(one.name+" leaves nothing outside of volumes", same(before, after))
		// Each has a copy of the program, which is large.
		if report.failed == failed {
			if err := os.RemoveAll(box.work); err != nil {
				return err
			}
		}
	}
	return nil
}

// same compares two lists of files.
func same(before, after map[string]string) error {
	var problems []error
	for name := range after {
		problems = append(problems, wrong(before[name] == after[name], "%s was %q and is %q", name, before[name], after[name]))
	}
	return errors.Join(append(problems, wrong(len(before) <= len(after), "there were %d files and are %d", len(before), len(after)))...)
}

func static(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	loader := slices.ContainsFunc(file.Progs, func(one *elf.Prog) bool { return one.Type == elf.PT_INTERP })
	return errors.Join(err, wrong(len(libraries) == 0 && !loader, "%s loads %q", path, libraries))
}

// box makes the root file system of an image, by the script that the image is made with.
func (at paths) box(work string, config dockerspec.DockerOCIImageConfig, tools func(string) error) (*box, error) {
	root := filepath.Join(work, "root")
	// What engines make in every container.
	for _, folder := range []string{"dev", "proc", "etc", "home"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/hosts"), []byte("127.0.0.1 localhost "+host+"\n"), 0o644); err != nil {
		return nil, err
	}
	if tools != nil {
		if err := tools(root); err != nil {
			return nil, err
		}
	}
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	certificates := filepath.Join(work, "certificates.pem")
	if err := os.WriteFile(certificates, authority.certificate, 0o644); err != nil {
		return nil, err
	}
	// An umask of the machine must not matter.
	defer syscall.Umask(syscall.Umask(0o077))
	scripts := filepath.Join(work, "image")
	if err := at.unpack(scripts); err != nil {
		return nil, err
	}
	script := exec.Command(filepath.Join(scripts, "rootfs.sh"), root, at.program, certificates)
	if said, err := script.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("rootfs.sh: %w: %s", err, said)
	}
	user, group, _ := strings.Cut(config.User, ":")
	uid, userErr := strconv.Atoi(user)
	gid, groupErr := strconv.Atoi(group)
	if err := errors.Join(userErr, groupErr); err != nil {
		return nil, err
	}
	return &box{
		spec: spec{Root: root, UID: uid, GID: gid, Environment: config.Env, Directory: config.WorkingDir},
		work: work, authority: authority, health: config.Healthcheck.Test[1:],
	}, nil
}

// prepare makes the volumes that a container gets.
func (b *box) prepare(volumes []string) error {
	for _, target := range append(volumes, "/var/lib/toolgate", "/workspace") {
		if _, err := b.volume(target); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(b.Volumes["/workspace"], "opencode.json"), []byte(rules), 0o644); err != nil {
		return err
	}
	// Root's, and readable for the group alone, as the kubelet mounts them.
	folder, err := b.volume(secrets)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chown(folder, 0, b.GID), os.Chmod(folder, 0o750)); err != nil {
		return err
	}
	if err := b.authority.write(folder, b.GID); err != nil {
		return err
	}
	folder, err = b.volume("/check")
	if err != nil {
		return err
	}
	return errors.Join(os.Chown(folder, 0, 0), os.Chmod(folder, 0o755), copyFile("/proc/self/exe", filepath.Join(folder, "check")))
}

// files lists what is in the root file system, volumes left out.
func (b *box) files() (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(b.Root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, b.Root)
		if _, is := b.Volumes[name]; is {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		found[name] = fmt.Sprint(info.Mode(), owner.Uid, owner.Gid, info.ModTime(), info.Size())
		return nil
	})
	return found, err
}

// writes checks that nothing can be written but these.
func (b *box) writes(expected ...string) error {
	text, err := b.run(nil, "/check/check", "probe")
	if err != nil {
		return err
	}
	var found []string
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return err
	}
	return wrong(slices.Equal(found, expected), "%q can be written", found)
}

// checkAlone plays the image that has nothing but the service.
func (at paths) checkAlone(report *report, box *box) error {
	version, err := at.version()
	if err != nil {
		return err
	}
	said, err := box.run(nil, program, "--version")
	report.check("it tells its version", errors.Join(err, wrong(said == "toolgate "+version+"\n", "it says %q", said)))
	report.check("nothing can be written but volumes", box.writes(writable...))
	_, err = box.run(nil, box.health...)
	report.check("the health check fails where nothing is served", wrong(err != nil, "it passes"))

	service, err := box.serve()
	if err != nil {
		return err
	}
	report.check("it runs without rights", confined(service))
	report.check("its socket is in the volume of the state", wrong(strings.HasPrefix(service.unix, "unix:/var/lib/toolgate/"), "it is at %q", service.unix))
	_, err = box.run(nil, box.health...)
	report.check("the health check passes", err)
	_, err = box.run(nil, program, "--server", "https://"+host+":"+service.port, "health")
	report.check("names are looked up, and the authorities of the image are trusted", err)
	report.check("it says that it has no shell", wrong(strings.Contains(service.log.String(), "there is no shell"), "it says %q", service.log))
	report.check("it changes files", at.changesFiles(service))
	answer, err := at.tool(service, "command", "bash", map[string]any{"command": "ls", "description": "Lists"})
	report.check("a command fails with a reason", errors.Join(err,
		wrong(strings.Contains(answer.Call.Failed.Error, "There is no shell"), "it gave %+v", answer.Call)))
	report.check("it ends in order", service.stop())

	service, err = box.serve()
	if err != nil {
		return err
	}
	report.check("its records outlast it", at.remembers(service))
	report.check("it can be killed", service.kill())
	// With the number of the killed one, whose socket and locks are still there.
	service, err = box.serve()
	if err != nil {
		return err
	}
	report.check("its records outlast its container", at.remembers(service))
	return service.stop()
}

// remembers checks that a service knows what one before it did.
func (at paths) remembers(service *service) error {
	answer, err := at.ask(service, "toolgate.v1.ToolService/GetCall", map[string]any{"call_id": "edit"})
	return errors.Join(err, wrong(answer.Call.State == "CALL_STATE_COMPLETED", "it says %+v", answer))
}

func (at paths) changesFiles(service *service) error {
	folder := service.box.Volumes["/workspace"]
	path := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(path, []byte("one\n"), 0o644); err != nil {
		return err
	}
	if err := os.Chown(path, service.box.UID, service.box.GID); err != nil {
		return err
	}
	err := at.gives(service, "read", "read", map[string]any{"filePath": "/workspace/notes.txt"}, "1: one")
	if err != nil {
		return err
	}
	err = at.gives(service, "edit", "edit", map[string]any{"filePath": "notes.txt", "oldString": "one", "newString": "two"}, "")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	return errors.Join(err, wrong(string(text) == "two\n", "the file has %q", text))
}

// checkWorkspace plays the image that has a shell.
func (at paths) checkWorkspace(report *report, box *box) error {
	report.check("nothing can be written but volumes, with a shell", box.writes(writable...))
	service, err := box.serve("TOOLGATE_SANDBOX_MODE=workspace-write")
	if err != nil {
		return err
	}
	command := func(id, line, expected string) error {
		return at.gives(service, id, "bash", map[string]any{"command": line, "description": "Tries"}, expected)
	}
	report.check("a command runs as the image's user", command("id", "echo $UID in $PWD; echo kept >kept", fmt.Sprintf("%d in /workspace", box.UID)))
	text, err := os.ReadFile(filepath.Join(box.Volumes["/workspace"], "kept"))
	report.check("a command writes in the workspace", errors.Join(err, wrong(string(text) == "kept\n", "it wrote %q", text)))
	report.check("a command writes nothing else", command("root", "echo >/usr/x || echo >/x || echo refused", "refused"))
	report.check("what commands leave behind is run", command("orphans", "for n in 1 2 3; do (sleep 0.$n &); done; echo left", "left"))
	report.check("what was orphaned is reaped", reaps(service.pid()))
	return service.stop()
}

// checkAnyUser plays a cluster that chooses the user.
func (at paths) checkAnyUser(report *report, box *box) error {
	service, err := box.serve()
	if err != nil {
		return err
	}
	report.check("it runs without rights as any user", confined(service))
	report.check("it changes files as any user", at.changesFiles(service))
	_, err = box.run(nil, box.health...)
	report.check("the health check passes as any user", err)
	return service.stop()
}

// checkShared plays two containers on one machine, with a group for the socket between them.
func (at paths) checkShared(report *report, box *box) error {
	const group = 65533
	loose := *box
	loose.Loose = true
	report.check("the modes of the image's files protect them, too", loose.writes("/home/toolgate", socket, "/tmp", "/var/lib/toolgate", "/workspace"))
	box.Groups = []int{group}
	service, err := box.serve("TOOLGATE_LISTEN_UNIX="+socket+"/toolgate.sock", fmt.Sprintf("TOOLGATE_AUTH_UNIX_GROUP=%d", group),
		"TOOLGATE_AUTH_UNIX_SCOPES=calls.execute,calls.read,outputs.read")
	if err != nil {
		return err
	}
	report.check("it runs without rights and with a group", confined(service))
	other := *box
	other.UID, other.GID, other.Groups = 65534, group, nil
	other.Volumes = map[string]string{socket: box.Volumes[socket]}
	_, err = other.run(nil, program, "--server", service.unix, "tools")
	report.check("the group can call it", err)
	other.GID = 65534
	_, err = other.run(nil, program, "--server", service.unix, "tools")
	report.check("nobody else can", wrong(err != nil, "they can"))
	return service.stop()
}

// checkInstall plays an init container, and the image with tools that starts the program then.
func (at paths) checkInstall(command []string) scene {
	return func(report *report, box *box) error {
		_, err := box.run(nil, command...)
		report.check("the chart's command copies the program", err)
		installed, err := os.ReadFile(filepath.Join(box.Volumes["/opt/toolgate"], "toolgate"))
		if err != nil {
			return err
		}
		original, err := os.ReadFile(at.program)
		report.check("the copy is whole", errors.Join(err, wrong(bytes.Equal(installed, original), "it differs")))
		_, err = box.run(nil, "/opt/toolgate/toolgate", "--version")
		return err
	}
}
