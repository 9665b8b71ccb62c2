package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// checkRefusals renders what must not be installed, and reads what Helm says of it.
func (at paths) checkRefusals(report *report) {
	files, err := filepath.Glob(filepath.Join(at.tests, "refused*.yaml"))
	report.check("there are cases to be refused", when(len(files) < 2, errors.New("files are missing"), err))
	for _, file := range files {
		at.checkRefusalsOf(report, file)
	}
}

func (at paths) checkRefusalsOf(report *report, path string) {
	var file struct {
		Base  object
		Cases []struct {
			Set  object
			Says string
		}
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &file)
	}
	report.check("the cases to be refused can be read", when(len(file.Cases) < 20, errors.New("they are few"), err))
	folder, err := os.MkdirTemp("", "chart-")
	if err != nil {
		report.check("there is a folder for cases", err)
		return
	}
	defer os.RemoveAll(folder)
	base := filepath.Join(folder, "base.yaml")
	report.check("what cases are built on is accepted", at.accepted(base, file.Base))
	for index, one := range file.Cases {
		shown, _ := yaml.Marshal(one.Set)
		name := fmt.Sprintf("%s: case %d is refused (%s)", filepath.Base(path), index+1, strings.Join(strings.Fields(string(shown)), " "))
		report.check(name, at.refused(base, filepath.Join(folder, "set.yaml"), one.Set, one.Says))
	}
}

func (at paths) accepted(path string, values object) error {
	text, err := yaml.Marshal(values)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	_, _, err = at.render(path)
	return err
}

func (at paths) refused(base, path string, values object, says string) error {
	text, err := yaml.Marshal(values)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	_, _, err = at.render(base, path)
	switch {
	case err == nil:
		return errors.New("it was accepted")
	case !strings.Contains(err.Error(), says):
		return fmt.Errorf("%q is not in: %s", says, err)
	default:
		return nil
	}
}
