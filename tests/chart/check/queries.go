package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var language = parser.NewParser(parser.Options{})

// Labels that scraping adds.
var scraped = []string{labels.MetricName, "namespace", "pod", "job", "instance"}

// checkQueries holds the queries of the alerts and of the dashboards to the language, and to the metrics that there are.
func (at paths) checkQueries(report *report) {
	metrics, err := at.metrics()
	report.check("the metrics can be read", err)
	at.checkAlerts(report, "alerts.yaml", "operations.md", metrics)
	at.checkAlerts(report, "alerts-cluster.yaml", "kubernetes.md", metrics)
	at.checkDashboard(report, "dashboard.json", metrics)
	at.checkDashboard(report, "dashboard-cluster.json", metrics)
}

// checkAlerts looks at the alerts of a file, each of which a page must name.
func (at paths) checkAlerts(report *report, file, page string, metrics map[string][]string) {
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
	guide, err := os.ReadFile(filepath.Join(at.tests, "..", "..", "docs", "operate", page))
	report.check("the guide can be read", err)
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			report.check("alert "+rule.Alert, checkQuery(rule.Expr, metrics))
			named := strings.Contains(string(guide), "`"+rule.Alert+"`")
			report.check("alert "+rule.Alert+" is in the guide", when(!named, errors.New("it is not"), nil))
			complete := rule.Labels["severity"] != "" && rule.Annotations["summary"] != "" && rule.Annotations["description"] != ""
			report.check("alert "+rule.Alert+" says what to do", when(!complete, errors.New("severity, summary or description is missing"), nil))
		}
	}
}

func (at paths) checkDashboard(report *report, file string, metrics map[string][]string) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(filepath.Join(at.chart, "files", file))
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	report.check(file+" can be read", when(len(board.Panels) == 0, errors.New("it is empty"), err))
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			expression := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			report.check("panel "+panel.Title, checkQuery(expression, metrics))
		}
	}
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
