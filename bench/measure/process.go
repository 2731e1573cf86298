package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Server is a server that runs in one or more separate processes.
type Server struct {
	Addr string
	PIDs []int // the processes to measure

	proc *Process
}

// StartServer starts a command and waits until it accepts connections at addr, a TCP address or the
// path of a Unix socket. The caller must call Stop.
func StartServer(ctx context.Context, addr string, cmd *exec.Cmd) (*Server, error) {
	proc, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: addr, PIDs: []int{cmd.Process.Pid}, proc: proc}
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	for range 500 {
		c, err := net.Dial(network, addr)
		if err == nil {
			return s, c.Close()
		}
		select {
		case <-ctx.Done():
			s.Stop()
			return nil, ctx.Err()
		case <-proc.Ended:
			return nil, fmt.Errorf("measure: %s does not start: %v", filepath.Base(cmd.Path),
				cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.Stop()
	return nil, fmt.Errorf("measure: %s does not listen on %s", filepath.Base(cmd.Path), addr)
}

// Stop sends SIGTERM to the server, and kills it if it has not ended after ten seconds.
func (s *Server) Stop() { s.proc.Stop(10 * time.Second) }

// FreeAddr returns a free address of 127.0.0.1. Its port is below the range that Linux uses for
// outgoing connections.
func FreeAddr() (string, error) {
	for range 100 {
		addr := fmt.Sprint("127.0.0.1:", 12000+rand.IntN(20000))
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("no free port in 100 attempts")
}

// Millrace is the path of the millrace command's package, for [Build].
const Millrace = "server/cmd/millrace"

// Build compiles a command of this repository without cgo, and returns the path of the executable
// file in dir. If the file already exists, Build does not compile it again. The parameter path is
// the directory of the package, relative to the root of the repository. Packages of bench are built
// outside of the workspace. Packages of the server are built in the workspace, with the dependency
// versions that users of the server get. env has additional environment variables for the compiler,
// in the form NAME=VALUE.
func Build(ctx context.Context, dir, path string, env ...string) (string, error) {
	out := filepath.Join(dir, filepath.Base(path))
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/millrace-io/millrace")
	list.Stderr = os.Stderr
	root, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	workspace := "GOWORK="
	if strings.HasPrefix(path, "bench/") {
		workspace = "GOWORK=off"
	}
	build := exec.CommandContext(ctx, "go", "build", "-C",
		filepath.Join(strings.TrimSpace(string(root)), path), "-o", out, ".")
	build.Env = append(append(os.Environ(), "CGO_ENABLED=0", workspace), env...)
	if msg, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", path, err, msg)
	}
	return out, nil
}

// A Usage is the resource use of processes since their start.
type Usage struct {
	CPU  time.Duration // user and system time
	Peak int64         // peak resident memory, in bytes
}

// UsageOf returns the total usage of the processes, or an error if it cannot read one of them.
func UsageOf(pids []int) (Usage, error) {
	var sum Usage
	for _, pid := range pids {
		u, err := usageOf(pid)
		if err != nil {
			return Usage{}, err
		}
		sum.CPU += u.CPU
		sum.Peak += u.Peak
	}
	return sum, nil
}
