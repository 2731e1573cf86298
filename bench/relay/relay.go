// Package relay puts the same load on relays of live streams, in turns, and
// compares what they needed for it.
package relay

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// Server is a contender that runs.
type Server struct {
	PIDs []int // whose CPU time and memory count

	// Config is what reaches it: URL or Protocol, and NoPublish when it makes
	// its stream by itself.
	Config load.Config

	// Metrics is where it counts the viewers that are behind; "" if it does not.
	Metrics string

	cmd *exec.Cmd
}

// Contender can be started any number of times, one at a time.
type Contender interface {
	Name() string
	// Prepare builds what Start runs. The error is a measure.ErrMissing if that needs something that is not installed.
	Prepare(ctx context.Context) error
	// Start runs the server; files it needs go to dir.
	Start(ctx context.Context, dir string, c Case) (*Server, error)
}

// Case is how many viewers watch how many streams.
type Case struct {
	Streams int
	Viewers int // of each stream
	Stalled int // one viewer in so many reads nothing for a minute; 0 for none

	ReadEvery time.Duration // see load.Config
}

func (c Case) String() string { return fmt.Sprintf("%dx%d", c.Streams, c.Viewers) }

// ParseCase reads "50x4".
func ParseCase(s string) (c Case, err error) {
	streams, viewers, ok := strings.Cut(s, "x")
	if ok {
		c.Streams, err = strconv.Atoi(streams)
	}
	if ok && err == nil {
		c.Viewers, err = strconv.Atoi(viewers)
	}
	if !ok || err != nil || c.Streams < 1 || c.Viewers < 1 {
		return Case{}, fmt.Errorf("relay: case %q: want STREAMSxVIEWERS", s)
	}
	return c, nil
}

// Builder builds the programs that take part, once.
type Builder struct {
	Dir string // where binaries go
}

// Build compiles a package of this module or of the one above it.
func (b Builder) Build(ctx context.Context, pkg string) (string, error) {
	out := filepath.Join(b.Dir, filepath.Base(pkg))
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", pkg)
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("relay: finding %s: %w", pkg, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", out, ".")
	build.Dir = strings.TrimSpace(string(dir))
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build` does, and as Go does where there is no C compiler
	if msg, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("relay: building %s: %w\n%s", pkg, err, msg)
	}
	return out, nil
}

// start runs a program until it accepts connections on addr.
func start(ctx context.Context, addr string, name string, args ...string) (*Server, error) {
	s := &Server{cmd: exec.Command(name, args...)}
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = dieWithParent()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	s.PIDs = []int{s.cmd.Process.Pid}
	for range 200 {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return s, nil
		}
		select {
		case <-ctx.Done():
			s.Stop()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.Stop()
	return nil, fmt.Errorf("relay: %s does not listen on %s", name, addr)
}

// Stop asks the server to go, and makes it go.
func (s *Server) Stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	gone := make(chan struct{})
	go func() {
		s.cmd.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		s.cmd.Process.Kill()
		<-gone
	}
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
