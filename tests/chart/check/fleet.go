package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// How often it is looked whether something has come about.
const glance = 100 * time.Millisecond

const token = "a-token-of-the-test"

var provisioner = regexp.MustCompile(`(?s)\[cluster\.provisioner\].*?\n\n`)

// fleet is what a file of values makes, as processes of this machine: hosts of the cluster are addresses of its own on loopback.
type fleet struct {
	at        paths
	values    string
	name      string    // of all that is made
	worker    string    // what makes one of its workers
	pods      [2]string // that one's, and the one of an intruder
	workspace string    // the one that this worker has, or gets
	other     string    // one that it may not have

	folder   string
	network  string
	configs  map[string]manifest
	pod      *corev1.PodTemplateSpec // of the worker
	database string
	ca       authority
	issuer   issuer
	people   issuer // who signs tokens of people
	stops    []func()
}

// checkFleet starts gateways and a worker with what is rendered, a database and certificates, and has them run a call.
func (at paths) checkFleet(report *report) {
	if at.toolgate == "" || at.postgres == "" {
		report.check("a fleet is started", errors.Join(errNoProgram, errors.New("or no PostgreSQL: run tests/setup/tools.sh")))
		return
	}
	// Workers are known by their certificates, or by their pods; and they have a workspace, or wait for one.
	for _, one := range []fleet{
		{values: "cluster", name: "tg-toolgate", worker: "StatefulSet/tg-toolgate-worker-web",
			pods:      [2]string{"tg-toolgate-worker-web-0", "tg-toolgate-worker-web-0"},
			workspace: "acme/web", other: "acme/api"},
		{values: "cluster-accounts", name: "tg-tools", worker: "StatefulSet/tg-tools-worker-scratch",
			pods:      [2]string{"tg-tools-worker-scratch-0", "tg-tools-worker-scratch-0"},
			workspace: "try/scratch", other: "main"},
		{values: "cluster-pool", name: "tg-toolgate", worker: "StatefulSet/tg-toolgate-worker-pool",
			pods:      [2]string{"tg-toolgate-worker-pool-0", "tg-toolgate-worker-pool-1"},
			workspace: "acme/new", other: "shared/docs"},
		// One of a pool, and one that was made for a claim.
		{values: "cluster-sandbox", name: "tg-toolgate", worker: "SandboxTemplate/tg-toolgate-worker",
			pods:      [2]string{"tg-toolgate-worker-x7k2p", "ws-acme-other-0123456789abcdef0123"},
			workspace: "acme/new", other: "acme/other"},
	} {
		one.at = at
		one.check(report)
	}
}

func (f *fleet) check(report *report) {
	name := "a fleet of " + f.values
	folder, err := os.MkdirTemp("", "chart-fleet-")
	if err != nil {
		report.check(name, err)
		return
	}
	defer os.RemoveAll(folder)
	// Others on this machine may use the ports, but not at these addresses.
	f.folder, f.network = folder, fmt.Sprintf("127.%d.%d", 64+os.Getpid()>>8%64, os.Getpid()%256)
	defer func() {
		for _, stop := range slices.Backward(f.stops) {
			stop()
		}
	}()
	if err := f.begin(); err != nil {
		report.check(name, err)
		return
	}
	report.check(name+" runs a call", f.runsCall())
	report.check(name+" knows at the other gateway what happened", f.isKnownAt(2))
	report.check(name+" has gateways that are ready", errors.Join(f.isReady(1), f.isReady(2)))
	report.check(name+" keeps a worker from what it may not have", f.isKeptApart())
}

func (f *fleet) begin() error {
	if err := f.render(); err != nil {
		return err
	}
	if err := f.startDatabase(); err != nil {
		return err
	}
	var err error
	if f.ca, err = newAuthority(); err != nil {
		return err
	}
	if f.issuer, err = newIssuer(); err != nil {
		return err
	}
	if f.people, err = newIssuer(); err != nil {
		return err
	}
	// Where no job does it, somebody does it with the configuration of a gateway.
	config, isThere := f.configs[f.name+"-migration"]
	if !isThere {
		config = f.configs[f.name+"-gateway"]
	}
	migration, err := f.place("migration", withoutKubernetes(config), "", 0)
	if err != nil {
		return err
	}
	if said, err := f.command(migration, nil, "store", "migrate").CombinedOutput(); err != nil {
		return fmt.Errorf("the tables are not made: %s", said)
	}
	for number := range 2 {
		place, err := f.place(fmt.Sprintf("gateway-%d", number), withoutKubernetes(f.configs[f.name+"-gateway"]), "", number+1)
		if err != nil {
			return err
		}
		if err := f.start(place, nil, "gateway"); err != nil {
			return err
		}
	}
	return f.startWorker("worker", f.workspace, f.pods[0], 3)
}

