package nettest

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// For any TMPDIR, the path of a Unix socket in the directory is short enough, and needs no quotes.
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
			t.Errorf("in %s: %v, want a directory", dir, err)
			continue
		}
		_ = ln.Close()
	}
}

// A server can listen on a free port repeatedly. Other tests do not get the port.
func TestFreePorts(t *testing.T) {
	first := FreePorts(t, 9)
	for port := first; port < first+9; port++ {
		for range 2 {
			ln, err := net.Listen("tcp", loopback(port))
			if err != nil {
				t.Fatal(err)
			}
			_ = ln.Close()
		}
		if _, ok := reserve(port); ok && runtime.GOOS == "linux" {
			t.Errorf("port %d was given to two tests", port)
		}
	}
}

// If one of the ports is in use, FreePorts chooses other ports, and keeps none of these reserved.
func TestFreePortsAreReservedTogether(t *testing.T) {
	port := FreePort(t)
	ln, err := net.Listen("tcp", loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if reserveAll(t, port-1, 2) {
		t.Fatal("a port that is in use was given")
	}
	if release, ok := reserve(port - 1); ok {
		release()
	} else if canListen(port - 1) {
		t.Errorf("port %d stays reserved", port-1)
	}
}
