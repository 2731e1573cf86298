package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/need"
)

// childEnv makes this test binary a child process that prints its servers' addresses and waits to
// be killed.
const childEnv = "MILLRACE_REDISTEST_CHILD"

// childDir is a directory that the child process does not delete.
var childDir = os.Getenv(childEnv)

func TestChild(t *testing.T) {
	if childDir == "" {
		t.Skip("runs only as a child of another test")
	}
	if err := removeAtExit(childDir); err != nil {
		t.Fatal(err)
	}
	fmt.Println("servers", Start(t).Addr(), Shared(t).Addr())
	select {}
}

// Servers end with the test binary, even if it is killed. So does the directory of a shared
// cluster.
func TestNothingOutlivesTheTestBinary(t *testing.T) {
	need.Program(t, "redis-server", "valkey-server")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir, "TMPDIR="+t.TempDir()) // the child cannot delete its files
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var addrs [2]string
	for lines.Scan() {
		if n, _ := fmt.Sscanf(lines.Text(), "servers %s %s", &addrs[0], &addrs[1]); n == 2 {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for _, addr := range addrs {
		if addr == "" {
			t.Fatal("the child has not started its servers")
		}
		await(t, "a server to die", func(ctx context.Context) error {
			c, err := Endpoint{Network: "tcp", Addr: addr}.dial(ctx)
			if err == nil {
				c.Close()
				return errors.New("it lives")
			}
			return nil
		})
	}
	await(t, "the directory to be removed", func(context.Context) error {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			return fmt.Errorf("stat: %v", err)
		}
		return nil
	})
}