// withoutKubernetes has gateways give a workspace to a worker that waits when it is first called, where there is nobody to claim one from.
func withoutKubernetes(config manifest) manifest {
	text := config.Data["toolgate.toml"]
	if whole := provisioner.ReplaceAllString(text, ""); whole != text {
		text = strings.Replace(whole, "[cluster]\n", "[cluster]\npool = \"first-call\"\n", 1)
	}
	config.Data = maps.Clone(config.Data)
	config.Data["toolgate.toml"] = text
	return config
}

func (f *fleet) render() error {
	// What is outside of a cluster is not there.
	inside := filepath.Join(f.folder, "inside.yaml")
	values := "outputs: {bucket: '', region: '', endpoint: '', secretName: ''}\ntelemetry: {otlp: {endpoint: ''}}\n"
	if err := os.WriteFile(inside, []byte(values), 0o600); err != nil {
		return err
	}
	manifests, _, err := f.at.render(filepath.Join(f.at.tests, "values", f.values+".yaml"), inside)
	if err != nil {
		return err
	}
	f.configs = map[string]manifest{}
	for _, one := range manifests {
		if one.Data["toolgate.toml"] != "" {
			f.configs[one.Name] = one
		}
		if one.String() != f.worker {
			continue
		}
		if f.pod, err = podOf(one); err != nil {
			return err
		}
	}
	return when(f.pod == nil, errors.New("the worker is not there"), nil)
}

// startDatabase starts a server of PostgreSQL on a socket, as somebody who is not root.
func (f *fleet) startDatabase() error {
	folder := filepath.Join(f.folder, "pg")
	if err := errors.Join(os.Chmod(f.folder, 0o755), os.Mkdir(folder, 0o755)); err != nil {
		return err
	}
	run := func(program string, arguments ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(f.at.postgres, program), arguments...)
		command.Dir, command.Env = folder, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
		if os.Getuid() == 0 {
			const nobody = 65534
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			_ = os.Chown(folder, nobody, nobody)
		}
		return command
	}
	arguments := []string{"-D", "data", "-U", "toolgate", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"}
	if said, err := run("initdb", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("no database is made: %s", said)
	}
	server := run("postgres", "-D", "data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off")
	if err := server.Start(); err != nil {
		return err
	}
	f.stops = append(f.stops, func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait()
	})
	f.database = "postgres://toolgate@" + strings.ReplaceAll(folder, "/", "%2F") + "/postgres"
	return until(func() error {
		connection, err := net.Dial("unix", filepath.Join(folder, ".s.PGSQL.5432"))
		if err == nil {
			connection.Close()
		}
		return err
	})
}

// host returns where gateways reach a pod.
func (f *fleet) host(pod string) string {
	if strings.HasPrefix(f.worker, "SandboxTemplate/") {
		return pod + ".agents.svc"
	}
	return fmt.Sprintf("%s.%s-worker.agents.svc", pod, f.name)
}

// place puts what a pod has into a folder: its configuration and, if it is a worker's, a certificate and a token of its own.
func (f *fleet) place(name string, config manifest, pod string, address int) (string, error) {
	folder := filepath.Join(f.folder, name)
	own := fmt.Sprintf("%s.%d:", f.network, address)
	// The name of all gateways stands for their addresses.
	gateways := fmt.Sprintf(`"https://%[1]s.1:50552", "https://%[1]s.2:50552"`, f.network)
	config.Data = maps.Clone(config.Data)
	config.Data["toolgate.toml"] = strings.NewReplacer(
		"0.0.0.0:", own, fmt.Sprintf(`"https://%s-gateway.agents.svc:50552"`, f.name), gateways,
	).Replace(config.Data["toolgate.toml"])
	var names []string
	if pod != "" {
		names = []string{f.host(pod)}
	}
	if err := put(config, folder); err != nil {
		return "", err
	}
	certificate, key, err := f.ca.issue(names, net.ParseIP(strings.TrimSuffix(own, ":")))
	if err != nil {
		return "", err
	}
	account, err := f.issuer.issue("system:serviceaccount:agents:"+f.name+"-worker", pod)
	if err != nil {
		return "", err
	}
	scopes := "calls.execute,calls.read"
	return folder, mount(filepath.Join(folder, "etc"), map[string][]byte{
		"tls/tls.crt": certificate, "tls/tls.key": key, "tls/ca.crt": f.ca.pem, "cluster-ca/ca.crt": f.ca.pem, "client-ca/ca.crt": f.ca.pem,
		"tokens/tokens": []byte(fmt.Sprintf("anna sha256:%x %s\n", sha256.Sum256([]byte(token)), scopes)),
		"database/url":  []byte(f.database), "jwks/jwks.json": f.people.keys, "worker-jwks/jwks.json": f.issuer.keys, "identity/token": account,
	})
}

