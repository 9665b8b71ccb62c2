package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// standIn puts a shell into a root file system: this machine's own, with a few programs and the libraries that they load.
// It stands for the distribution that the image is made from, whose packages are not to be had here.
func standIn(root string) error {
	loaded := regexp.MustCompile(`(/\S+) \(0x`)
	for _, name := range []string{"bash", "cat", "ls", "sleep"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
		said, err := exec.Command("ldd", path).Output()
		if err != nil {
			return fmt.Errorf("ldd %s: %w", path, err)
		}
		for _, library := range loaded.FindAllStringSubmatch(string(said), -1) {
			if err := copyFile(library[1], filepath.Join(root, library[1])); err != nil {
				return err
			}
		}
		if err := copyFile(path, filepath.Join(root, "usr/bin", name)); err != nil {
			return err
		}
	}
	return errors.Join(os.Symlink("usr/bin", filepath.Join(root, "bin")), os.Symlink("bash", filepath.Join(root, "usr/bin/sh")))
}
