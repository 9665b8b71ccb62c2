package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/opencontainers/go-digest"
)

// The targets of the Dockerfile; the last is made when none is named.
const (
	alone     = "toolgate"
	workspace = "workspace"
)

// Where the program is in every image.
const program = "/usr/local/bin/toolgate"

// images are the configurations of the images, by target.
type images map[string]dockerspec.DockerOCIImageConfig

// blank stands for every image that is built on.
type blank struct{}

func (blank) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config := []byte(`{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/usr/local/bin:/usr/bin:/bin"],"User":"root"}}`)
	return ref, digest.FromBytes(config), config, nil
}

// checkDockerfile applies BuildKit's rules and our own, and returns what the images would be.
func (at paths) checkDockerfile(report *report) (images, error) {
	text, err := os.ReadFile(filepath.Join(at.repository, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	report.check("BuildKit has nothing to say against the Dockerfile", lint(text))
	stages, err := stagesOf(text)
	if err != nil {
		return nil, err
	}
	report.check("the image that is made by default is a place to work in", wrong(stages[len(stages)-1].Name == workspace, "it is %q", stages[len(stages)-1].Name))
	report.check("what the Dockerfile copies is there, and is sent to the builder", at.checkContext(stages))
	report.check("nothing else is sent to the builder", at.checkIgnored())
	version, err := at.version()
	if err != nil {
		return nil, err
	}
	images := images{}
	for _, target := range []string{alone, workspace} {
		config, err := convert(text, target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", target, err)
		}
		images[target] = config
		report.check("the image "+target+" is configured as it should be", checkConfig(config, version))
	}
	return images, nil
}

// convert returns the configuration of the image that a Dockerfile makes.
func convert(text []byte, target string) (dockerspec.DockerOCIImageConfig, error) {
	result, err := dockerfile2llb.Dockerfile2LLB(context.Background(), text, dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{Target: target}, MetaResolver: blank{},
	})
	if err != nil {
		return dockerspec.DockerOCIImageConfig{}, err
	}
	return result.Image.Config, nil
}

func lint(text []byte) error {
	source := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", text)
	source.Definition = &llb.Definition{}
	result, err := dockerfile2llb.DockerfileLint(context.Background(), text, dockerfile2llb.ConvertOpt{MetaResolver: blank{}, SourceMap: source})
	if err != nil {
		return err
	}
	var problems []error
	for _, warning := range result.Warnings {
		problems = append(problems, fmt.Errorf("%s: %s", warning.RuleName, warning.Detail))
	}
	if result.Error != nil {
		problems = append(problems, errors.New(result.Error.Message))
	}
	return errors.Join(problems...)
}

func stagesOf(text []byte) ([]instructions.Stage, error) {
	file, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	stages, _, err := instructions.Parse(file.AST, nil)
	if err == nil && len(stages) == 0 {
		err = errors.New("there is no stage")
	}
	return stages, err
}

// unpack writes into a folder what the Dockerfile has in its folder /image: files that stand in it, and the licence.
func (at paths) unpack(folder string) error {
	text, err := os.ReadFile(filepath.Join(at.repository, "Dockerfile"))
	if err != nil {
		return err
	}
	stages, err := stagesOf(text)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(at.repository, "LICENSE"))
	if err != nil {
		return err
	}
	files := map[string]string{"/image/LICENSE": string(licence)}
	for _, stage := range stages {
		for _, command := range stage.Commands {
			if copied, is := command.(*instructions.CopyCommand); is && len(copied.SourceContents) == 1 {
				files[copied.DestPath] = copied.SourceContents[0].Data
			}
		}
	}
	for name, text := range files {
		path := filepath.Join(folder, strings.TrimPrefix(name, "/image/"))
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755))
		if err != nil {
			return err
		}
	}
	return nil
}

func (at paths) ignored() (*patternmatcher.PatternMatcher, error) {
	file, err := os.Open(filepath.Join(at.repository, ".dockerignore"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return patternmatcher.New(patterns)
}

// checkContext looks at every file that an instruction takes from the sources.
func (at paths) checkContext(stages []instructions.Stage) error {
	ignored, err := at.ignored()
	if err != nil {
		return err
	}
	var problems []error
	for _, stage := range stages {
		for _, command := range stage.Commands {
			switch command := command.(type) {
			case *instructions.AddCommand:
				problems = append(problems, fmt.Errorf("`%s`: COPY says what it does", command))
			case *instructions.CopyCommand:
				if command.From != "" {
					continue
				}
				for _, source := range command.SourcePaths {
					problems = append(problems, at.checkSource(source, ignored))
				}
			}
		}
	}
	return errors.Join(problems...)
}

func (at paths) checkSource(source string, ignored *patternmatcher.PatternMatcher) error {
	return filepath.WalkDir(filepath.Join(at.repository, source), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(at.repository, path)
		if err != nil {
			return err
		}
		left, err := ignored.MatchesOrParentMatches(name)
		if err == nil && left {
			err = fmt.Errorf("%s is copied, and .dockerignore leaves it out", name)
		}
		return err
	})
}

func (at paths) checkIgnored() error {
	ignored, err := at.ignored()
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range []string{".git/config", "target/debug/toolgate", ".env", "id_ed25519", "tests/run.sh", "clients/go/go.mod", "toolgate.toml"} {
		left, err := ignored.MatchesOrParentMatches(name)
		problems = append(problems, err, wrong(left, "%s would be sent", name))
	}
	return errors.Join(problems...)
}

// version returns that of the program's sources.
func (at paths) version() (string, error) {
	text, err := os.ReadFile(filepath.Join(at.repository, "Cargo.toml"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^version = "(.*)"$`).FindSubmatch(text)
	if found == nil {
		return "", errors.New("Cargo.toml has no version")
	}
	return string(found[1]), nil
}

var numeric = regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`)

func checkConfig(config dockerspec.DockerOCIImageConfig, version string) error {
	test := []string(nil)
	if config.Healthcheck != nil {
		test = config.Healthcheck.Test
	}
	return errors.Join(
		wrong(numeric.MatchString(config.User), "USER is %q: a cluster that wants no root must see a number", config.User),
		wrong(slices.Equal(config.Entrypoint, []string{program}), "ENTRYPOINT is %q", config.Entrypoint),
		wrong(slices.Equal(config.Cmd, []string{"serve"}), "CMD is %q", config.Cmd),
		wrong(config.StopSignal == "SIGTERM", "STOPSIGNAL is %q", config.StopSignal),
		wrong(len(config.Volumes) == 0, "VOLUME is %v", config.Volumes),
		wrong(len(test) > 1 && test[0] == "CMD" && test[1] == program, "HEALTHCHECK is %q, which wants a shell", test),
		wrong(config.WorkingDir == "/workspace", "WORKDIR is %q", config.WorkingDir),
		wrong(slices.ContainsFunc(config.Env, func(one string) bool { return strings.HasPrefix(one, "PATH=/") }), "there is no PATH in %q", config.Env),
		wrong(!slices.ContainsFunc(config.Env, func(one string) bool { return strings.HasPrefix(one, "TOOLGATE_") }), "a variable of %q is stronger than a configuration file that is mounted", config.Env),
		wrong(config.Labels["org.opencontainers.image.version"] == version, "the label of the version is %q, the program's is %q", config.Labels["org.opencontainers.image.version"], version),
		wrong(config.Labels["org.opencontainers.image.licenses"] == "Apache-2.0", "the label of the licence is %q", config.Labels["org.opencontainers.image.licenses"]),
	)
}
