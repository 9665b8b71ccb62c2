package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Keys of `toolgate.toml` that the chart decides, so that `config` has no place for them.
var decided = []string{
	"data_dir", "listen.", "auth.", "workspaces", "workspace_roots", "created_workspaces.", "tenants", "audit.key_file", "search.key_file", "redact.files", "telemetry.", "cluster.",
}

// What a worker is told that waits for a workspace: its folder, which has no name yet.
const waiting = "TOOLGATE_WORKSPACES==/"

// understood gives a rendered configuration to the program, once for each of the environments of its pods. What it would find in a pod
// is put into a folder.
func (at paths) understood(config manifest, environments [][]string) error {
	if at.toolgate == "" {
		return errNoProgram
	}
	var problems []error
	for _, environment := range environments {
		problems = append(problems, at.taken(config, environment))
	}
	return errors.Join(problems...)
}

func (at paths) taken(config manifest, environment []string) error {
	folder, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	shown, err := at.configuration(config, folder, environment)
	if err != nil {
		return err
	}
	if strings.Contains(config.Data["toolgate.toml"], `role = "gateway"`) {
		// A gateway has neither workspaces nor rules.
		return when(config.Data["opencode.json"] != "", errors.New("a gateway is given rules"), nil)
	}
	var problems []error
	for _, workspace := range shown.Workspaces {
		if len(workspace.Warnings) > 0 {
			problems = append(problems, fmt.Errorf("workspace %s: %s", workspace.Name, strings.Join(workspace.Warnings, "; ")))
		}
		if len(workspace.OpenCode) == 0 {
			problems = append(problems, fmt.Errorf("workspace %s has no opencode.json", workspace.Name))
		}
	}
	waits := slices.ContainsFunc(environment, func(variable string) bool { return strings.HasPrefix(variable, waiting) })
	if len(shown.Workspaces) == 0 && !waits {
		problems = append(problems, errors.New("there is no workspace"))
	}
	return errors.Join(problems...)
}

// environments returns what the pods with a configuration set for the program, as the kubelet would; one without anything if nobody
// sets anything.
func environments(manifests []manifest, config string) [][]string {
	var found [][]string
	for _, object := range manifests {
		pod, err := podOf(object)
		if pod == nil || err != nil || !mounts(pod, config) {
			continue
		}
		for _, container := range pod.Spec.Containers {
			found = append(found, variables(container.Env, nil))
		}
	}
	if found == nil {
		return [][]string{nil}
	}
	return found
}

func mounts(pod *corev1.PodTemplateSpec, config string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		return volume.ConfigMap != nil && volume.ConfigMap.Name == config
	})
}

// variables returns those of this chart, with what they refer to: each other, and fields of the pod.
func variables(all []corev1.EnvVar, fields map[string]string) []string {
	var set []string
	references := []string{}
	for _, variable := range all {
		value := variable.Value
		if from := variable.ValueFrom; from != nil && from.FieldRef != nil {
			value = cmp.Or(fields[from.FieldRef.FieldPath], "pod-1")
		}
		value = strings.NewReplacer(references...).Replace(value)
		references = append(references, "$("+variable.Name+")", value)
		if strings.HasPrefix(variable.Name, "TOOLGATE_") && variable.Name != "TOOLGATE_CONFIG" {
			set = append(set, variable.Name+"="+value)
		}
	}
	return set
}

// explained is what `toolgate config --json` says.
type explained struct {
	Service    []struct{ Key, Value, Source string }
	Workspaces []struct {
		Name     string
		OpenCode object `json:"opencode"`
		Warnings []string
	}
}

