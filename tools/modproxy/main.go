// Command modproxy writes modules of this repository into a directory in the layout of a module
// proxy, for GOPROXY=file://DIR:
//
//	modproxy DIR VERSION REVISION MODULE...
//
// MODULE is the directory of a module, relative to the current directory, which is the root of the
// repository; "." is the library. The output has the same bytes that a proxy would serve for
// REVISION.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const root = "github.com/millrace-io/millrace"

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "modproxy: want DIR VERSION REVISION MODULE...")
		os.Exit(2)
	}
	for _, name := range os.Args[4:] {
		if err := write(os.Args[1], os.Args[2], os.Args[3], name); err != nil {
			fmt.Fprintf(os.Stderr, "modproxy: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func write(dir, version, revision, name string) error {
	m := module.Version{Path: path.Join(root, name), Version: version}
	dir = filepath.Join(dir, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mod, err := exec.Command("git", "show", revision+":"+path.Join(name, "go.mod")).Output()
	if err != nil {
		return fmt.Errorf("git show: %w", err)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	for file, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	defer f.Close()
	subdir := name
	if name == "." {
		subdir = ""
	}
	if err := zip.CreateFromVCS(f, m, ".", revision, subdir); err != nil {
		return err
	}
	return f.Close()
}
