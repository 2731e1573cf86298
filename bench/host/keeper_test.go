//go:build linux

package host

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// changerVar tells the test program that it is to change parameters below this directory, and to end as changerEnd says.
const (
	changerVar = "MILLRACE_BENCH_HOST_TEST"
	changerEnd = "MILLRACE_BENCH_HOST_TEST_END"
)

func TestMain(m *testing.M) {
	Main()
	if dir := os.Getenv(changerVar); dir != "" {
		if err := changer(dir, os.Getenv(changerEnd)); err != nil {
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// changer does what bench-host does: it changes parameters, says so, and ends.
func changer(dir, end string) (err error) {
	ctx, stop := measure.UntilStopped()
	defer stop()
	k, err := Keep(dir, "vm.dirty_ratio", "fs.aio-max-nr")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	for name, value := range map[string]string{"vm.dirty_ratio": "80", "fs.aio-max-nr": "524288"} {
		if err := k.Set(name, value); err != nil {
			return err
		}
	}
	os.Stdout.WriteString("changed\n")
	io.ReadFull(os.Stdin, make([]byte, 1)) // the test has looked
	switch end {
	case "return":
		return nil
	case "error":
		return errors.New("something else")
	case "panic":
		go panic("on another goroutine")
	case "exit":
		os.Exit(3)
	case "pipe":
		for {
			os.Stdout.WriteString("nobody reads this\n")
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestKeeperPutsBackHoweverItEnds(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector has each process last a second longer
	for end, number := range map[string]syscall.Signal{
		"return": 0, "error": 0, "panic": 0, "exit": 0, "pipe": 0,
		"interrupt": syscall.SIGINT, "terminated": syscall.SIGTERM, "hangup": syscall.SIGHUP, "quit": syscall.SIGQUIT,
		"killed": syscall.SIGKILL,
	} {
		t.Run(end, func(t *testing.T) {
			if end == "hangup" && signal.Ignored(syscall.SIGHUP) {
				t.Skip("this runs under nohup")
			}
			endChanger(t, end, number)
		})
	}
}

func endChanger(t *testing.T, end string, number syscall.Signal) {
	d := fake(t, map[string]string{"vm.dirty_ratio": "20", "fs.aio-max-nr": "65536"})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), changerVar+"="+string(d), changerEnd+"="+end)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	logs, logsIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	cmd.Stderr = logsIn
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	logsIn.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	expect(t, d, "80", "524288")
	if _, err := Keep(string(d), "fs.aio-max-nr"); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a second run beside the first: %v", err)
	}
	if end == "pipe" {
		out.Close()
	}
	if _, err := in.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if number != 0 {
		if err := syscall.Kill(-cmd.Process.Pid, number); err != nil { // all of its group, as a terminal does and timeout(1)
			t.Fatal(err)
		}
	}
	// Nobody has the other end once both processes are gone.
	logs.SetReadDeadline(time.Now().Add(30 * time.Second))
	said, err := io.ReadAll(logs)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if want := "put back: vm.dirty_ratio=20 fs.aio-max-nr=65536\n"; !strings.Contains(string(said), want) {
		t.Errorf("it says %q, not %q", said, want)
	}
	expect(t, d, "20", "65536")
}

func expect(t *testing.T, d directory, ratio, requests string) {
	t.Helper()
	for name, want := range map[string]string{"vm.dirty_ratio": ratio, "fs.aio-max-nr": requests} {
		if v, err := d.read(name); v != want || err != nil {
			t.Errorf("%s is %q, %v, want %s", name, v, err, want)
		}
	}
}

func TestKeeperNeedsTheParameter(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	d := fake(t, map[string]string{"vm.dirty_ratio": "20"})
	if _, err := Keep(string(d), "vm.dirty_ratio", "vm.gone"); err == nil || !strings.Contains(err.Error(), "vm/gone") {
		t.Errorf("with one that is not there: %v", err)
	}
	k, err := Keep(string(d), "vm.dirty_ratio")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Set("vm.gone", "1"); err == nil {
		t.Error("a parameter is set that is not kept")
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}
