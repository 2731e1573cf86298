package leaktest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// listVar is the name of an environment variable. The variable contains the name of the file for
// the list of skipped tests (see package internal/testkit/need). Tests inherit no other variable of
// Millrace.
const listVar = "MILLRACE_NEEDS"

// isolate makes the tests independent of the caller's environment. It unsets the variables of
// Millrace, of a service manager and of the runtime's memory limit. It disables proxies for this
// machine's addresses. It sets TMPDIR to a new directory, which it returns. If HOME is not a
// directory, it sets HOME to a new directory in TMPDIR.
func isolate() (dir string, err error) {
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "MILLRACE_") && name != listVar,
			name == "GOMEMLIMIT", name == "NOTIFY_SOCKET", strings.HasPrefix(name, "LISTEN_"):
			_ = os.Unsetenv(name)
		}
	}
	for _, name := range []string{"no_proxy", "NO_PROXY"} {
		_ = os.Setenv(name, "localhost,127.0.0.1,::1")
	}
	if dir, err = os.MkdirTemp("", "test"); err != nil {
		return "", err
	}
	if err = os.Chmod(dir, 0o711); err != nil { // for servers that change their user
		return "", err
	}
	// GStreamer complains about a missing HOME.
	if home, err := os.Stat(os.Getenv("HOME")); err != nil || !home.IsDir() {
		if err := os.Setenv("HOME", filepath.Join(dir, homeName)); err != nil {
			return "", err
		}
		if err := os.Mkdir(os.Getenv("HOME"), 0o755); err != nil {
			return "", err
		}
	}
	return dir, os.Setenv("TMPDIR", dir)
}

const homeName = "home"

// files lists the temporary files in dir. During fuzzing, it returns "", because fuzzing ends by
// killing its worker processes, and a killed process cannot remove its files.
func files(dir string) string {
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		return ""
	}
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		fmt.Fprintf(&b, "leaktest: %v\n", err)
	}
	for _, e := range entries {
		if e.Name() == homeName {
			continue
		}
		fmt.Fprintf(&b, "leaktest: a temporary file is left: %s\n", e.Name())
	}
	return b.String()
}
