package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// As Grafana has it.
var values = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

var language = parser.NewParser(parser.Options{})

// Labels that scraping adds.
var scraped = []string{labels.MetricName, "namespace", "pod", "job", "instance"}

// checkQueries holds the queries of the alerts and of the dashboards to the language, and to the metrics that there are.
func (at paths) checkQueries(report *report) {
	metrics, err := at.metrics()
	report.check("the metrics can be read", err)
	runbooks, err := at.runbooks()
	report.check("the runbooks can be read", err)
	for _, file := range at.files(report, "alerts*.yaml", 5) {
		at.checkAlerts(report, file, runbooks, metrics)
	}
	for _, file := range at.files(report, "dashboard*.json", 2) {
		at.checkDashboard(report, file, metrics)
	}
	for alert, book := range runbooks {
		report.check("the runbook "+alert+" is of an alert", when(!book.isUsed, errors.New("there is no such alert"), nil))
		report.check("the runbook "+alert, at.checkRunbook(book.text, metrics))
	}
}

// files returns the names of the chart's files that look so.
func (at paths) files(report *report, pattern string, least int) []string {
	found, err := filepath.Glob(filepath.Join(at.chart, "files", pattern))
	report.check("there are files "+pattern, when(len(found) < least, fmt.Errorf("found %d", len(found)), err))
	for index, file := range found {
		found[index] = filepath.Base(file)
	}
	return found
}

// checkAlerts looks at the alerts of a file, each of which has a runbook.
func (at paths) checkAlerts(report *report, file string, runbooks map[string]*runbook, metrics map[string][]string) {
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(at.chart, "files", file))
	if err == nil {
		err = yaml.Unmarshal(text, &alerts)
	}
	report.check(file+" can be read", when(len(alerts.Groups) == 0, errors.New("there are none"), err))
	_, problems := rulefmt.Parse(text, false, model.UTF8Validation, language, slog.Default())
	report.check("Prometheus takes "+file+", and what it says", errors.Join(problems...))
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			report.check("alert "+rule.Alert, checkQuery(rule.Expr, metrics))
			book := runbooks[rule.Alert]
			report.check("alert "+rule.Alert+" has a runbook", when(book == nil, errors.New("it has not"), nil))
			if book != nil {
				book.isUsed = true
			}
			named := rule.Annotations["runbook"]
			wrong := named != "" && named != runbookPage+"#"+anchor(rule.Alert)
			report.check("alert "+rule.Alert+" leads to its runbook", when(wrong, errors.New(named), nil))
			complete := rule.Labels["severity"] != "" && rule.Annotations["summary"] != "" && rule.Annotations["description"] != ""
			report.check("alert "+rule.Alert+" says what to do", when(!complete, errors.New("severity, summary or description is missing"), nil))
		}
	}
}

func (at paths) checkDashboard(report *report, file string, metrics map[string][]string) {
	type panel struct {
		Title   string
		Targets []struct{ Expr string }
		Panels  []panel
	}
	var board struct {
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	text, err := os.ReadFile(filepath.Join(at.chart, "files", file))
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	report.check(file+" can be read", when(len(board.Panels) == 0, errors.New("it is empty"), err))
	for _, variable := range board.Templating.List {
		if variable.Definition != "" {
			report.check("variable "+variable.Name, checkVariable(variable.Definition, metrics))
		}
	}
	for len(board.Panels) > 0 {
		panel := board.Panels[0]
		// A row that is closed has panels of its own.
		board.Panels = append(board.Panels[1:], panel.Panels...)
		for _, target := range panel.Targets {
			expression := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			report.check("panel "+panel.Title, checkQuery(expression, metrics))
		}
	}
}

// checkVariable holds the values that a dashboard can be limited to to the metrics that there are.
func checkVariable(text string, metrics map[string][]string) error {
	parts := values.FindStringSubmatch(text)
	if parts == nil {
		return fmt.Errorf("%q is not label_values(QUERY, LABEL)", text)
	}
	return checkQuery("count by ("+parts[2]+") ("+parts[1]+")", metrics)
}

// metrics returns the labels of each metric, of services and of gateways.
func (at paths) metrics() (map[string][]string, error) {
	metrics := map[string][]string{}
	for _, file := range []string{"metrics.txt", "gateway-metrics.txt"} {
		text, err := os.ReadFile(filepath.Join(at.tests, file))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) > 0 && !strings.HasPrefix(line, "#") {
				metrics[fields[0]] = fields[1:]
			}
		}
	}
	return metrics, nil
}

func checkQuery(text string, metrics map[string][]string) error {
	query, err := language.ParseExpr(text)
	if err != nil {
		return fmt.Errorf("%w in %s", err, text)
	}
	var problems []error
	var asked []string
	parser.Inspect(query, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			known, there := metrics[selector.Name]
			if !there {
				problems = append(problems, fmt.Errorf("there is no metric %s", selector.Name))
			}
			asked = append(asked, known...)
			for _, matcher := range selector.LabelMatchers {
				if !slices.Contains(known, matcher.Name) && !slices.Contains(scraped, matcher.Name) {
					problems = append(problems, fmt.Errorf("%s has no label %s", selector.Name, matcher.Name))
				}
			}
		}
		return nil
	})
	parser.Inspect(query, func(node parser.Node, _ []parser.Node) error {
		if sum, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range sum.Grouping {
				if !slices.Contains(asked, label) && !slices.Contains(scraped, label) {
					problems = append(problems, fmt.Errorf("nothing has the label %s", label))
				}
			}
		}
		return nil
	})
	return errors.Join(problems...)
}
