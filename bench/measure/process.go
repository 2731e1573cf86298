package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// children are the functions that this program runs in a process of its own, by name.
var children = make(map[string]func(args []string) error)

// RegisterChild names a function that Self starts in a process of its own. It is for variables and init functions.
func RegisterChild(name string, f func(args []string) error) string {
	children[name] = f
	return name
}

// childVar tells the program which function to run: a JSON list of the name and the arguments.
const childVar = "MILLRACE_BENCH_CHILD"

// RunChild must be called first by main and TestMain. In a process that Self started it runs the function and exits.
func RunChild() {
	order := os.Getenv(childVar)
	if order == "" {
		return
	}
	var args []string
	if err := json.Unmarshal([]byte(order), &args); err != nil {
		log.Fatal(err)
	}
	if f := children[args[0]]; f == nil {
		log.Fatalf("measure: no child %q", args[0])
	} else if err := f(args[1:]); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// Self returns a command that runs a registered function in a process of its own.
func Self(name string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	order, err := json.Marshal(append([]string{name}, args...))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVar+"="+string(order))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// A Server is a server in processes of its own.
type Server struct {
	Addr string
	PIDs []int // of the processes whose CPU time and memory count

	cmd *exec.Cmd
}

// StartServer starts a command and waits until it accepts connections at addr. The server ends with Stop, and on Linux also
// when this process ends in any way.
func StartServer(ctx context.Context, addr string, cmd *exec.Cmd) (*Server, error) {
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{Addr: addr, PIDs: []int{cmd.Process.Pid}, cmd: cmd}
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
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.Stop()
	return nil, fmt.Errorf("measure: %s does not listen on %s", filepath.Base(cmd.Path), addr)
}

// UseWorkers makes the server's n child processes the processes that count, as for a master that only supervises.
func (s *Server) UseWorkers(n int) error {
	for range 250 {
		if pids := childrenOf(s.cmd.Process.Pid); len(pids) == n {
			s.PIDs = pids
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("measure: %s does not have %d workers", filepath.Base(s.cmd.Path), n)
}

// Stop ends the server: with SIGTERM, and by force after ten seconds.
func (s *Server) Stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { s.cmd.Process.Kill() })
	defer kill.Stop()
	s.cmd.Wait()
}

// FreeAddr returns an address on loopback at which no server listens.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
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
