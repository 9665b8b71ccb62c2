// Command check looks at the images of the service without a container engine. It reads the Dockerfile with BuildKit's own
// parser, rules and conversion, compares it with the Helm chart, and runs the service in root file systems that the
// image's own script made, as what the Dockerfile says and under the restrictions of a strict engine.
package main

import (
	"flag"
	"fmt"
	"os"
)

// paths says where everything is.
type paths struct {
	repository string // the sources
	program    string // the service's program, static
	grpcurl    string // the client outside
	work       string // a folder for root file systems and volumes, emptied first
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "inside":
			end(inside(os.Args[2]))
		case "probe":
			end(probe())
		case "try":
			end(try())
		}
	}
	var at paths
	flag.StringVar(&at.repository, "repository", ".", "the sources")
	flag.StringVar(&at.program, "program", "", "the service's program, static")
	flag.StringVar(&at.grpcurl, "grpcurl", "grpcurl", "grpcurl")
	flag.StringVar(&at.work, "work", "", "a folder to work in; what is there is removed")
	flag.Parse()
	report := &report{}
	at.run(report)
	fmt.Printf("%d checks, %d failed\n", report.checks, report.failed)
	if report.failed > 0 {
		os.Exit(1)
	}
}

func (at paths) run(report *report) {
	images, err := at.checkDockerfile(report)
	report.check("the Dockerfile can be converted", err)
	if err != nil {
		return
	}
	chart, err := at.checkChart(report, images)
	report.check("the chart can be read", err)
	if err != nil {
		return
	}
	report.check("the page about containers is right", at.checkGuide(chart))
	report.check("the service runs in its images", at.checkService(report, images, chart))
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

// wrong returns an error unless the condition holds.
func wrong(holds bool, format string, arguments ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, arguments...)
}

// end ends the program, with what went wrong if anything did.
func end(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "check:", err)
	os.Exit(1)
}
