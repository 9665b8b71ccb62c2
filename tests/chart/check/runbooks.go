package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Where the runbooks are, from the top of the repository.
const runbookPage = "docs/operate/runbooks.md"

// runbook is what is said of an alert.
type runbook struct {
	text   string
	isUsed bool
}

// What each of them has, in this order.
var bookParts = []string{"**It means**", "**Users notice**", "**Look at**", "**Do**"}

var (
	alertHeading = regexp.MustCompile(`(?m)^### (Toolgate\w+)$`)
	anyHeading   = regexp.MustCompile(`(?m)^#+ `)
	quoted       = regexp.MustCompile("`([^`]+)`")
	ourCommand   = regexp.MustCompile(`^toolgate ([a-z]+)(?: ([a-z]+))?(.*)$`)
	ourOption    = regexp.MustCompile(`--[a-z][a-z-]+`)
	ourMetric    = regexp.MustCompile(`^(toolgate_[a-z_]+)`)
)

// runbooks returns the sections of the page that are called after alerts.
func (at paths) runbooks() (map[string]*runbook, error) {
	text, err := os.ReadFile(filepath.Join(at.tests, "..", "..", filepath.FromSlash(runbookPage)))
	if err != nil {
		return nil, err
	}
	page := string(text)
	books := map[string]*runbook{}
	for _, place := range alertHeading.FindAllStringSubmatchIndex(page, -1) {
		name, rest := page[place[2]:place[3]], page[place[1]:]
		if end := anyHeading.FindStringIndex(rest); end != nil {
			rest = rest[:end[0]]
		}
		if books[name] != nil {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		books[name] = &runbook{text: rest}
	}
	return books, when(len(books) == 0, errors.New("there are none"), nil)
}

// checkRunbook holds a runbook to its parts, and to the commands and metrics that there are.
func (at paths) checkRunbook(text string, metrics map[string][]string) error {
	var problems []error
	place := 0
	for _, part := range bookParts {
		found := strings.Index(text[place:], part)
		if found < 0 {
			problems = append(problems, fmt.Errorf("it does not say %q, or not in its place", part))
			continue
		}
		place += found
	}
	for _, one := range quoted.FindAllStringSubmatch(text, -1) {
		if parts := ourCommand.FindStringSubmatch(one[1]); parts != nil {
			problems = append(problems, at.checkCommand(parts[1], parts[2], parts[3]))
		} else if parts := ourMetric.FindStringSubmatch(one[1]); parts != nil && metrics[parts[1]] == nil && metrics[parts[1]+"_bucket"] == nil {
			problems = append(problems, fmt.Errorf("there is no metric %s", parts[1]))
		}
	}
	return errors.Join(problems...)
}

// checkCommand asks the program for the help of a command, which names its options. The second word may be one, or an argument.
func (at paths) checkCommand(command, second, rest string) error {
	if at.toolgate == "" {
		return errNoProgram
	}
	help, err := exec.Command(at.toolgate, command, "--help").Output()
	if err != nil {
		return fmt.Errorf("there is no command toolgate %s", command)
	}
	if second != "" {
		if more, err := exec.Command(at.toolgate, command, second, "--help").Output(); err == nil {
			help = more
		}
	}
	for _, option := range ourOption.FindAllString(rest, -1) {
		if !strings.Contains(string(help), option) {
			return fmt.Errorf("toolgate %s has no option %s", command, option)
		}
	}
	return nil
}
