package millrace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport lists what each package of the library may import in addition to the standard library.
// The root package imports nothing, and the others only the root package. The exceptions are
// formats that build on others.
var mayImport = map[string][]string{
	"":                nil,
	"arena":           {""},
	"broadcast":       {""},
	"chunk":           {"", "golang.org/x/sys/unix"},
	"frame":           {"", "arena"},
	"frame/sv2":       {"", "arena", "frame"},
	"frame/websocket": {""},
	"media/flv":       {""},
	"media/hls":       {""},
	"media/mp4":       {"", "media/flv"},
	"media/rtmp":      {""},
	"millracetest":    {"", "internal/testkit/leak"},
	"stackbuf":        nil,
}

func TestImports(t *testing.T) {
	const module = "github.com/millrace-io/millrace"
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
		list.Env = append(os.Environ(), "GOWORK=off", "GOOS="+system, "GOARCH=amd64",
			"CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", system, err)
		}
		seen := 0
		for line := range strings.Lines(string(out)) {
			paths := strings.Fields(line)
			name := strings.TrimPrefix(strings.TrimPrefix(paths[0], module), "/")
			if strings.HasPrefix(name, "internal/") {
				continue
			}
			seen++
			may, ok := mayImport[name]
			if !ok {
				t.Errorf("TestImports does not know the package %q", name)
			}
			for _, path := range paths[1:] {
				first, _, _ := strings.Cut(path, "/")
				if !strings.Contains(first, ".") {
					continue // the standard library's
				}
				if path := strings.TrimPrefix(strings.TrimPrefix(path, module),
					"/"); !slices.Contains(may, path) {
					t.Errorf("on %s, %q imports %q", system, name, path)
				}
			}
		}
		if seen != len(mayImport) {
			t.Errorf("%d packages on %s, want %d", seen, system, len(mayImport))
		}
	}
}

// The library does not choose versions of other modules for its importers, except golang.org/x/sys.
func TestConsumerGetsNoOtherModule(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum") // so that nothing is downloaded
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/consumer\n\ngo 1.26.0\n\n" +
			"require github.com/millrace-io/millrace v0.0.0\n\n" +
			"replace github.com/millrace-io/millrace => " + strconv.Quote(root) + "\n",
		"go.sum": string(sums),
		"main.go": `package main

import (
	_ "github.com/millrace-io/millrace"
	_ "github.com/millrace-io/millrace/arena"
	_ "github.com/millrace-io/millrace/stackbuf"
)

func main() {}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s failed: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("mod", "tidy")
	want := "example.com/consumer\ngithub.com/millrace-io/millrace\ngolang.org/x/sys"
	if got := run("list", "-m", "-f", "{{.Path}}", "all"); got != want {
		t.Errorf("the modules of a consumer are\n%s\nwant\n%s", got, want)
	}
	left, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(left)) {
		if !strings.HasPrefix(line, "golang.org/x/sys ") {
			t.Errorf("go.sum of a consumer has %s", line)
		}
	}
}
