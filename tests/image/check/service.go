package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	token   = "a-token-of-the-test"
	secrets = "/etc/toolgate/secrets"
	// What the network configuration of a container calls it.
	host = "toolgate.test"
)

// service is one that runs in a box.
type service struct {
	box     *box
	command *exec.Cmd
	log     *bytes.Buffer
	late    *time.Timer
	port    string
	unix    string
}

// serve starts what the image starts, to be called from outside.
func (b *box) serve(environment ...string) (*service, error) {
	environment = append(environment,
		"TOOLGATE_LISTEN_TCP=0.0.0.0:0",
		"TOOLGATE_LISTEN_TLS_CERTIFICATE="+secrets+"/tls.crt",
		"TOOLGATE_LISTEN_TLS_KEY="+secrets+"/tls.key",
		"TOOLGATE_AUTH_TOKENS_FILE="+secrets+"/tokens",
	)
	command, err := b.command(environment, program, "serve", "--json")
	if err != nil {
		return nil, err
	}
	running := &service{box: b, command: command, log: &bytes.Buffer{}}
	command.Stderr = running.log
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	running.late = time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	line, _ := bufio.NewReader(output).ReadString('\n')
	var said struct {
		Listening struct{ TCP, Unix string }
	}
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		_ = command.Process.Kill()
		_ = command.Wait()
		return nil, fmt.Errorf("it said %q and %q", line, running.log)
	}
	running.port = said.Listening.TCP[strings.LastIndex(said.Listening.TCP, ":")+1:]
	running.unix = said.Listening.Unix
	return running, nil
}

// pid returns the service's number outside of the box.
func (s *service) pid() int { return s.command.Process.Pid }

// stop asks it to end, as an engine does, and returns how it did.
func (s *service) stop() error {
	defer s.late.Stop()
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.command.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, s.log)
	}
	return nil
}

// kill ends it as an engine does that has lost patience.
func (s *service) kill() error {
	defer s.late.Stop()
	if err := s.command.Process.Kill(); err != nil {
		return err
	}
	err := s.command.Wait()
	return wrong(s.command.ProcessState.Sys().(syscall.WaitStatus).Signaled(), "it ended with %v", err)
}

// answer is a call as the contract has it.
type answer struct {
	Call struct {
		State     string
		Completed struct{ Output string }
		Failed    struct{ Reason, Error string }
	}
}

// ask calls a method of the contract, from outside and over TLS.
func (at paths) ask(s *service, method string, request any) (answer, error) {
	var answer answer
	text, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	command := exec.Command(at.grpcurl, "-cacert", filepath.Join(s.box.Volumes[secrets], "ca.crt"), "-authority", host,
		"-max-time", "60", "-H", "authorization: Bearer "+token, "-d", string(text), "127.0.0.1:"+s.port, method)
	said, err := command.CombinedOutput()
	if err != nil {
		return answer, fmt.Errorf("%s: %w: %s: %s", method, err, said, s.log)
	}
	return answer, json.Unmarshal(said, &answer)
}

// tool calls one and waits for its end.
func (at paths) tool(s *service, id, tool string, input map[string]any) (answer, error) {
	return at.ask(s, "toolgate.v1.ToolService/RunTool", map[string]any{
		"call_id": id, "tool": tool, "input": input, "context": map[string]any{"session_id": "box"},
	})
}

// gives calls a tool, whose output has to contain a text.
func (at paths) gives(s *service, id, tool string, input map[string]any, text string) error {
	answer, err := at.tool(s, id, tool, input)
	if err != nil {
		return err
	}
	return wrong(strings.Contains(answer.Call.Completed.Output, text), "it gave %+v, without %q", answer.Call, text)
}

// children returns the command lines of the programs that a process has started or adopted and that are not gone.
// One that has ended and was not reaped has an empty one.
func children(pid int) ([]string, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// After the name, which is in brackets and may hold anything: the state and the parent.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[1] != fmt.Sprint(pid) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
	}
	return found, nil
}

// reaps waits until a service has nothing below it but its guardian.
func reaps(pid int) error {
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		found, err := children(pid)
		if err != nil {
			return err
		}
		if len(found) == 1 && strings.Contains(found[0], "__guardian") {
			return nil
		}
		if time.Since(begin) > patience {
			return fmt.Errorf("it has the children %q", found)
		}
	}
}

// confined looks at a running service from outside: without a user's rights, without capabilities or a way to them.
func confined(s *service) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid()))
	if err != nil {
		return err
	}
	expected := map[string]string{
		"Uid":    strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d\t", s.box.UID), 4)),
		"Gid":    strings.TrimSpace(strings.Repeat(fmt.Sprintf("%d\t", s.box.GID), 4)),
		"Groups": strings.Trim(fmt.Sprint(s.box.Groups), "[]"), "NoNewPrivs": "1",
		// The first process of the container.
		"NSpid": fmt.Sprintf("%d\t1", s.pid()),
	}
	for _, set := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
		expected["Cap"+set] = strings.Repeat("0", 16)
	}
	var problems []error
	for _, line := range strings.Split(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		if want, is := expected[name]; is {
			problems = append(problems, wrong(strings.TrimSpace(value) == want, "%s is %q", name, value))
			delete(expected, name)
		}
	}
	problems = append(problems, wrong(len(expected) == 0, "not told: %v", expected))
	return errors.Join(problems...)
}
