package leaktest

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

// listVar names the file in which package need lists what was skipped. It is the one variable of ours that tests inherit.
const listVar = "MILLRACE_NEEDS"

// isolate keeps what the caller has exported from deciding whether tests pass. Flags of millrace that are set in the
// environment, limits and listeners of a service manager are unset, proxies are not asked for this machine's addresses,
// and TMPDIR is a new directory, which isolate returns.
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
	return dir, os.Setenv("TMPDIR", dir)
}

// files lists what is in the directory for temporary files; empty if nothing is. A process that looks for inputs of a fuzz
// test is ended in the middle of one.
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
		fmt.Fprintf(&b, "leaktest: a temporary file is left: %s\n", e.Name())
	}
	return b.String()
}
