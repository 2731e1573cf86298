package files

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A Server is a contender that runs.
type Server struct {
	URL  string // with a slash at its end
	PIDs []int  // whose CPU time and memory count

	cmd *exec.Cmd
}

// pinned is a command that stays on these CPUs, if any are named.
func pinned(cpus, name string, args ...string) *exec.Cmd {
	if cpus != "" {
		name, args = "taskset", append([]string{"-c", cpus, name}, args...)
	}
	return exec.Command(name, args...)
}

// start runs a server's command. taskset becomes the command that it is given,
// with the same PID.
func start(cmd *exec.Cmd) (*Server, error) {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	return &Server{PIDs: []int{cmd.Process.Pid}, cmd: cmd}, nil
}

// await waits until the server accepts connections.
func (s *Server) await(ctx context.Context) error {
	u, err := url.Parse(s.URL)
	if err != nil {
		return err
	}
	for range 200 {
		c, err := net.Dial("tcp", u.Host)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return errors.New("files: " + s.cmd.Path + " does not listen on " + u.Host)
}

// Stop asks the server to go, and makes it go.
func (s *Server) Stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { s.cmd.Process.Kill() })
	defer kill.Stop()
	s.cmd.Wait()
}

// freeAddr is an address on loopback that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// usage is what some processes have used up to now.
type usage struct {
	cpu  time.Duration // user and system
	peak int64         // bytes of resident memory, at most
}

// use adds the processes up.
func use(pids []int) (usage, error) {
	var sum usage
	for _, pid := range pids {
		u, err := useOf(pid)
		if err != nil {
			return usage{}, fmt.Errorf("files: half a server is no measurement: %w", err)
		}
		sum.cpu += u.cpu
		sum.peak += u.peak
	}
	return sum, nil
}
