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
)

// childEnv makes this test binary a child that prints its servers' processes and waits to be killed.
const childEnv = "MILLRACE_REDISTEST_CHILD"

func TestChild(t *testing.T) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		t.Skip("runs only as a child of another test")
	}
	if err := removeAtExit(dir); err != nil {
		t.Fatal(err)
	}
	fmt.Println("pids", Start(t).PID(), Shared(t).PID())
	select {}
}

// Servers die with the test binary, even when that is killed, and so does the directory of a shared cluster.
func TestNothingOutlivesTheTestBinary(t *testing.T) {
	program(t)
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

// zombie reports whether a process has ended, but nobody has asked how: in a container there may be no init that does.
func zombie(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(stat), ") Z ")
}

// Where there is no server a test is skipped, and on CI it fails.
func TestNoServer(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for ci, says := range map[string]string{"": "--- SKIP: TestConfigWins", "true": "--- FAIL: TestConfigWins"} {
		cmd := exec.Command(exe, "-test.run=^TestConfigWins$", "-test.v")
		cmd.Env = append(os.Environ(), "PATH=/nonexistent", "CI="+ci, programEnv+"=", "GORACE=atexit_sleep_ms=0")
		out, _ := cmd.CombinedOutput()
		if !strings.Contains(string(out), says) || !strings.Contains(string(out), "scripts/deps") {
			t.Errorf("CI=%q: %s", ci, out)
		}
	}
}
