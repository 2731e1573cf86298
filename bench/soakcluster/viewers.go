package soakcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/fmp4"
	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
)

// A viewer watches a stream over one protocol, connection after connection.
type viewer struct {
	*stream
	kind string
	way  func(v *viewer, ctx context.Context, n *node) error
	rand *rand.Rand
}

// A viewerKind is a kind of viewers, with the function that watches a stream once.
type viewerKind struct {
	name string
	way  func(v *viewer, ctx context.Context, n *node) error
}

// kinds are the kinds of the viewers of each stream.
var kinds = []viewerKind{
	{"FLV", func(v *viewer, ctx context.Context, n *node) error {
		return v.flv(ctx, false, n.url(), n.number)
	}},
	{"HLS", (*viewer).hls},
	{"FLV over HTTP/2", func(v *viewer, ctx context.Context, n *node) error {
		return v.flv(ctx, true, n.url(), n.number)
	}},
	{"RTMP", func(v *viewer, ctx context.Context, n *node) error {
		return v.rtmp(ctx, n.rtmp, n.number)
	}},
	{"MP4", func(v *viewer, ctx context.Context, n *node) error {
		return v.mp4(ctx, n.url(), n.number)
	}},
	{"FLV through nginx with TLS and HTTP/2", func(v *viewer, ctx context.Context, _ *node) error {
		return v.flv(ctx, true, "https://"+v.site.secure, -1)
	}},
	{"MP4 through nginx", func(v *viewer, ctx context.Context, _ *node) error {
		return v.mp4(ctx, "http://"+v.site.front, -1)
	}},
	{"RTMP through nginx", func(v *viewer, ctx context.Context, _ *node) error {
		return v.rtmp(ctx, v.site.rtmp, -1)
	}},
	{"FLV that stalls", func(v *viewer, ctx context.Context, n *node) error {
		return v.flv(ctx, false, n.url(), n.number)
	}},
	{"FLV with TLS", func(v *viewer, ctx context.Context, _ *node) error {
		n := v.site.nodes[numNodes-1]
		return v.flv(ctx, false, n.url(), n.number)
	}},
	{"FLV over WebSocket", (*viewer).socket},
}

func newViewer(s *stream, number int) *viewer {
	k := kinds[number%len(kinds)]
	return &viewer{stream: s, kind: k.name, way: k.way, rand: s.random(1 + number)}
}

// A wrongError says that a server sent a wrong byte or a wrong order, which is always a fault.
type wrongError struct{ error }

// run watches the stream until ctx ends.
func (v *viewer) run(ctx context.Context) {
	sleep.For(ctx, time.Duration(v.rand.Int64N(int64(5*time.Second))))
	for ctx.Err() == nil {
		stay := 5*time.Second + time.Duration(v.rand.Int64N(int64(time.Minute)))
		connection, leave := context.WithTimeout(ctx, stay)
		err := v.way(v, connection, v.site.nodes[v.rand.IntN(numNodes)])
		bad := wrongError{}
		switch {
		case errors.As(err, &bad):
			v.faults.add("%s: stream %s: %v", v.kind, v.name, err)
		case isCut(err) && connection.Err() == nil:
			v.done.add(v.kind, "interrupted", 1)
		}
		leave()
		sleep.For(ctx, 200*time.Millisecond+time.Duration(v.rand.Int64N(int64(time.Second))))
	}
}

// stallTime is how long a viewer that stalls reads nothing.
const stallTime = 20 * time.Second

func (v *viewer) stalls() bool { return v.kind == "FLV that stalls" }

// dialSmall opens a connection with a small receive buffer, so that the server soon notices that
// the client does not read. The buffer must be set before the connection exists: the system drops
// packets that the peer sends into a larger window, and the peer repeats them late.
func dialSmall(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 32<<10)
		})
		return errors.Join(e, err)
	}}
	return d.DialContext(ctx, network, addr)
}

// patience is how long a connection may be silent, if the stream has a publisher and no node has
// failed.
const patience = 30 * time.Second

// patient calls f, which must add to the counter whenever something arrives. If nothing arrives for
// too long, patient records a fault and cancels the context of f.
func (v *viewer) patient(ctx context.Context, node int,
	f func(context.Context, *atomic.Int64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var arrivals atomic.Int64
	seen, since := int64(0), time.Now()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	done := make(chan error, 1)
	go func() { done <- f(ctx, &arrivals) }()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
		}
		s := v.session(-1)
		if n := arrivals.Load(); n != seen || s.began.IsZero() || !s.ended.IsZero() ||
			v.events.failed(since, time.Now(), s.node, node) || s.began.After(since) {
			seen, since = n, time.Now()
		}
		patience := patience
		if v.stalls() {
			patience += stallTime
		}
		if time.Since(since) > patience && ctx.Err() == nil {
			v.faults.add("%s: stream %s, at node %d, published at %d since %v: nothing has arrived for %v",
				v.kind, v.name, node, s.node, s.began.UTC().Format("15:04:05.000"), patience)
			cancel()
			<-done
			return errSilent
		}
	}
}

func (v *viewer) flv(ctx context.Context, http2 bool, url string, node int) error {
	client := v.site.client(http2)
	if v.stalls() {
		client.Transport.(*http.Transport).DialContext = dialSmall
	}
	defer client.CloseIdleConnections()
	return v.patient(ctx, node, func(ctx context.Context, arrivals *atomic.Int64) error {
		sub, err := httpflv.Watch(ctx, client, url+"/live/"+v.name+".flv")
		if err != nil {
			return err
		}
		return v.follow(ctx, sub, node, arrivals)
	})
}

