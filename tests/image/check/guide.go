package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

var (
	fences = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")
	links  = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
)

// checkGuide holds the page about containers to what is there: its Dockerfiles can be converted, its YAML can be read, its
// programs are where the image has them, and its links lead to files.
func (at paths) checkGuide(chart chart) error {
	path := filepath.Join(at.repository, "docs/operate/container.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var problems []error
	for _, fence := range fences.FindAllStringSubmatch(string(text), -1) {
		language, block := fence[1], fence[2]
		switch language {
		case "dockerfile":
			_, err = convert([]byte(block), "")
		case "yaml":
			err = yaml.UnmarshalStrict([]byte(block), &map[string]any{})
		case "sh":
			err = nil
		default:
			err = errors.New("nobody looks at it")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("docs/operate/container.md, `%s`: %w", language, err))
		}
	}
	for _, link := range links.FindAllStringSubmatch(string(text), -1) {
		_, err := os.Stat(filepath.Join(filepath.Dir(path), link[1]))
		problems = append(problems, err)
	}
	command := "command: [" + strings.Join(chart.Toolbox.CopyCommand, ", ") + "]"
	problems = append(problems, wrong(strings.Contains(string(text), command), "docs/operate/container.md has no line `%s`", command))
	return errors.Join(problems...)
}
