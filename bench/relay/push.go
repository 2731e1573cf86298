package relay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

// Push measures the CPU time for sending streams to another server, and whether viewers are delayed
// by a server that does not read.
var Push = &measure.Program{
	Name: "push", What: "streams that are sent on to another server, beside viewers", Rounds: 5,
	Brief: []string{"-rounds", "2"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&pushCase, "case", "50x2", "STREAMSxVIEWERS")
		f.IntVar(&pushSeconds, "seconds", 5, "seconds measured of each turn")
	},
	Run: runPush,
}

var (
	pushCase    string
	pushSeconds int
)

func runPush(ctx context.Context, p *measure.Params) error {
	c, err := parseCase(pushCase)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	reads, err := listenAndRead()
	if err != nil {
		return err
	}
	defer reads.Close()
	hangs, err := listenAndHang()
	if err != nil {
		return err
	}
	defer hangs.Close()
	all := []contender{
		pushTo(dir, fmt.Sprintf("%d viewers of each stream", c.viewers), nil, 0),
		pushTo(dir, "a push instead of one viewer", reads, 1),
		pushTo(dir, "without that viewer", nil, 1),
		pushTo(dir, "without that viewer, beside a push that hangs", hangs, 1),
	}
	took := make([][]load.Report, len(all))
	options.seconds, options.bitRate = pushSeconds, 2_150_000
	err = measure.Rounds(ctx, len(all), p.Rounds, func(round, i int) error {
		r, err := takeTurn(ctx, all[i], c)
		took[i] = append(took[i], r)
		return err
	})
	if err != nil {
		return err
	}
	return p.Add(pushTable(c, all, took, p.Rounds))
}

// pushTo returns a contender that runs "millrace serve", which sends all streams on to a server if
// to is not nil. Each stream has fewer viewers.
func pushTo(dir, name string, to net.Listener, fewer int) contender {
	c := goContender(dir, measure.Millrace, measure.Millrace,
		func(addr string, c *load.Config) ([]string, error) {
			args := []string{"serve", "--listen", addr, "--rtmp", "", "--log-level", "warn"}
			if to != nil {
				args = append(args, "--push", "live/*=http://"+to.Addr().String()+"/{name}.flv")
			}
			c.Viewers -= fewer
			return args, nil
		})
	c.name = name
	return c
}

// listenAndRead starts an HTTP server that reads all requests to their ends. Its listener ends it.
func listenAndRead() (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		_ = http.Serve(ln, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		}))
	}()
	return ln, nil
}

// listenAndHang starts a server that accepts connections, and reads nothing.
func listenAndHang() (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		var held []net.Conn
		for {
			conn, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				break
			}
			if err != nil {
				continue
			}
			_ = conn.(*net.TCPConn).SetReadBuffer(4096)
			held = append(held, conn)
		}
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	return ln, nil
}

func pushTable(c testCase, all []contender, took [][]load.Report, rounds int) *measure.Table {
	t := measure.NewTable("relay-push",
		fmt.Sprintf("%d streams of 2.15 Mbit/s over HTTP-FLV, %d rounds of %d s", c.streams, rounds,
			pushSeconds),
		"what the server sends", "server CPU ms", "x the first", "x without that viewer",
		"viewers' latency p50 ms", "viewers' latency p99 ms", "x without that viewer", "tags lost")
	t.Bar = 2
	series := func(i int, f func(load.Report) float64) (s measure.Series) {
		for _, r := range took[i] {
			s = append(s, f(r))
		}
		return s
	}
	cpu := func(r load.Report) float64 { return milliseconds(usage(r).CPU) }
	p99 := func(r load.Report) float64 { return milliseconds(r.Viewers.Latency.P99) }
	const without = 2
	for i, who := range all {
		t.Row(who.name, series(i, cpu), series(i, cpu).Over(series(0, cpu)),
			series(i, cpu).Over(series(without, cpu)),
			series(i, func(r load.Report) float64 {
				return milliseconds(r.Viewers.Latency.P50)
			}),
			series(i, p99), series(i, p99).Over(series(without, p99)),
			series(i, func(r load.Report) float64 { return float64(r.Viewers.Lost) }).Max())
	}
	return t
}
