package push

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// setupTime limits the time to connect to a server until it accepts the stream.
	setupTime = 10 * time.Second
	// firstPause is the pause after the first failure. The pause doubles after each further
	// failure, up to mostPause. Each pause is up to a quarter shorter, so that many streams do not
	// come back to a server at once.
	firstPause = time.Second
	mostPause  = 30 * time.Second
	// steadyAfter is how long a connection must last so that the next pause is firstPause again.
	steadyAfter = 30 * time.Second
	awaitTime   = time.Second
)

// Config configures a Pusher.
type Config struct {
	Routes []Route
	// Secret returns the secret for a word in braces.
	Secret func(word string) (string, bool)
	// Dial opens a connection. If it is nil, a net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config // nil: trusts the system's authorities

	Program   string // name and version of this program, for the other servers
	ChunkSize int    // chunk size of the hub's RTMP messages, in bytes
	Retries   int    // how often in a row a push tries again at the other server before it gives up; 0: no limit
	Unsent    int    // limits the unsent bytes of a connection in the kernel; 0: the system's default
	Log       *slog.Logger
}

// A Pusher sends streams on to other servers.
type Pusher struct {
	cfg     Config
	viewers live.Admission
	running sync.WaitGroup

	mu       lock.Mutex
	streams  map[string]context.Context // the contexts of the streams that exist, by name
	pushes   map[uint64]*push           // by number
	last     uint64                     // the number of the latest push
	failures int64
	sent     int64 // bytes of the connections that have ended
}

// New returns a Pusher. An error means that a secret is missing, that it makes an address invalid,
// or that two routes are equal. The caller must call Start before the Hub has a stream.
func New(cfg Config) (*Pusher, error) {
	for i, r := range cfg.Routes {
		if slices.Contains(cfg.Routes[:i], r) { // the two would replace each other without end
			return nil, fmt.Errorf("two routes of %q are equal", r.pattern)
		}
		if _, err := r.target("name", cfg.Secret); err != nil {
			return nil, fmt.Errorf("the route of %q: %w", r.pattern, err)
		}
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	return &Pusher{cfg: cfg, streams: make(map[string]context.Context),
		pushes: make(map[uint64]*push)}, nil
}

// Start sets the Hub that has the streams.
func (p *Pusher) Start(h *live.Hub) { p.viewers = live.NewAdmission(h) }

// Push sends a stream to the addresses of all routes that match its name, and to the given URLs, in
// which words in braces have the same meaning, until ctx ends; see [live.Config].
func (p *Pusher) Push(ctx context.Context, name string, urls []string) {
	p.mu.Lock()
	p.streams[name] = ctx
	p.mu.Unlock()
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.streams[name] == ctx {
			delete(p.streams, name)
		}
	})
	for _, r := range p.cfg.Routes {
		if r.Matches(name) {
			p.push(ctx, name, r)
		}
	}
	for _, url := range urls {
		p.push(ctx, name, Route{pattern: name, address: url})
	}
}

// Add sends a stream that exists to a URL, until the stream ends. It returns the number of the
// push. Words in braces are not replaced, so that the caller cannot learn the keys. If this node
// has no publisher of the stream, the error is ErrAbsent. No error contains the URL.
func (p *Pusher) Add(name, url string) (id uint64, err error) {
	p.mu.Lock()
	ctx := p.streams[name]
	p.mu.Unlock()
	if ctx == nil {
		return 0, ErrAbsent
	}
	none := func(string) (string, bool) { return "", false }
	return p.begin(ctx, name, Route{pattern: name, address: url}, none)
}

// ErrAbsent means that a stream has no publisher at this node.
var ErrAbsent = errors.New("the stream is not published at this node")

// End ends the push with the given number, and returns its last state. If there is none, ok is
// false. A push of a route begins again with the next stream of that name.
func (p *Pusher) End(id uint64) (was Info, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.pushes[id]
	if one == nil {
		return Info{}, false
	}
	one.stop(errByOperator)
	return one.info(), true
}

var errByOperator = errors.New("ended by the operator")

func (p *Pusher) push(ctx context.Context, name string, r Route) {
	if _, err := p.begin(ctx, name, r, p.cfg.Secret); err != nil {
		p.cfg.Log.Error("a stream cannot be pushed", "stream", name, "reason", err)
	}
}

func (p *Pusher) begin(ctx context.Context, name string, r Route,
	secret func(word string) (string, bool)) (id uint64, err error) {
	to, err := r.target(name, secret)
	if err != nil {
		return 0, err
	}
	one := &push{pusher: p, name: name, to: to,
		log: p.cfg.Log.With("stream", name, "to", to.String())}
	ctx, one.stop = context.WithCancelCause(ctx)
	p.mu.Lock()
	p.last++
	one.id = p.last
	p.pushes[one.id] = one
	p.mu.Unlock()
	p.running.Go(func() {
		defer one.stop(nil)
		one.run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pushes, one.id)
	})
	return one.id, nil
}

// Await waits until all connections have ended, or until ctx ends, but at most for awaitTime,
// because the streams have been sent, and some servers do not close their connections. It is called
// after the Hub has drained.
func (p *Pusher) Await(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		p.running.Wait()
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	_ = limit.AwaitContext(ctx, ended)
}

// Info describes one push, as JSON.
type Info struct {
	ID        uint64  `json:"id"`
	Stream    string  `json:"stream"`
	To        string  `json:"to"`        // the address without secrets
	Connected bool    `json:"connected"` // the stream is sent; over RTMP, the server has accepted it
	Seconds   float64 `json:"seconds"`   // since the last change of Connected
	Bytes     int64   `json:"bytes"`     // sent on the current connection
	Failures  int64   `json:"failures"`
	GaveUp    bool    `json:"gave_up,omitempty"` // it does not try again
	Reason    string  `json:"reason,omitempty"`  // of the last failure
}

