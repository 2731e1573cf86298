package sim

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/server"
)

const (
	publishToken = "publish"
	mainPort     = "8080"
	rtmpPort     = "1935"
)

// NodeConfig has the settings that differ between nodes or histories.
type NodeConfig struct {
	Lease    time.Duration
	Takeover live.Takeover
	Segments bool          // segments are stored in Redis
	Skew     time.Duration // the node's wall clock is ahead by this time
}

// A Node is a server at a host. It can be started again after its end.
type Node struct {
	host *Host
	cfg  NodeConfig
	log  *logBook

	mu      sync.Mutex
	process *Process
	stop    context.CancelFunc // nil if the node does not run
	running sync.WaitGroup     // all servers so far, including servers in their shutdown
}

// addressOf returns the address of a node for other nodes.
func addressOf(name string) string { return "http://" + name + ":" + mainPort }

// NewNode returns a node that does not run yet. Each line of its log goes to log.
func NewNode(h *Host, cfg NodeConfig, log *logBook) *Node {
	return &Node{host: h, cfg: cfg, log: log}
}

// Start starts the server of the node.
func (n *Node) Start() error {
	cfg := server.Defaults()
	cfg.Listen, cfg.RTMP = n.host.name+":"+mainPort, n.host.name+":"+rtmpPort
	cfg.PublishToken = publishToken
	cfg.Cluster, cfg.ClusterToken = "redis://"+RedisAddress, "cluster"
	cfg.Advertise = addressOf(n.host.name)
	cfg.ClusterLease, cfg.Takeover = n.cfg.Lease, n.cfg.Takeover
	cfg.PublishTimeout, cfg.StallTimeout = 10*time.Second, 10*time.Second
	cfg.DrainTimeout = 2 * time.Second
	process := n.host.Start()
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := process.Dial(ctx, network, address)
		if _, limited := ctx.Deadline(); err == nil && !limited && address == RedisAddress {
			// The connection is for events. When the node ends, go-redis must not wait for a reply
			// while it holds the mutex that its method Close needs: the bubble would stand still.
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	if n.cfg.Segments {
		cfg.Segments = "redis"
	}
	cfg.HLS.Now = func() time.Time { return time.Now().Add(n.cfg.Skew) }
	cfg.Log = slog.New(slog.NewTextHandler(n.log.writer(n.host.name), &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	n.mu.Lock()
	n.process, n.stop = process, stop
	n.mu.Unlock()
	l := server.Listeners{Main: process.Listen(mainPort), RTMP: process.Listen(rtmpPort)}
	n.running.Go(func() {
		if err := s.Serve(ctx, l); err != nil && ctx.Err() == nil {
			n.log.add(n.host.name, "the server has failed: "+err.Error())
		}
	})
	return nil
}

// Stop ends the server as SIGTERM does. It does not wait.
func (n *Node) Stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// Kill ends the server as SIGKILL does.
func (n *Node) Kill() {
	n.Process().Kill()
	n.Stop()
}

// PowerOff ends the server and the power of its host. PowerOn brings the power back, and Start the
// server.
func (n *Node) PowerOff() {
	n.Process().PowerOff()
	n.Stop()
}

// Process returns the process of the latest start.
func (n *Node) Process() *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// Await waits until all servers of the node have returned.
func (n *Node) Await() { n.running.Wait() }

// A logBook has the lines of a history's log, for the trace of a failed one.
type logBook struct {
	start time.Time
	mu    sync.Mutex
	lines []string
}

func (b *logBook) add(who, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf("%8.3f %-6s %s", time.Since(b.start).Seconds(), who, text))
}

func (b *logBook) addf(who, format string, args ...any) { b.add(who, fmt.Sprintf(format, args...)) }

func (b *logBook) writer(who string) *logWriter { return &logWriter{b, who} }

type logWriter struct {
	book *logBook
	who  string
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.book.add(w.who, string(bytes.TrimSpace(p)))
	return len(p), nil
}
