package nettest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever TMPDIR is, a Unix socket can be in the directory, and its path needs no quotes.
func TestPlainDir(t *testing.T) {
	for _, name := range []string{
		"plain", "with spaces", `of"quotes'`, "of;signs$", strings.Repeat("long", 30), "größer",
	} {
		parent := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(parent, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", parent)
		dir := PlainDir(t)
		if strings.ContainsAny(dir, " \"';$") {
			t.Errorf("the directory in %s is %s", parent, dir)
		}
		ln, err := net.Listen("unix", filepath.Join(dir, strings.Repeat("s", 45)))
		if err != nil {
			t.Errorf("in %s: %v", dir, err)
			continue
		}
		_ = ln.Close()
	}
}