// Stats is a snapshot of a Pusher.
type Stats struct {
	Pushes   []Info // sorted by stream and address
	Failures int64  // attempts that have failed, and connections that have ended before their stream
	Bytes    int64  // sent to all servers
}

// Stats returns a snapshot of p.
func (p *Pusher) Stats() Stats {
	p.mu.Lock()
	st := Stats{Failures: p.failures, Bytes: p.sent}
	for _, one := range p.pushes {
		i := one.info()
		st.Pushes = append(st.Pushes, i)
		st.Bytes += i.Bytes
	}
	p.mu.Unlock()
	slices.SortFunc(st.Pushes, func(a, b Info) int {
		return strings.Compare(a.Stream+" "+a.To, b.Stream+" "+b.To)
	})
	return st
}

// A push sends one stream to one address.
type push struct {
	pusher *Pusher
	id     uint64
	name   string
	stop   context.CancelCauseFunc // ends the context of run
	to     *target
	log    *slog.Logger

	// Guarded by Pusher.mu.
	conn     *connection // nil while the stream is not sent
	since    time.Time   // of the last change of conn
	failures int64
	gaveUp   bool
	reason   string // of the last failure
}

// run sends the stream until ctx ends. After a failure, it tries again, up to Config.Retries times
// in a row.
func (p *push) run(ctx context.Context) {
	p.setConn(nil)
	pause := firstPause
	for failed := 1; ; failed++ {
		began := time.Now()
		err := p.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > steadyAfter {
			pause, failed = firstPause, 1
		}
		if _, ok := errors.AsType[*refuse.Refusal](err); ok { // by this server
			failed--
		}
		if most := p.pusher.cfg.Retries; most > 0 && failed > most {
			p.fail(err, 0)
			<-ctx.Done()
			return
		}
		wait := pause - rand.N(pause/4)
		p.fail(err, wait)
		sleep.For(ctx, wait)
		pause = min(2*pause, mostPause)
	}
}

// fail records and logs a failure. The next attempt is after wait; if wait is 0, there is none. A
// repeated failure is logged with level debug.
func (p *push) fail(err error, wait time.Duration) {
	if op, ok := errors.AsType[*net.OpError](err); ok { // its text has the number of our port
		err = fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	reason := p.to.hide(err.Error())
	p.pusher.mu.Lock()
	level := slog.LevelWarn
	if p.reason == reason && wait > 0 {
		level = slog.LevelDebug
	}
	p.failures++
	p.pusher.failures++
	p.reason, p.gaveUp = reason, wait == 0
	p.pusher.mu.Unlock()
	next := slog.Duration("again in", wait.Round(time.Millisecond))
	if wait == 0 {
		next = slog.String("again in", "never (--push-retries)")
	}
	p.log.LogAttrs(context.Background(), level, "push failed", slog.String("reason", reason), next)
}

func (p *push) setConn(c *connection) {
	p.pusher.mu.Lock()
	defer p.pusher.mu.Unlock()
	if p.conn != nil {
		p.pusher.sent += p.conn.viewer.Sent()
	}
	p.conn, p.since = c, time.Now()
}

// info returns the state of p. The caller must hold Pusher.mu.
func (p *push) info() Info {
	i := Info{ID: p.id, Stream: p.name, To: p.to.String(), Connected: p.conn != nil,
		Seconds:  time.Since(p.since).Seconds(),
		Failures: p.failures, GaveUp: p.gaveUp, Reason: p.reason}
	if p.conn != nil {
		i.Bytes = p.conn.viewer.Sent()
	}
	return i
}

// connect connects to the server, and sends the stream until the connection or the stream ends. The
// error is never nil if the stream has not ended.
func (p *push) connect(ctx context.Context) error {
	if err := p.pusher.viewers.CheckPush(p.name); err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(ctx, setupTime)
	defer cancel()
	conn, err := p.dial(setup)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(setup, func() { _ = conn.Close() })
	defer stop()
	open := p.publishRTMP
	if p.to.http != nil {
		open = p.postFLV
	}
	c, err := open(setup, conn)
	if err == nil && !stop() {
		c.viewer.End(endedEarly)
	}
	if err != nil {
		_ = conn.Close()
		if setup.Err() == context.DeadlineExceeded {
			return fmt.Errorf("the server has not accepted the stream within %v: %w", setupTime, err)
		}
		return err
	}
	defer context.AfterFunc(ctx, func() {
		if context.Cause(ctx) == errByOperator { // otherwise the viewer gets the end of the stream
			c.viewer.End(fanout.ByOperator)
		}
	})()
	p.setConn(c)
	p.log.Info("push started")
	err = <-c.ended
	p.setConn(nil)
	if reason := c.viewer.Reason(); err == nil || !isHangUp(reason) {
		err = errors.New(reason.String())
	}
	p.log.Info("push ended", "reason", p.to.hide(err.Error()), "bytes", c.viewer.Sent())
	return err
}

func (p *push) dial(ctx context.Context) (net.Conn, error) {
	address, secure := p.to.host()
	conn, err := p.pusher.cfg.Dial(ctx, "tcp", address)
	if err != nil || !secure {
		return conn, err
	}
	cfg := &tls.Config{}
	if p.pusher.cfg.TLS != nil {
		cfg = p.pusher.cfg.TLS.Clone()
	}
	cfg.ServerName, _, _ = net.SplitHostPort(address)
	over := tls.Client(conn, cfg)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return over, nil
}
