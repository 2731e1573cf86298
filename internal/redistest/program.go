package redistest

import (
	"os"
	"os/exec"
	"testing"
)

// programEnv names the server to run when it is not the first of redis-server and valkey-server in the path.
const programEnv = "MILLRACE_REDIS_SERVER"

// program returns the path of the server's program. Where there is none the test is skipped, or fails on CI, where
// nobody would notice.
func program(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(programEnv); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			t.Fatalf("redistest: %s: %v", programEnv, err)
		}
		return path
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no redis-server: scripts/deps installs it")
	}
	t.Skip("no redis-server: run scripts/deps, or apt-get install redis-server")
	return ""
}
