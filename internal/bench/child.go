package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/observe"
	"github.com/millrace-io/millrace/internal/server"
)

// childVar tells the program that it is a server under load: its value is an order.
const childVar = "MILLRACE_BENCH_SERVER"

// An order is what a child is to serve: by one of the handlers, or a relay of ours.
type order struct {
	Handler string        `json:"handler,omitempty"`
	Dir     string        `json:"dir,omitempty"`
	Latency time.Duration `json:"latency_ns,omitempty"` // of our relay
}

// What a child can be asked for, in a line each. The end of its input ends it, so it does not outlive its parent.
const (
	askUsage  = "usage"  // how much CPU time it has used: answered with a usage
	askRecord = "record" // to record its runtime and kernel: an observe.Options' Interval and Profiles follow
	askStop   = "stop"   // what it has recorded: answered with an observe.Timeline
)

// A hello is the first thing that a child says, a usage and an excuse what it answers.
type (
	hello struct {
		Addr string `json:"addr"`
	}
	usage struct {
		CPU time.Duration `json:"cpu_ns"`
	}
	excuse struct {
		Error string `json:"error,omitempty"`
	}
	recordOrder struct {
		Interval time.Duration `json:"interval_ns"`
		Profiles string        `json:"profiles,omitempty"`
	}
	recorded struct {
		excuse
		Timeline *observe.Timeline `json:"timeline"`
	}
)

// Child serves until its parent is gone if this process was started as a server of a benchmark, and says whether it
// was. Every program that calls Run calls it first.
func Child() (bool, error) {
	text, ok := os.LookupEnv(childVar)
	if !ok {
		return false, nil
	}
	// Ctrl-C is for the parent, which ends this process by closing its input.
	signal.Ignore(os.Interrupt)
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return true, fmt.Errorf("bench: $%s: %w", childVar, err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return true, fmt.Errorf("bench: %w", err)
	}
	conns := &lastConns{Listener: ln}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- o.serve(ctx, conns) }()
	err = answer(os.Stdin, os.Stdout, ln.Addr(), conns.list)
	cancel()
	return true, errors.Join(err, <-served)
}

// serve serves until ctx ends.
func (o order) serve(ctx context.Context, ln net.Listener) error {
	if o.Handler == "" {
		return serveRelay(ctx, ln, o.Latency)
	}
	h, err := o.handler()
	if err != nil {
		return err
	}
	// Clients that are gone at the end of a turn are no news.
	srv := &http.Server{Handler: h.Handler, ErrorLog: log.New(io.Discard, "", 0)}
	if h.listens {
		ln = chunk.Listener{Listener: ln}
	}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return h.close()
}

func serveRelay(ctx context.Context, ln net.Listener, latency time.Duration) error {
	cfg := server.Defaults()
	cfg.Latency = latency
	cfg.DrainTimeout = time.Second // nobody waits for what is queued when a turn is over
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	return s.Serve(ctx, ln, nil)
}

// answer says hello and answers what it is asked, until there is nothing more.
func answer(in io.Reader, out io.Writer, addr net.Addr, conns func() []syscall.Conn) error {
	say := json.NewEncoder(out)
	if err := say.Encode(hello{addr.String()}); err != nil {
		return err
	}
	var r *observe.Recorder
	defer func() {
		if r != nil {
			_, _ = r.Stop()
		}
	}()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var reply any
		switch word, rest := cutWord(lines.Bytes()); word {
		case askUsage:
			reply = usage{cpuTime()}
		case askRecord:
			reply = start(&r, rest, addr, conns)
		case askStop:
			reply = stop(&r)
		default:
			reply = excuse{fmt.Sprintf("bench: a server was asked for %q", word)}
		}
		if err := say.Encode(reply); err != nil {
			return err
		}
	}
	return nil
}

func cutWord(line []byte) (string, []byte) {
	for i, b := range line {
		if b == ' ' {
			return string(line[:i]), line[i+1:]
		}
	}
	return string(line), nil
}

func start(r **observe.Recorder, order []byte, addr net.Addr, conns func() []syscall.Conn) excuse {
	var o recordOrder
	if err := json.Unmarshal(order, &o); err != nil {
		return excuse{err.Error()}
	}
	if *r != nil {
		return excuse{"bench: a server that records was asked to"}
	}
	options := observe.Options{Interval: o.Interval, Profiles: o.Profiles, Conns: conns}
	if tcp, ok := addr.(*net.TCPAddr); ok {
		options.Ports = append(options.Ports, uint16(tcp.Port))
	}
	var err error
	if *r, err = observe.Start(options); err != nil {
		*r = nil
		return excuse{err.Error()}
	}
	return excuse{}
}

func stop(r **observe.Recorder) recorded {
	if *r == nil {
		return recorded{excuse: excuse{"bench: a server that does not record was asked to stop"}}
	}
	t, err := (*r).Stop()
	*r = nil
	if err != nil {
		return recorded{excuse{err.Error()}, t}
	}
	return recorded{Timeline: t}
}

// lastConns is a Listener that remembers the connections that it accepted last, for observe to look at. They may be closed.
type lastConns struct {
	net.Listener

	mu    sync.Mutex
	conns []syscall.Conn // the newest at (next-1) % mostConns; guarded by mu
	next  int            // guarded by mu
}

// mostConns bounds what is remembered: as many as a suite's load has.
const mostConns = 256

func (l *lastConns) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	sc, ok := c.(syscall.Conn)
	if err != nil || !ok {
		return c, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) < mostConns {
		l.conns = append(l.conns, sc)
	} else {
		l.conns[l.next%mostConns] = sc
	}
	l.next++
	return c, nil
}

func (l *lastConns) list() []syscall.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]syscall.Conn(nil), l.conns...)
}
