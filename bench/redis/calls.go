package redis

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// SystemCalls are what one call of a contender takes.
type SystemCalls struct {
	Task, Contender string
	Writes, Reads   float64 // of sockets
	InVain          float64 // of these: to be told to wait
	Moves           float64 // splice and sendfile
	Waits           float64 // epoll_pwait
}

// ErrNoStrace says that strace is not installed.
var ErrNoStrace = measure.Missing("strace", "strace")

const (
	// countedSize is the size of the values: what many would call large, and what fits into a socket's buffer.
	countedSize = 64 << 10

	// countedCalls are made under strace; what as many calls less takes is subtracted.
	countedCalls = 200

	// startCalls are made before, so that connections are there.
	startCalls = 10
)

// call makes the calls of an order.
func (o order) call(ctx context.Context) error {
	for _, t := range Tasks {
		if t.Key != o.Task || o.Contender < 0 || o.Contender >= len(t.contenders) {
			continue
		}
		w, err := assemble(ctx, t.contenders[o.Contender], o.Site, 1)
		if err != nil {
			return err
		}
		defer w.dismiss()
		return w.calls(startCalls + o.Calls)
	}
	return fmt.Errorf("redis: no task %q with a contender %d", o.Task, o.Contender)
}

// CountCalls has each contender make calls in a process of its own under strace. That slows the client and not the
// server, so that replies are complete when they are read: these are the fewest calls that a contender gets by with.
func (p *Plan) CountCalls(ctx context.Context) ([]SystemCalls, error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, ErrNoStrace
	}
	sink, err := startSink()
	if err != nil {
		return nil, err
	}
	defer sink.stop()
	site, err := p.Server.site(ctx, countedSize, sink.addr)
	if err != nil {
		return nil, err
	}
	var all []SystemCalls
	for _, t := range p.Tasks {
		for i, c := range t.contenders {
			if err := ctx.Err(); err != nil {
				return all, err
			}
			p.Log("system calls: %s", c.Name)
			without, err := trace(order{Site: site, Task: t.Key, Contender: i}, p.Server.Dir)
			if err != nil {
				return all, fmt.Errorf("%s: %w", c.Name, err)
			}
			with, err := trace(order{Site: site, Task: t.Key, Contender: i, Calls: countedCalls}, p.Server.Dir)
			if err != nil {
				return all, fmt.Errorf("%s: %w", c.Name, err)
			}
			each := func(a, b int) float64 { return float64(max(a-b, 0)) / countedCalls }
			all = append(all, SystemCalls{
				Task: t.Key, Contender: c.Name,
				Writes: each(with.writes, without.writes), Reads: each(with.reads, without.reads),
				InVain: each(with.inVain, without.inVain), Moves: each(with.moves, without.moves),
				Waits: each(with.waits, without.waits),
			})
		}
	}
	return all, nil
}

// traced is what strace has seen.
type traced struct{ writes, reads, inVain, moves, waits int }

const tracedCalls = "read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg,splice,sendfile,epoll_pwait"

// trace executes an order under strace.
func trace(o order, dir string) (traced, error) {
	name := filepath.Join(dir, "strace")
	cmd, err := o.command("strace", "-f", "-qq", "-y", "-s", "0", "-e", "signal=none", "-e", "trace="+tracedCalls, "-o", name)
	if err != nil {
		return traced{}, err
	}
	if err := cmd.Run(); err != nil {
		return traced{}, err
	}
	f, err := os.Open(name)
	if err != nil {
		return traced{}, err
	}
	defer f.Close()
	var sum traced
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		sum.add(lines.Text())
	}
	return sum, lines.Err()
}

// add counts a line such as
//
//	4711 read(7<socket:[4242]>, ""..., 4096) = -1 EAGAIN (Resource temporarily unavailable)
//
// once also if strace splits it, because others ran meanwhile: the second half has no opening parenthesis.
func (t *traced) add(line string) {
	_, line, _ = strings.Cut(line, " ")
	name, rest, ok := strings.Cut(strings.TrimSpace(line), "(")
	if !ok {
		return
	}
	if name == "epoll_pwait" {
		t.waits++
		return
	}
	if !strings.Contains(rest, "<socket:[") {
		return
	}
	switch name {
	case "read", "readv", "recvfrom", "recvmsg":
		t.reads++
	case "write", "writev", "sendto", "sendmsg":
		t.writes++
	case "splice", "sendfile":
		t.moves++
	default:
		return
	}
	if strings.Contains(rest, "= -1 EAGAIN") {
		t.inVain++
	}
}
