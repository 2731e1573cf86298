package millrace_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The packages that others import need no more than this beyond the standard library. The root imports no other room,
// leaves import the root and never each other, but for frame, whose parts build on one another and on arena.
var mayImport = map[string][]string{
	"":           nil,
	"arena":      {""},
	"broadcast":  {""},
	"chunk":      {"", "golang.org/x/sys/unix"},
	"frame":      {"", "arena"},
	"media/flv":  {"", "frame"},
	"media/hls":  {""},
	"media/mp4":  {"", "frame", "media/flv"},
	"media/rtmp": {""},
	"frame/sv2":  {"", "arena", "frame"},
	"redisbuf": {"", "github.com/redis/go-redis/v9", "github.com/redis/go-redis/v9/auth", "golang.org/x/sync/semaphore",
		"golang.org/x/sys/unix"},
	"stackbuf": {""},
}

func TestImports(t *testing.T) {
	const module = "github.com/millrace-io/millrace"
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", system, err)
		}
		seen := 0
		for line := range strings.Lines(string(out)) {
			paths := strings.Fields(line)
			name := strings.TrimPrefix(strings.TrimPrefix(paths[0], module), "/")
			if strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "cmd/") {
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
				if path := strings.TrimPrefix(strings.TrimPrefix(path, module), "/"); !slices.Contains(may, path) {
					t.Errorf("on %s, %q imports %q", system, name, path)
				}
			}
		}
		if seen != len(mayImport) {
			t.Errorf("%d packages on %s, want %d", seen, system, len(mayImport))
		}
	}
}
