//go:build unix

package systemd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// as makes the test binary one of the processes that a test starts.
const as = "MILLRACE_TEST_SYSTEMD"

// patience limits the time of a process on a busy machine.
const patience = time.Minute

func TestMain(m *testing.M) {
	switch role := os.Getenv(as); role {
	case "":
		leaktest.Main(m)
	case "ends":
	case "fails":
		os.Exit(3)
	case "hangs":
		time.Sleep(time.Hour)
	default:
		serveOnce(role)
	}
}

// serveOnce prints the inherited listeners, and answers one connection to each.
func serveOnce(role string) {
	in, err := Inherit()
	if err == nil && role != "inherits" {
		err = in.Ready()
	}
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println(role, len(in.Listeners))
	var answering sync.WaitGroup
	defer answering.Wait()
	for name, ln := range in.Listeners {
		answering.Go(func() {
			conn, err := ln.Accept()
			if err == nil {
				_, err = io.WriteString(conn, name+" of "+role)
				_ = conn.Close()
			}
			if err != nil {
				fmt.Println("failed:", err)
			}
		})
	}
}

func process(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), as+"="+role)
	return cmd
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// answer returns the data received on a connection to an address.
func answer(t *testing.T, address string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A successor inherits the same listeners with their names. It gets the connections that were
// waiting when it started.
func TestSucceed(t *testing.T) {
	a, b, c := listen(t), listen(t), listen(t)
	waits := make(chan string, 1)
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		waits <- string(text)
	}()
	accepting := make(chan error, 1)
	go func() {
		_, err := c.Accept()
		accepting <- err
	}()
	cmd := process("successor")
	if err := Succeed(t.Context(), cmd, map[string]net.Listener{"main": a, "rtmp": b,
		"rtmps": c}); err != nil {
		t.Fatal(err)
	}
	if cmd.Process.Pid <= 0 {
		t.Errorf("its number is %d", cmd.Process.Pid)
	}
	if got := answer(t, a.Addr().String()); got != "main of successor" {
		t.Errorf("an answer of %q, want main of successor", got)
	}
	if got := <-waits; got != "rtmp of successor" {
		t.Errorf("an answer of %q, want rtmp of successor", got)
	}
	_ = c.Close() // does not wait for a connection
	if err := <-accepting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting ended with %v, want net.ErrClosed", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// If a successor fails to start, nothing changes.
func TestNoSuccessor(t *testing.T) {
	ln := listen(t)
	given := map[string]net.Listener{"main": ln}
	if err := Succeed(t.Context(), process("fails"), given); err == nil ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v, want the exit status 3", err)
	}
	if err := Succeed(t.Context(), process("ends"), given); err == nil ||
		!strings.Contains(err.Error(), "with status 0") {
		t.Errorf("%v, want an end with status 0", err)
	}
	slow := errors.New("slow")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(slow) })
	if err := Succeed(ctx, process("hangs"), given); !errors.Is(err, slow) {
		t.Errorf("%v, want the context's cause", err)
	}
	if err := Succeed(t.Context(), exec.Command("/no/such/program"), given); err == nil {
		t.Error("it was started")
	}
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "here")
			_ = conn.Close()
		}
	}()
	if got := answer(t, ln.Addr().String()); got != "here" {
		t.Errorf("an answer of %q, want this process", got)
	}
}

// Variables that are invalid, or for another process, give no listeners.
func TestInherit(t *testing.T) {
	for _, tt := range []struct{ pid, fds, names, says string }{
		{"", "", "", "inherits 0"},
		{"1", "1", "main", "inherits 0"},
		{"", "x", "main", "failed: LISTEN_FDS"},
		{"", "2", "main", "failed: LISTEN_FDS"},
		{"", "1", "main", "failed: the listener main"}, // a file
	} {
		cmd := process("inherits")
		cmd.Env = append(cmd.Env, "LISTEN_PID="+tt.pid, "LISTEN_FDS="+tt.fds,
			"LISTEN_FDNAMES="+tt.names)
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = []*os.File{f}
		out, err := cmd.CombinedOutput()
		_ = f.Close()
		if err != nil || !strings.HasPrefix(string(out), tt.says) {
			t.Errorf("%+v: printed %q, %v, want %q", tt, out, err, tt.says)
		}
	}
}

// systemd's own program passes listeners like a socket unit.
func TestSocketActivation(t *testing.T) {
	program := need.Program(t, "systemd-socket-activate")
	dir := nettest.PlainDir(t)
	first, second := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	cmd := exec.Command(program, "-l", first, "-l", second, "--fdname=main:rtmp", "-E", as,
		os.Args[0])
	cmd.Env = append(os.Environ(), as+"=inherits")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for name, socket := range map[string]string{"main": first, "rtmp": second} {
		var conn net.Conn
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			if conn, err = net.Dial("unix", socket); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		got, err := io.ReadAll(conn)
		if string(got) != name+" of inherits" {
			t.Errorf("%s is told %q, %v", name, got, err)
		}
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "inherits 2\n" {
		t.Errorf("the server printed %q, want inherits 2", line)
	}
}

func TestNotify(t *testing.T) {
	t.Setenv(notifySocket, "")
	if err := Notify("READY=1"); err != nil {
		t.Errorf("without systemd: %v", err)
	}
	name := filepath.Join(nettest.PlainDir(t), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv(notifySocket, name)
	in := &Inherited{}
	if err := in.Ready(); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if n, err := conn.Read(p); string(p[:n]) != "READY=1" {
		t.Errorf("systemd got %q, %v, want READY=1", p[:n], err)
	}
	t.Setenv(notifySocket, name+"-not")
	if err := Notify("READY=1"); err == nil {
		t.Error("a socket that is not there was told")
	}
}