func (v *viewer) rtmp(ctx context.Context, addr string, node int) error {
	return v.patient(ctx, node, func(ctx context.Context, arrivals *atomic.Int64) error {
		sub, err := (&rtmp.Server{Addr: addr}).Watch(ctx, v.name)
		if err != nil {
			return err
		}
		return v.follow(ctx, sub, node, arrivals)
	})
}

// follow checks the tags of a subscription, and closes it.
func (v *viewer) follow(ctx context.Context, sub load.Subscription, node int,
	arrivals *atomic.Int64) error {
	defer sub.Close()
	v.done.add(v.kind, "connections", 1)
	f := newFollower(v.stream, v.kind, node)
	var a load.Arrival
	var at uint32
	for tags := 0; ; tags++ {
		if v.stalls() && tags%500 == 200 {
			sleep.For(ctx, stallTime)
		}
		err := sub.Next(&a)
		if errors.Is(err, io.EOF) && ctx.Err() == nil {
			f.ended()
		}
		if errors.Is(err, httpflv.ErrFormat) {
			return wrongError{err}
		}
		if err != nil {
			return err
		}
		arrivals.Add(1)
		before := f.any
		if err := f.tag(a.Kind, a.Head); err != nil {
			return wrongError{err}
		}
		if f.any == before {
			continue // a header
		}
		if a.Timestamp < at {
			return wrongError{fmt.Errorf("tag %d is at %d ms, after %d ms", f.any, a.Timestamp, at)}
		}
		at = a.Timestamp
	}
}

func (v *viewer) mp4(ctx context.Context, url string, node int) error {
	client := v.site.client(false)
	defer client.CloseIdleConnections()
	return v.patient(ctx, node, func(ctx context.Context, arrivals *atomic.Int64) error {
		sub, err := httpflv.Watch(ctx, client, url+"/live/"+v.name+".mp4")
		if err != nil {
			return err
		}
		defer sub.Close()
		v.done.add(v.kind, "connections", 1)
		f := newFollower(v.stream, v.kind, node)
		f.inMP4 = true
		var file fmp4.Reader
		var moof []byte
		for {
			head, err := sub.Peek(8)
			if errors.Is(err, io.EOF) && ctx.Err() == nil && len(head) == 0 {
				f.ended()
			}
			if err != nil {
				return err
			}
			kind, size, err := fmp4.ParseHead(head)
			if err != nil {
				return wrongError{err}
			}
			box, err := sub.Read(size)
			if err != nil {
				return err
			}
			arrivals.Add(1)
			if kind == "moof" {
				moof = slices.Clone(box)
				continue
			}
			if err := file.Bytes(slices.Concat(moof, box), f.sample); err != nil {
				return wrongError{err}
			}
			moof = nil
		}
	})
}

// sample checks a sample of MP4.
func (f *follower) sample(s fmp4.Sample) error {
	if s.Start < f.end[s.Kind] {
		return fmt.Errorf("%w: a sample begins at %d, before the previous one is over at %d", errOrder,
			s.Start, f.end[s.Kind])
	}
	f.end[s.Kind] = s.End
	return f.tag(s.Kind, s.Payload)
}

// mayRepeat prepares for the first object after a discontinuity. The next owner of a stream may
// begin with frames that the player has already received from the previous owner.
func (f *follower) mayRepeat() {
	f.end, f.last, f.first, f.count = [load.Video + 1]int64{}, [load.Video + 1]uint64{}, f.any, 0
}

// tolerated are rules of HLS that depend on the machine's speed or on the random bit rate, or that
// a failure breaks at once. The report counts them, but they are no faults.
var tolerated = []string{"object-missing", "hint-unavailable", "hint-broken", "part-late",
	"reload-early", "server-change", "part-withdrawn", "part-removed-early", "segment-withdrawn",
	"window-short", "date-drift", "hint-cut", "bandwidth-low", "part-short", "parts-old", "gzip",
	"frame-rate", "date-overlap", "resolution", "date-discontinuity"}

func (v *viewer) hls(ctx context.Context, n *node) error {
	client := v.site.client(true)
	defer client.CloseIdleConnections()
	return v.patient(ctx, n.number, func(ctx context.Context, arrivals *atomic.Int64) error {
		began := time.Now()
		f := newFollower(v.stream, v.kind, n.number)
		f.inMP4 = true
		var file fmp4.Reader
		var bad error
		var recent []string // the last objects
		c := &hlscheck.Client{URL: n.url() + "/live/" + v.name + "/index.m3u8", HTTP: client,
			Hints: true, Delta: true, Verify: 4}
		c.Object = func(o hlscheck.Object) {
			arrivals.Add(1)
			recent = append(recent[max(0, len(recent)-8):], fmt.Sprintf("%s %s, after tag %d",
				time.Now().UTC().Format("15:04:05.000"), o.URI, f.any))
			if o.Break {
				f.mayRepeat()
			}
			// The request for the header may have failed.
			if err := file.Bytes(o.Data, f.sample); err != nil && bad == nil &&
				!errors.Is(err, fmp4.ErrNoHeader) {
				bad = fmt.Errorf("at node %d: %s: %w", n.number, strings.Join(recent, "; "), err)
			}
		}
		c.Playlist = func(number int) {
			if number == 1 {
				v.done.add(v.kind, "connections", 1)
			}
		}
		stats, err := c.Run(ctx)
		if bad != nil && !(errors.Is(bad, errOrder) && v.events.redisFailed(began.Add(-rest))) {
			return wrongError{bad}
		}
		for _, p := range stats.Problems {
			v.done.add("rules of HLS", p.Rule, 1)
			if !slices.Contains(tolerated, p.Rule) && !v.events.failed(began.Add(-rest), time.Now(), -1) {
				return wrongError{errors.New(strings.TrimSpace(p.String()))}
			}
		}
		if err == nil && ctx.Err() == nil {
			return io.EOF
		}
		return err
	})
}