func (at paths) configuration(config manifest, folder string, environment []string) (explained, error) {
	var shown explained
	if err := put(config, folder); err != nil {
		return shown, err
	}
	environment = slices.Clone(environment)
	for index, variable := range environment {
		environment[index] = strings.NewReplacer(
			"=/workspaces/", "="+folder+"/workspaces/", "=/etc/toolgate/", "="+folder+"/etc/",
		).Replace(variable)
	}
	command := exec.Command(at.toolgate, "--json", "--config", filepath.Join(folder, "toolgate.toml"), "config")
	command.Dir = folder
	command.Env = []string{
		"HOME=" + filepath.Join(folder, "home"), "PATH=" + os.Getenv("PATH"), "OPENCODE_DISABLE_PROJECT_CONFIG=1",
		"OPENCODE_CONFIG=" + filepath.Join(folder, "opencode.json"), "DOCS_TOKEN=a-token-of-docs",
	}
	command.Env = append(command.Env, environment...)
	said, err := command.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return shown, fmt.Errorf("%s\n%s", failed.Stderr, config.Data["toolgate.toml"])
		}
		return shown, err
	}
	return shown, json.Unmarshal(said, &shown)
}

// put writes a configuration into a folder, which stands for all folders of a pod, and what has to be there for it to be read.
func put(config manifest, folder string) error {
	text := strings.NewReplacer(
		`"/etc/toolgate/`, `"`+folder+`/etc/`, `"/workspaces/`, `"`+folder+`/workspaces/`, `"/var/lib/toolgate/`, `"`+folder+`/`,
	).Replace(config.Data["toolgate.toml"])
	files := map[string]string{
		"toolgate.toml": text, "etc/audit-key/key": strings.Repeat("k", 32), "etc/search-key/key": "search-key",
		"etc/redact-0/secret": "a-secret-0", "etc/redact-1/secret": "a-secret-1",
		"etc/database/url": "postgres://toolgate:a-password@db.example:5432/toolgate", "etc/outputs/keys": "an-id:a-secret-key",
		"etc/config/workers.toml": config.Data["workers.toml"], "etc/kubernetes/token": "a-token", "etc/webhook/token": "a-token",
		"workspaces/main/README.md": "as it is in the workspace\n", "opencode.json": config.Data["opencode.json"],
	}
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	for line := range strings.Lines(text) {
		if directory, ok := strings.CutPrefix(strings.TrimSpace(line), "directory = "); ok {
			if err := os.MkdirAll(strings.Trim(directory, `"`), 0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkKeys holds the values to the program: every key of its configuration is one that `config` has or the chart decides,
// and every key of `config` is one of the program.
func (at paths) checkKeys(report *report) {
	if at.toolgate == "" {
		report.check("the program's keys are those of the values", errNoProgram)
		return
	}
	manifests, _, err := at.render(filepath.Join(at.tests, "values", "tokens.yaml"))
	if err != nil {
		report.check("the values' keys are those of the program", err)
		return
	}
	folder, err := os.MkdirTemp("", "chart-")
	if err != nil {
		report.check("there is a folder for the configuration", err)
		return
	}
	defer os.RemoveAll(folder)
	index := slices.IndexFunc(manifests, func(one manifest) bool { return one.Data["toolgate.toml"] != "" })
	shown, err := at.configuration(manifests[index], folder, nil)
	if err != nil {
		report.check("the program says what it is configured with", err)
		return
	}
	ours, err := at.schemaKeys()
	report.check("the schema of the values can be read", err)
	isDecided := func(key string) bool {
		return slices.ContainsFunc(decided, func(start string) bool { return strings.HasPrefix(key, start) })
	}
	var theirs []string
	for _, setting := range shown.Service {
		theirs = append(theirs, setting.Key)
		report.check("the values have the key "+setting.Key,
			when(!isDecided(setting.Key) && !slices.Contains(ours, setting.Key), errors.New("it is missing in values.schema.json"), nil))
	}
	for _, key := range ours {
		report.check("the program has the key "+key, when(!slices.Contains(theirs, key), errors.New("it has not"), nil))
	}
}

// schemaKeys returns the keys under `config`, as the program writes them.
func (at paths) schemaKeys() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(at.chart, "values.schema.json"))
	if err != nil {
		return nil, err
	}
	var schema struct{ Properties map[string]object }
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, err
	}
	var keys []string
	var walk func(path string, of object)
	walk = func(path string, of object) {
		properties, ok := of["properties"].(object)
		if !ok {
			keys = append(keys, path)
			return
		}
		for key, inner := range properties {
			walk(strings.TrimPrefix(path+"."+key, "."), inner.(object))
		}
	}
	walk("", schema.Properties["config"])
	return keys, nil
}
