package soak

import (
	"io"
	"os"
	"os/exec"
	"testing"
)

// Everything that is watched of a process can be read. The bounds are what no test's binary is without.
func TestLookAtProcess(t *testing.T) {
	p, err := lookAtProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if p.descriptors < 3 || p.threads < 2 || p.rss < mib || p.anonymous < mib/4 || p.anonymous >= p.rss {
		t.Errorf("%+v", p)
	}
}

// A process that has ended, and one that never was, are not processes that hold nothing.
func TestAProcessThatCannotBeReadIsAnError(t *testing.T) {
	cmd := exec.Command("true")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(out); err != nil { // its end comes after that of the memory
		t.Error(err)
	}
	for _, pid := range []int{cmd.Process.Pid, 1 << 30} {
		if p, err := lookAtProcess(pid); err == nil {
			t.Errorf("process %d: %+v", pid, p)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
