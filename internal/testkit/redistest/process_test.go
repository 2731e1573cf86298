package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/need"
)

// childEnv makes this test binary a child that prints its servers' processes and waits to be killed.
const childEnv = "MILLRACE_REDISTEST_CHILD"

// childDir is a directory that the child leaves.
var childDir = os.Getenv(childEnv)

func TestChild(t *testing.T) {
	if childDir == "" {
		t.Skip("runs only as a child of another test")
	}
	if err := removeAtExit(childDir); err != nil {
		t.Fatal(err)
	}
	fmt.Println("pids", Start(t).pid(), Shared(t).pid())
	select {}
}

// Servers die with the test binary, even when that is killed, and so does the directory of a shared cluster.
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
	cmd.Env = append(os.Environ(), childEnv+"="+dir, "TMPDIR="+t.TempDir()) // it cannot clear up
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var pids [2]int
	for lines.Scan() {
		if n, _ := fmt.Sscanf(lines.Text(), "pids %d %d", &pids[0], &pids[1]); n == 2 {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for _, pid := range pids {
		if pid == 0 {
			t.Fatal("the child has not started its servers")
		}
		await(t, "a server to die", func(context.Context) error {
			if probe(pid) == nil && !zombie(pid) {
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

// probe returns os.ErrProcessDone if there is no such process.
func probe(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	return p.Signal(syscall.Signal(0))
}

// zombie reports whether a process has ended and was not waited for: a container may have no init that waits.
func zombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") Z ")
}
