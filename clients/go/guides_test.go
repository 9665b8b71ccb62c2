package toolgate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestTheProgramsOfTheGuidesWork(t *testing.T) {
	server := startServer(t)
	guides, err := filepath.Glob("../../docs/guides/*.md")
	check(t, err)
	programs := 0
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		check(t, err)
		// A program, and what the page says that it prints.
		blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$.*?^```text\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
		for _, block := range blocks {
			programs++
			expect(t, filepath.Base(guide), runProgram(t, server, block[1], ""), block[2])
		}
	}
	expect(t, "whether there are programs", programs >= 8, true)
}