// startWorker starts a worker in one of the pods.
func (f *fleet) startWorker(name, workspace, pod string, address int) error {
	place, err := f.place(name, f.configs[f.name+"-worker"], pod, address)
	if err != nil {
		return err
	}
	environment := variables(f.pod.Spec.Containers[0].Env, map[string]string{
		"metadata.name": pod,
	})
	for index, variable := range environment {
		isOther := workspace != f.workspace
		if name, folder, _ := strings.Cut(strings.TrimPrefix(variable, "TOOLGATE_WORKSPACES="), "=/workspaces/"); folder != "" {
			environment[index] = fmt.Sprintf("TOOLGATE_WORKSPACES=%s=%s/workspaces/%s", either(isOther, workspace, name), place, folder)
			continue
		}
		environment[index] = strings.NewReplacer(
			f.host(pod), fmt.Sprintf("%s.%d", f.network, address), "=/etc/toolgate/", "="+place+"/etc/",
		).Replace(variable)
	}
	return f.start(place, environment, "serve")
}

// command returns a command of the program, for what is in a place.
func (f *fleet) command(place string, environment []string, arguments ...string) *exec.Cmd {
	command := exec.Command(f.at.toolgate, append([]string{"--config", filepath.Join(place, "toolgate.toml")}, arguments...)...)
	command.Dir = place
	command.Env = append([]string{
		"HOME=" + filepath.Join(place, "home"), "PATH=" + os.Getenv("PATH"), "OPENCODE_DISABLE_PROJECT_CONFIG=1",
		"OPENCODE_CONFIG=" + filepath.Join(place, "opencode.json"),
	}, environment...)
	return command
}

// start starts a process; what it says goes to a file beside its configuration.
func (f *fleet) start(place string, environment []string, what string) error {
	log, err := os.Create(filepath.Join(place, "log"))
	if err != nil {
		return err
	}
	command := f.command(place, environment, what)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return err
	}
	f.stops = append(f.stops, func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		log.Close()
	})
	return nil
}

// ask runs a command of a client at one of the gateways.
func (f *fleet) ask(gateway int, arguments ...string) (string, error) {
	command := exec.Command(f.at.toolgate, arguments...)
	command.Env = []string{
		fmt.Sprintf("TOOLGATE_SERVER=https://%s.%d:50551", f.network, gateway), "TOOLGATE_TOKEN=" + token,
		"HOME=" + f.folder, "PATH=" + os.Getenv("PATH"),
	}
	ca := filepath.Join(f.folder, "ca.pem")
	if err := os.WriteFile(ca, f.ca.pem, 0o600); err != nil {
		return "", err
	}
	command.Args = append(command.Args, "--tls-ca", ca)
	var said bytes.Buffer
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return string(output), err
}

func (f *fleet) runsCall() error {
	return f.told(until(func() error {
		// The whole input, because the command would ask for the tools of the workspace otherwise, and it may be nobody's yet.
		said, err := f.ask(1, "call", "--workspace", f.workspace, "read", "--input", `{"filePath": "README.md"}`)
		return when(!strings.Contains(said, "as it is in the workspace"), fmt.Errorf("it said %q", said), err)
	}))
}

func (f *fleet) isKnownAt(gateway int) error {
	said, err := f.ask(gateway, "calls", "--workspace", f.workspace)
	return f.told(when(!strings.Contains(said, "completed"), fmt.Errorf("it said %q", said), err))
}

func (f *fleet) isReady(gateway int) error {
	return until(func() error {
		connection, err := net.Dial("tcp", fmt.Sprintf("%s.%d:9464", f.network, gateway))
		if err != nil {
			return err
		}
		defer connection.Close()
		_, _ = connection.Write([]byte("GET /readyz HTTP/1.0\r\n\r\n"))
		answer := make([]byte, 64)
		length, err := connection.Read(answer)
		said := string(answer[:length])
		return when(!strings.Contains(said, " 200 "), fmt.Errorf("it said %q", said), err)
	})
}

// isKeptApart has a worker say that it has a workspace which it may not have.
func (f *fleet) isKeptApart() error {
	if err := f.startWorker("intruder", f.other, f.pods[1], 4); err != nil {
		return err
	}
	return f.told(until(func() error {
		log, err := os.ReadFile(filepath.Join(f.folder, "intruder", "log"))
		refused := strings.Contains(string(log), f.other) && strings.Contains(string(log), "may not")
		return when(!refused, errors.New("it was not refused"), err)
	}))
}

// told adds what the processes have said to an error.
func (f *fleet) told(err error) error {
	if err == nil {
		return nil
	}
	logs, _ := filepath.Glob(filepath.Join(f.folder, "*", "log"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		lines := strings.Split(string(text), "\n")
		err = fmt.Errorf("%w\n%s: %s", err, filepath.Base(filepath.Dir(path)), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return err
}

func either(condition bool, one, other string) string {
	if condition {
		return one
	}
	return other
}

// until tries something until it works, or for as long as a busy machine may take.
func until(try func() error) error {
	begun := time.Now()
	for {
		err := try()
		if err == nil || time.Since(begun) > 2*patience {
			return err
		}
		time.Sleep(glance)
	}
}
