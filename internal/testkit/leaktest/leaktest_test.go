package leaktest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leak"
)

// childEnv makes this test binary a child process with the named leak, so that the parent can see
// how it fails.
const childEnv = "MILLRACE_LEAKTEST_CHILD"

// childLeak is the leak of this process if it is a child.
var childLeak = os.Getenv(childEnv)

func TestMain(m *testing.M) {
	if childLeak != "" {
		// The leak is permanent, so the parent need not wait for it.
		leak.Grace = 50 * time.Millisecond
	}
	Main(m)
}

var ownPool = millrace.NewPool()

// leaks has the leaks of child processes.
var leaks = map[string]func(t *testing.T){
	"goroutine":    leakGoroutine,
	"default pool": func(*testing.T) { leakBlock(millrace.DefaultPool()) },
	"check":        func(t *testing.T) { Check(t, ownPool); leakBlock(ownPool) },
	"file":         leakFile,
}

func leakGoroutine(*testing.T) { go leftBehind(make(chan struct{})) }

func leakFile(t *testing.T) {
	if err := os.Mkdir(os.TempDir()+"/left", 0o700); err != nil {
		t.Error(err)
	}
}

func leftBehind(never chan struct{}) { <-never }

var kept millrace.Draft

func leakBlock(p *millrace.Pool) { kept = p.Get(1000) }

func TestChild(t *testing.T) {
	if childLeak == "" {
		t.Skip("runs only as a child of the other tests")
	}
	leaks[childLeak](t)
}

// child runs TestChild in a child process, and returns its exit status and its output.
func child(t *testing.T, how string) (code int, output string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+how, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// remembersStacks reports whether the binary was built with -tags invariants.
func remembersStacks() bool {
	p := millrace.NewPool()
	d := p.Get(1)
	defer d.Release()
	return len(p.Leaks()) > 0
}

func TestMainFailsOnLeaks(t *testing.T) {
	const taker = "leaktest.leakBlock"
	for _, test := range []struct {
		how   string
		want  string
		stack string // only with -tags invariants
	}{
		{"goroutine", "leaktest.leftBehind(", ""},
		{"default pool", "leak: millrace.DefaultPool() has 1024 bytes in use (1 blocks), want 0", taker},
		{"file", "leaktest: a temporary file is left: left", ""},
		{"check", "leak: a Pool has 1024 bytes in use (1 blocks), want 0", taker},
	} {
		t.Run(test.how, func(t *testing.T) {
			t.Parallel()
			code, output := child(t, test.how)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if !strings.Contains(output, test.want) {
				t.Errorf("the report lacks %q:\n%s", test.want, output)
			}
			if test.stack == "" {
				return
			}
			hint := test.stack
			if !remembersStacks() {
				hint = "-tags invariants"
			}
			if !strings.Contains(output, hint) {
				t.Errorf("the report lacks %q:\n%s", hint, output)
			}
		})
	}
}

func TestRunKeepsTheExitCodeOfTheTests(t *testing.T) {
	var w bytes.Buffer
	if code := run(func() int { return 2 }, t.TempDir(), &w); code != 2 || w.Len() > 0 {
		t.Errorf("code %d, output %q; want 2 and nothing", code, w.String())
	}
}

// Tests do not see variables that a user or a service manager has exported, and have a TMPDIR of
// their own.
func TestTheEnvironmentIsTheTests(t *testing.T) {
	for _, name := range []string{"MILLRACE_LISTEN", "GOMEMLIMIT", "NOTIFY_SOCKET", "LISTEN_FDS"} {
		t.Setenv(name, "1")
	}
	t.Setenv("no_proxy", "")
	t.Setenv("NO_PROXY", "")
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("MILLRACE_NEEDS", "list")
	t.Setenv("HOME", "/nonexistent")
	outer := os.TempDir()
	dir, err := isolate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"MILLRACE_LISTEN": "", "GOMEMLIMIT": "",
		"NOTIFY_SOCKET": "", "LISTEN_FDS": "", "MILLRACE_NEEDS": "list",
		"no_proxy": "localhost,127.0.0.1,::1", "TMPDIR": dir, "HOME": filepath.Join(dir, "home")} {
		if got := os.Getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if filepath.Dir(dir) != outer {
		t.Errorf("TMPDIR is %s, want a directory in %s", dir, outer)
	}
	if text := files(dir); text != "" {
		t.Error(text)
	}
}
