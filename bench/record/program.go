package record

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/chunk"
)

// Program is the benchmark "record". HTTP clients request a URL while [Record] takes samples.
var Program = &measure.Program{
	Name: "record", What: "a load, the Go runtime and the kernel on one clock", Rounds: 1,
	Brief: []string{"-seconds", "5"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&options.url, "url", "",
			"what clients get; if empty, a file that this process serves with chunk.FileServer")
		f.IntVar(&options.size, "size", 1<<20, "bytes of that file")
		f.IntVar(&options.clients, "clients", 16, "clients, each with a connection")
		f.IntVar(&options.seconds, "seconds", 15, "length of the record")
		f.DurationVar(&options.interval, "interval", 500*time.Millisecond,
			"length of an interval, at least 10ms")
		f.BoolVar(&options.bpftrace, "bpftrace", true,
			"use bpftrace where it is installed and may attach")
	},
	Run: run,
}

var options struct {
	url                    string
	size, clients, seconds int
	interval               time.Duration
	bpftrace               bool
}

func run(ctx context.Context, p *measure.Params) error {
	if options.clients < 1 || options.seconds < 1 || options.interval < 10*time.Millisecond {
		return errors.New("-clients and -seconds must be above 0, and -interval at least 10ms")
	}
	c := &clients{url: options.url}
	served := c.url
	if c.url == "" {
		dir, err := os.MkdirTemp("", "bench-record-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		stop, err := c.serve(dir, options.size)
		if err != nil {
			return err
		}
		defer stop()
		served = fmt.Sprintf("a file of %d KiB by chunk.FileServer in the same process",
			options.size>>10)
	}
	line, err := Record(Options{
		Interval: options.interval, Load: c.take, Conns: c.conns, Profiles: p.Dir(),
		Bpftrace: options.bpftrace,
		Logf:     p.Logf,
	}, func() error {
		// The time limit begins after bpftrace is attached.
		ctx, stop := context.WithTimeout(ctx, time.Duration(options.seconds)*time.Second)
		defer stop()
		return c.run(ctx, options.clients)
	})
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	waits := "mean"
	if options.bpftrace && line.Note == "" {
		waits = "p99"
	}
	t := measure.NewTable("record", fmt.Sprintf("%d clients get %s: load, runtime and kernel",
		options.clients, served), "at s",
		"operations/s", "MB/s", "errors", "p50 ms", "p99 ms", "GCs", "longest GC pause ms",
		"goroutine waits p99 ms", "allocated MB/s",
		"heap MB", "goroutines", "retransmits", "thread waits "+waits+" ms", "RTT median ms",
		"minor faults", "major faults")
	t.Bar = 5
	t.Note = fmt.Sprintf(
		"The kernel was watched by %s%s. All of it is of this process, but for bpftrace's retransmissions, which are the "+
			"machine's. To take a sample cost %.2f ms on average.", line.Kernel, line.Note,
		ms(line.Cost)/float64(len(line.Samples)))
	for _, s := range line.Samples {
		seconds := s.Length.Seconds()
		t.Row(fmt.Sprintf("%.1f", s.At.Seconds()), float64(s.Load.Operations)/seconds,
			float64(s.Load.Bytes)/1e6/seconds, int(s.Load.Errors),
			ms(s.Load.P50), ms(s.Load.P99), int(s.Runtime.GCs), ms(s.Runtime.PauseMax),
			ms(s.Runtime.SchedP99),
			float64(s.Runtime.AllocBytes)/1e6/seconds, float64(s.Runtime.HeapBytes)/1e6,
			int(s.Runtime.Goroutines), int(s.Kernel.Retransmits),
			ms(s.Kernel.RunQueue), ms(s.Kernel.RTT), int(s.Kernel.MinorFaults),
			int(s.Kernel.MajorFaults))
	}
	return p.Add(t)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// clients request url repeatedly, and collect results until take is called.
type clients struct {
	url string

	mu   sync.Mutex
	took []time.Duration // durations of the successful operations
	load Load
	// the server's ends of the connections, or the clients' ends if the server is another process
	open map[net.Conn]bool
}

func (c *clients) serve(dir string, size int) (stop func(), err error) {
	if err := os.WriteFile(filepath.Join(dir, "file.bin"), make([]byte, size), 0o644); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	srv := httptest.NewUnstartedServer(chunk.FileServer(root))
	srv.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		c.track(conn, state != http.StateClosed && state != http.StateHijacked)
	}
	srv.Start()
	c.url = srv.URL + "/file.bin"
	return func() {
		srv.Close()
		root.Close()
	}, nil
}

func (c *clients) track(conn net.Conn, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[net.Conn]bool)
	}
	if delete(c.open, conn); open {
		c.open[conn] = true
	}
}

// conns implements Options.Conns.
func (c *clients) conns() (all []syscall.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		if s, ok := conn.(syscall.Conn); ok {
			all = append(all, s)
		}
	}
	return all
}

// take implements Options.Load.
func (c *clients) take() Load {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.load
	if n := len(c.took); n > 0 {
		slices.Sort(c.took)
		l.P50, l.P99 = c.took[n/2], c.took[n*99/100]
	}
	c.load, c.took = Load{}, c.took[:0]
	return l
}

// run starts n clients, which request the URL until ctx ends. If no request succeeds, it returns an
// error.
func (c *clients) run(ctx context.Context, n int) error {
	transport := &http.Transport{MaxIdleConnsPerHost: n, DisableCompression: true}
	if options.url != "" {
		transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				c.track(conn, true)
			}
			return conn, err
		}
	}
	defer transport.CloseIdleConnections()
	var all sync.WaitGroup
	var last error
	succeeded := false
	for range n {
		all.Go(func() {
			buf := make([]byte, 64<<10)
			for ctx.Err() == nil {
				began := time.Now()
				bytes, err := get(ctx, transport, c.url, buf)
				if ctx.Err() != nil {
					return // an interrupted operation does not count
				}
				c.mu.Lock()
				if err != nil {
					c.load.Errors++
					last = err
				} else {
					c.load.Operations++
					succeeded = true
					c.took = append(c.took, time.Since(began))
				}
				c.load.Bytes += bytes
				c.mu.Unlock()
			}
		})
	}
	all.Wait()
	if !succeeded {
		return errors.Join(errors.New("no request succeeded"), last)
	}
	return nil
}

func get(ctx context.Context, t http.RoundTripper, url string, buf []byte) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s", url, res.Status)
	}
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{res.Body}, buf)
}
