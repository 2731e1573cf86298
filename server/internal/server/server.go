package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/push"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/rtmp"
	"github.com/millrace-io/millrace/server/internal/store"
)

// A Server relays streams. Create it with New, then call Serve or Run, once.
type Server struct {
	cfg      Config
	log      *slog.Logger
	hub      *live.Hub
	acceptor *rtmp.Acceptor
	cert     certificates // nil without TLS
	files    *store.Files // nil if no files are served
	blobs    *store.Blobs // nil if no blobs are served
	records  *recordings  // nil if no streams are recorded
	node     *clusterNode // nil without a cluster
	push     *push.Pusher
	started  time.Time

	// gate decides who may use the main listener and the RTMP listeners. Its policy depends on
	// whether other machines can reach the main listener, which Serve determines. Reload replaces
	// the policy.
	gate *access.Gate
	// operator decides who may use the admin listener. Reading pages of the listener needs the
	// admin token, if there is one. Serve sets the policy of this Gate, and Reload replaces it.
	operator *access.Gate
	hook     *hook.Client // nil without a hook
	origins  *access.Origins
	clients  *clients
	budget   *answer.Budget
	refusals *access.Refusals

	handshakes  rtmp.Handshakes
	connections connections

	stopServing context.CancelFunc // ends Serve, as SIGTERM does; set by Serve

	draining context.Context // ends when the shutdown begins
	drain    context.CancelFunc

	reconnectWait time.Duration // see the constant reconnectWait; longer in tests
}

// New returns a server, or an error if the configuration cannot be used. The caller must call Serve
// or Run, which also release the server's resources.
func New(cfg Config) (*Server, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = lock.Logger(cfg.Log)
	s := &Server{cfg: cfg, log: cfg.Log, started: time.Now(), origins: new(access.Origins),
		reconnectWait: reconnectWait}
	s.draining, s.drain = context.WithCancel(context.Background())
	s.origins.Set(cfg.origins())
	s.refusals = access.NewRefusals(cfg.Log, s.origins, cfg.Hook != "")
	var limited *memory.Budget
	if cfg.MemoryBytes > 0 {
		limited = memory.New(cfg.MemoryBytes, millrace.DefaultPool(), cfg.Log)
	}
	s.budget = answer.New(limited, cfg.StallTimeout, s.refusals)
	s.clients = newClients(s.draining, &cfg, s.refusals)
	s.connections = connections{
		clients: s.clients, tls: cfg.hasTLS(), limit: cfg.MaxConnections,
		all: make(map[*proxy.Conn]netip.Addr), from: make(map[netip.Addr]int),
	}
	var err error
	if s.cert, err = openCertificates(&cfg); err != nil {
		return nil, err
	}
	keys, err := cfg.tokenKeys()
	if err == nil {
		s.hook, err = openHook(&s.cfg)
	}
	if err != nil {
		return nil, errors.Join(err, s.closeCertificates())
	}
	s.gate, s.operator = access.NewGate(s.hook, s.refusals), access.NewGate(nil, s.refusals)
	s.gate.SetPolicy(&access.Policy{Publish: cfg.PublishToken, Read: cfg.ReadToken, Keys: keys,
		Hook: s.hook != nil})
	if s.files, err = openFiles(&s.cfg, s.budget); err != nil {
		_ = s.closeStores(context.Background())
		return nil, err
	}
	if s.blobs, err = openBlobs(&s.cfg, s.gate, s.refusals, s.budget); err != nil {
		_ = s.closeStores(context.Background())
		return nil, err
	}
	streams := cfg.Config
	if s.records, err = openRecords(&s.cfg, s.gate, &streams); err != nil {
		_ = s.closeStores(context.Background())
		return nil, err
	}
	if s.node, err = openNode(&s.cfg, &streams); err != nil {
		_ = s.closeStores(context.Background())
		return nil, err
	}
	if s.push, err = openPush(&s.cfg, &streams); err != nil {
		_ = s.closeStores(context.Background())
		return nil, err
	}
	streams.Memory = s.budget.Memory
	s.hub = live.NewHub(streams)
	s.push.Start(s.hub)
	s.acceptor = rtmp.New(s.hub)
	if s.node != nil {
		s.budget.Memory.Add(memory.Step{Name: "cache", Above: 8, Free: s.node.objects.Free})
	}
	s.budget.Memory.Add(memory.Step{Name: "connections", Above: 11, Heap: true,
		Free: s.connections.free})
	s.budget.AddSteps()
	s.budget.Memory.Add(live.MemorySteps(s.hub)...)
	if s.records != nil {
		s.budget.Memory.Add(memory.Step{Name: "recordings", Above: 12, Free: s.records.Free})
	}
	return s, nil
}

// openHook returns a client for the hook of cfg, or nil if cfg names no hook. The caller must close
// the client.
func openHook(cfg *Config) (*hook.Client, error) {
	if cfg.Hook == "" {
		return nil, nil
	}
	return hook.New(hook.Config{
		URL: cfg.Hook, Timeout: cfg.HookTimeout, Open: cfg.HookOpen, Node: cfg.self(), Log: cfg.Log,
	})
}

// AwaitRecords waits until this process may use the directory of recordings; see Config.Successor.
func (s *Server) AwaitRecords(ctx context.Context) error { return s.records.await(ctx) }

// closeStores closes the files, the blobs, the recordings, the node and the hook. The context ctx
// limits how long the recordings, the node and the hook may take.
func (s *Server) closeStores(ctx context.Context) error {
	err := errors.Join(s.files.Close(), s.blobs.Close(), s.records.close(ctx), s.node.close(ctx),
		s.closeCertificates())
	s.hook.Close(ctx) // last, because the ends of publishers and players are reported to the hook
	return err
}
