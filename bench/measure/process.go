package measure

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Server is a server in processes of its own.
type Server struct {
	Addr string
	PIDs []int // of the processes whose CPU time and memory count

	proc *Process
}

// StartServer starts a command and waits until it accepts connections at addr, which may be the path of a Unix socket.
// The caller ends it with Stop.
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
			return nil, fmt.Errorf("measure: %s does not start: %v", filepath.Base(cmd.Path), cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.Stop()
	return nil, fmt.Errorf("measure: %s does not listen on %s", filepath.Base(cmd.Path), addr)
}

// Stop ends the server: with SIGTERM, and by force after ten seconds.
func (s *Server) Stop() { s.proc.Stop(10 * time.Second) }

// FreeAddr returns an address on loopback at which no server listens.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Build compiles a package of this module, or of the main one, to a file in dir, unless the file is there. It returns
// the file's name. As in `make build` there is no C library.
func Build(ctx context.Context, dir, pkg string) (string, error) {
	out := filepath.Join(dir, filepath.Base(pkg))
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg)
	list.Stderr = os.Stderr
	src, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", pkg, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(src)), "-o", out, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, msg)
	}
	return out, nil
}

// A Usage is what processes have used since they began.
type Usage struct {
	CPU  time.Duration // user and system
	Peak int64         // bytes of resident memory at most
}

// UsageOf adds processes up. It fails if one of them cannot be read.
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
