//go:build unix

package childproc_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// as makes the test binary one of the processes of a test.
const as = "MILLRACE_TEST_GUARD"

func TestMain(m *testing.M) {
	switch os.Getenv(as) {
	case "starter":
		starter()
	case "started":
		time.Sleep(time.Hour)
	case "":
		leaktest.Main(m)
	}
}

// starter starts a process, prints its process id, and waits to be killed.
func starter() {
	var g childproc.Guard
	cmd := process("started")
	cmd.Stdout = os.Stdout
	if err := g.Start(cmd); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cmd.Process.Pid)
	time.Sleep(time.Hour)
}

func process(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), as+"="+role)
	return cmd
}

// A process ends when its starter is killed. Both hold the other end of a pipe, which is closed
// when the last of them ends.
func TestAProcessDiesWithItsStarter(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := process("starter")
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(r)
	line, _ := out.ReadString('\n')
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the starter says %q", line)
	}
	if err := r.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v: process %d is alive", rest, err, pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
