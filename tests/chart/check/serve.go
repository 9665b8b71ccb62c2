package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// How long the service may take to start on a busy machine, and to stop.
const patience = time.Minute

// checkServes starts the service with a rendered configuration and secrets with the modes that the kubelet gives them.
func (at paths) checkServes(report *report) {
	name := "the service starts with what is rendered, and with secrets as the kubelet mounts them"
	if at.toolgate == "" {
		report.check(name, errNoProgram)
		return
	}
	report.check(name, at.serves(filepath.Join(at.tests, "values", "tokens.yaml")))
}

func (at paths) serves(values string) error {
	manifests, _, err := at.render(values)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	index := slices.IndexFunc(manifests, func(one manifest) bool { return one.Data["toolgate.toml"] != "" })
	config := manifests[index]
	config.Data["toolgate.toml"] = strings.NewReplacer(`"0.0.0.0:50551"`, `"127.0.0.1:0"`, `"0.0.0.0:9464"`, `"127.0.0.1:0"`).
		Replace(config.Data["toolgate.toml"])
	if _, err := at.configuration(config, folder, nil); err != nil {
		return err
	}
	if err := writeSecrets(filepath.Join(folder, "etc")); err != nil {
		return err
	}
	var said bytes.Buffer
	command := exec.Command(at.toolgate, "--json", "--config", filepath.Join(folder, "toolgate.toml"), "serve")
	command.Dir, command.Stderr = folder, &said
	command.Env = []string{"HOME=" + filepath.Join(folder, "home"), "PATH=" + os.Getenv("PATH"), "OPENCODE_DISABLE_PROJECT_CONFIG=1"}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer late.Stop()
	line, _ := bufio.NewReader(output).ReadString('\n')
	listens := strings.Contains(line, `"listening"`) && strings.Contains(line, "https://127.0.0.1:")
	_ = command.Process.Signal(syscall.SIGTERM)
	err = command.Wait()
	if !listens {
		return fmt.Errorf("it said %q and %q", line, said.String())
	}
	return err
}

// writeSecrets makes a certificate and a token.
func writeSecrets(folder string) error {
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	certificate, key, err := authority.issue([]string{"tg-toolgate"}, nil)
	if err != nil {
		return err
	}
	return mount(folder, map[string][]byte{
		"tls/tls.crt": certificate, "tls/tls.key": key,
		"tokens/tokens": []byte(fmt.Sprintf("agent sha256:%x calls.execute\n", sha256.Sum256([]byte(token)))),
	})
}
