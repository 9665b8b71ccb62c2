package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// probe tries, in a box and as its user, to write everywhere. It prints the folders that take a file, and the files that
// can be written, as JSON.
func probe() error {
	writable := []string{}
	err := filepath.WalkDir("/", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission):
			return fs.SkipDir
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		case path == "/proc":
			return fs.SkipDir
		case entry.IsDir() && takesFile(path):
			writable = append(writable, path)
			return fs.SkipDir
		case entry.Type().IsRegular() && opens(path):
			writable = append(writable, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(writable)
}

func takesFile(folder string) bool {
	file, err := os.CreateTemp(folder, "probe-")
	if err != nil {
		return false
	}
	_ = file.Close()
	return os.Remove(file.Name()) == nil
}

func opens(path string) bool {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	return err == nil && file.Close() == nil
}
