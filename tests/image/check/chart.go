package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// chart is what the Helm chart expects of the images.
type chart struct {
	AppVersion string
	Toolbox    struct{ CopyCommand []string }
	Security   struct{ RunAsUser, RunAsGroup, FSGroup int }
}

// checkChart holds the chart's values and templates to what the images have.
func (at paths) checkChart(report *report, images images) (chart, error) {
	var chart chart
	folder := filepath.Join(at.repository, "helm/toolgate")
	for _, name := range []string{"values.yaml", "Chart.yaml"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return chart, err
		}
		if err := yaml.Unmarshal(text, &chart); err != nil {
			return chart, fmt.Errorf("%s: %w", name, err)
		}
	}
	version, err := at.version()
	if err != nil {
		return chart, err
	}
	report.check("the chart installs this version", wrong(chart.AppVersion == version, "it installs %q, and this is %q", chart.AppVersion, version))
	for target, image := range images {
		user := fmt.Sprintf("%d:%d", chart.Security.RunAsUser, chart.Security.RunAsGroup)
		report.check("the chart's user is that of the image "+target, errors.Join(
			wrong(image.User == user, "the image has %s, the chart %s", image.User, user),
			wrong(chart.Security.FSGroup == chart.Security.RunAsGroup, "the volumes have the group %d", chart.Security.FSGroup),
		))
	}
	command := chart.Toolbox.CopyCommand
	report.check("the chart copies the program by itself, for an image that has nothing else", wrong(
		slices.Equal(command, []string{program, "install", "/opt/toolgate/toolgate"}), "toolbox.copyCommand is %q", command,
	))
	text, err := os.ReadFile(filepath.Join(folder, "templates/_pod.tpl"))
	if err != nil {
		return chart, err
	}
	report.check("the chart starts the program where it is, and mounts what it writes", checkPod(string(text)))
	return chart, nil
}

func checkPod(template string) error {
	var problems []error
	for _, line := range []string{"command: [" + program + "]", `args: [{{ .command | default "serve" }}]`, "value: /home/toolgate"} {
		problems = append(problems, wrong(strings.Contains(template, line), "templates/_pod.tpl has no line `%s`", line))
	}
	for _, folder := range []string{"/tmp", "/home/toolgate", "/var/lib/toolgate", "/run/toolgate"} {
		mount := regexp.MustCompile(`mountPath: ` + regexp.QuoteMeta(folder) + `\n`)
		problems = append(problems, wrong(mount.MatchString(template), "templates/_pod.tpl does not mount %s", folder))
	}
	return errors.Join(problems...)
}
