// Command check looks at what the chart makes: it renders the value files and holds the manifests to the schemas of
// Kubernetes, to the restricted pod security standard and to the program itself, and it renders what must be refused.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// paths says where everything is.
type paths struct {
	chart    string // the chart
	tests    string // value files, cases and the list of metrics
	schemas  string // schemas of Kubernetes, a folder for each version
	helm     string // Helm's program
	toolgate string // the service's program
	postgres string // the folder of PostgreSQL's programs
	out      string // where rendered manifests are left
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "schemas" {
		if err := writeSchemas(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "check:", err)
			os.Exit(1)
		}
		return
	}
	var at paths
	flag.StringVar(&at.chart, "chart", "helm/toolgate", "the chart")
	flag.StringVar(&at.tests, "tests", "tests/chart", "the folder of value files")
	flag.StringVar(&at.schemas, "schemas", "", "the folder of schemas")
	flag.StringVar(&at.helm, "helm", "helm", "Helm's program")
	flag.StringVar(&at.toolgate, "toolgate", "", "the service's program")
	flag.StringVar(&at.postgres, "postgres", "", "the folder of PostgreSQL's programs")
	flag.StringVar(&at.out, "out", "", "where to leave rendered manifests")
	flag.Parse()
	report := &report{}
	at.run(report)
	fmt.Printf("%d checks, %d failed\n", report.checks, report.failed)
	if report.failed > 0 {
		os.Exit(1)
	}
}

func (at paths) run(report *report) {
	files, err := filepath.Glob(filepath.Join(at.tests, "values", "*.yaml"))
	report.check("there are ten value files or more", when(len(files) < 10, fmt.Errorf("found %d", len(files)), err))
	schemas, err := openSchemas(at.schemas)
	report.check("there are schemas of two versions of Kubernetes", err)
	for _, file := range files {
		at.checkValues(report, file, schemas)
	}
	at.checkRefusals(report)
	at.checkQueries(report)
	at.checkGuide(report)
	at.checkKeys(report)
	at.checkServes(report)
	at.checkFleet(report)
	at.checkChecks(report, schemas)
	// A chart of somebody else's, with this one in it.
	agent := at
	agent.chart = filepath.Join(at.tests, "agent")
	agent.checkValues(report, filepath.Join(agent.chart, "values.yaml"), schemas)
}

// report counts what was checked and prints what failed.
type report struct{ checks, failed int }

func (r *report) check(name string, err error) {
	r.checks++
	if err != nil {
		r.failed++
		fmt.Printf("FAILED %s: %v\n", name, err)
	}
}

// when returns err, or problem if the condition holds.
func when(condition bool, problem, err error) error {
	if err == nil && condition {
		return problem
	}
	return err
}

var errNoProgram = errors.New("no program of the service: set TOOLGATE_BIN")
