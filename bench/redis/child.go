package redis

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"strings"
)

// childVar tells the program that it is another process of the benchmark: what it is to do.
const childVar = "MILLRACE_BENCH_REDIS"

// An order is what is in childVar: to discard what comes, or to make some calls.
type order struct {
	Site      *Site  `json:"site,omitempty"` // of the calls; nil for a sink
	Task      string `json:"task,omitempty"`
	Contender int    `json:"contender,omitempty"`
	Calls     int    `json:"calls,omitempty"`
}

// Main must be called before anything else by every program that measures. In a process with an order it does not return.
func Main() {
	var o order
	if json.Unmarshal([]byte(os.Getenv(childVar)), &o) != nil {
		return
	}
	err := error(nil)
	if o.Site == nil {
		err = discard()
	} else {
		err = o.call(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// command is this program again, with an order, run by others if there are any.
func (o order) command(by ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	args := append(by, self)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childVar+"="+string(b))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithParent()
	return cmd, nil
}

// A sink is a process that accepts connections and discards what comes, so that this costs the clients nothing.
type sink struct {
	addr string
	cmd  *exec.Cmd
}

func startSink() (*sink, error) {
	cmd, err := order{}.command()
	if err != nil {
		return nil, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &sink{cmd: cmd}
	if s.addr, err = bufio.NewReader(said).ReadString('\n'); err != nil {
		s.stop()
		return nil, fmt.Errorf("redis: the sink does not start: %w", err)
	}
	s.addr = strings.TrimSpace(s.addr)
	return s, nil
}

func (s *sink) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// discardBlock is read at a time: large, so that the sink is not what is measured.
const discardBlock = 256 << 10

// discard says on standard output where it listens, and discards.
func discard() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, discardBlock))
	}
}
