package redisbuf

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The package imports only these packages in addition to the standard library and millrace.
func TestImports(t *testing.T) {
	may := []string{"github.com/millrace-io/millrace", "github.com/redis/go-redis/v9",
		"github.com/redis/go-redis/v9/auth",
		"golang.org/x/sync/semaphore", "golang.org/x/sys/unix"}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".")
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", system, err)
		}
		for path := range strings.FieldsSeq(string(out)) {
			first, _, _ := strings.Cut(path, "/")
			if strings.Contains(first, ".") && !slices.Contains(may, path) {
				t.Errorf("on %s it imports %q", system, path)
			}
		}
	}
}
