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
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	blocks   = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	examples = regexp.MustCompile("`(?:tests/chart/values/)?([a-z-]+)\\.yaml`")
)

// checkGuide holds the guides to what is there: files that they lead to, headings, examples, and YAML that can be read. What are values
// for the chart is rendered.
func (at paths) checkGuide(report *report) {
	for _, page := range []string{"operations.md", "kubernetes.md", "runbooks.md"} {
		at.checkPage(report, filepath.Join(at.tests, "..", "..", "docs", "operate", page))
	}
}

func (at paths) checkPage(report *report, path string) {
	text, err := os.ReadFile(path)
	report.check("the guide is there", err)
	guide := string(text)
	for _, link := range links.FindAllStringSubmatch(guide, -1) {
		if strings.Contains(link[1], "://") {
			continue
		}
		report.check("the link "+link[1], leads(guide, filepath.Dir(path), link[1]))
	}
	for index, block := range blocks.FindAllStringSubmatch(guide, -1) {
		name := fmt.Sprintf("YAML %d of %s", index+1, filepath.Base(path))
		report.check(name, yaml.UnmarshalStrict([]byte(block[1]), &object{}))
		if strings.HasPrefix(block[1], "mode:") {
			report.check(name+" is what the chart takes", at.takes(block[1]))
		}
	}
	for _, example := range examples.FindAllStringSubmatch(guide, -1) {
		_, err := os.Stat(filepath.Join(at.tests, "values", example[1]+".yaml"))
		report.check("the example "+example[1], err)
	}
}

func (at paths) takes(values string) error {
	file, err := os.CreateTemp("", "chart-*.yaml")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(values)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	_, _, err = at.render(file.Name())
	return err
}

func leads(guide, folder, link string) error {
	file, heading, _ := strings.Cut(link, "#")
	if file != "" {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			return err
		}
		guide = string(text)
	}
	for line := range strings.Lines(guide) {
		if title := strings.TrimLeft(line, "#"); title != line && anchor(title) == heading {
			return nil
		}
	}
	return when(heading != "", errors.New("there is no such heading"), nil)
}

// anchor returns what a heading is called in links.
func anchor(title string) string {
	kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
	return strings.ReplaceAll(kept, " ", "-")
}
