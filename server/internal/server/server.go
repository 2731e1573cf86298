package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/limit"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/proxy"
	"github.com/millrace-io/millrace/server/internal/relay"
	"github.com/millrace-io/millrace/server/internal/rtmp"
	"github.com/millrace-io/millrace/server/internal/store"
)

// A Server relays streams. New makes one, and Serve runs it once.
type Server struct {
	cfg     Config
	log     *slog.Logger
	relay   *relay.Hub
	door    *rtmp.Door
	cert    *certificate // nil without TLS
	files   *store.Files // nil if no files are served
	blobs   *store.Blobs // nil if no blobs are kept
	records *recordings  // nil if no streams are recorded
	node    *clusterNode // nil if the server is alone
	started time.Time

	gate     *access.Gate // of the main listener and RTMP. Reload replaces its policy, and Serve says who reaches it
	operator *access.Gate // of the admin listener: to read takes the token of the operator. Serve sets its policy
	hook     *hook.Client // nil if none is asked
	origins  *access.Origins
	clients  *clients
	budget   *answer.Budget
	refusals *access.Refusals

	handshakes  rtmp.Handshakes
	connections connections
	rtmp        rtmpPort // set by Serve, as is rtmps
	rtmps       rtmpPort

	stopServing context.CancelFunc // has Serve end as SIGTERM does; set by Serve

	draining context.Context // ends when no more is to be published
	drain    context.CancelFunc
}

// New returns a server, or an error if the configuration cannot be used. The call that ends the server's life is Serve
// or Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = lock.Logger(cfg.Log)
	s := &Server{cfg: cfg, log: cfg.Log, started: time.Now(), origins: new(access.Origins)}
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
		clients: s.clients, tls: cfg.TLSCert != "", limit: cfg.MaxConnections,
		all: make(map[*proxy.Conn]netip.Addr), from: make(map[netip.Addr]int),
	}
	var err error
	if s.cert, err = openCertificate(&cfg, s.log); err != nil {
		return nil, err
	}
	keys, err := cfg.tokenKeys()
	if err != nil {
		return nil, err
	}
	if s.hook, err = openHook(&s.cfg); err != nil {
		return nil, err
	}
	s.gate, s.operator = access.NewGate(s.hook, s.refusals), access.NewGate(nil, s.refusals)
	s.gate.SetPolicy(&access.Policy{Publish: cfg.PublishToken, Read: cfg.ReadToken, Keys: keys, Hook: s.hook != nil})
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
	streams.Memory = s.budget.Memory
	s.relay = relay.NewHub(streams)
	s.door = rtmp.New(s.relay)
	if s.node != nil {
		s.budget.Memory.Add(memory.Step{Name: "cache", Above: 8, Free: s.node.objects.Free})
	}
	s.budget.Memory.Add(memory.Step{Name: "connections", Above: 11, Heap: true, Free: s.connections.free})
	s.budget.AddSteps()
	s.budget.Memory.Add(relay.MemorySteps(s.relay)...)
	if s.records != nil {
		s.budget.Memory.Add(memory.Step{Name: "recordings", Above: 12, Free: s.records.Free})
	}
	return s, nil
}

// openHook returns what asks the hook, or nil if the configuration names none. The call that ends its life is its Close.
func openHook(cfg *Config) (*hook.Client, error) {
	if cfg.Hook == "" {
		return nil, nil
	}
	return hook.New(hook.Config{
		URL: cfg.Hook, Timeout: cfg.HookTimeout, Open: cfg.HookOpen, Node: cfg.self(), Log: cfg.Log,
	})
}

// Run listens where the configuration says and serves until ctx ends; see Serve. It takes ownership of the listeners that
// are given by name, instead of which it opens none: main, admin, rtmp and rtmps.
func (s *Server) Run(ctx context.Context, given map[string]net.Listener) error {
	l, err := openListeners(&s.cfg, given)
	if err != nil {
		l.close()
		return errors.Join(err, s.closeStores(ctx))
	}
	return s.Serve(ctx, l)
}

// ErrReplaced is the cause of the end of Serve's context if another process has its listeners.
var ErrReplaced = errors.New("another process has taken the listeners over")

// acceptedPause is how long the requests of connections that were accepted already are served as before when another
// process has the listeners: as long as clients take to send their first request.
const acceptedPause = time.Second

// Serve takes ownership of the listeners and serves until ctx ends. Then it accepts no more connections, ends the
// publishers, lets the viewers have what is queued for them, and returns nil, all that within the drain timeout. It
// returns an error when it cannot serve.
func (s *Server) Serve(ctx context.Context, l Listeners) error {
	ctx, s.stopServing = context.WithCancel(ctx)
	defer s.stopServing()
	s.gate.SetPolicy(s.gate.Policy().On(access.IsLoopback(l.Main.Addr())))
	s.rtmp, s.rtmps = newRTMPPort(l.RTMP), newRTMPPort(l.RTMPS)
	if s.node != nil {
		s.node.Start(relay.NewPeers(s.relay))
	}
	main := s.httpServer(s.clients.nameClients(s.routes()), &s.budget.Requests)
	main.ConnState = s.connections.note
	servers := []*http.Server{main}
	failed := make(chan error, 2)
	go func() { failed <- s.serveMain(main, s.clients.behindProxies(l.Main, true)) }()
	if l.Admin != nil {
		s.operator.SetPolicy(&access.Policy{Read: s.cfg.AdminToken, Loopback: access.IsLoopback(l.Admin.Addr())})
		side := s.httpServer(s.adminRoutes(l.Main.Addr()), &s.budget.Operator)
		servers = append(servers, side)
		go func() { failed <- side.Serve(l.Admin) }()
	}
	watching, unwatch := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { s.budget.Memory.Run(watching) })
	if l.RTMP != nil {
		others.Go(func() { s.newRTMPService(l.RTMP.Addr(), nil).Serve(s.clients.behindProxies(l.RTMP, false)) })
	}
	if l.RTMPS != nil {
		others.Go(func() {
			s.newRTMPService(l.RTMPS.Addr(), s.cert.config()).Serve(s.clients.behindProxies(l.RTMPS, false))
		})
	}
	s.greet(l)
	if s.cfg.Ready != nil {
		s.cfg.Ready(l)
	}
	if s.cfg.Demo {
		others.Go(func() { (&demoService{s.relay, s.node, s.log}).run(s.draining) })
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("server: %w", err)
	}
	l.close()
	if context.Cause(ctx) == ErrReplaced {
		for _, srv := range servers {
			srv.SetKeepAlivesEnabled(false) // the next request is for the other process
		}
		time.Sleep(acceptedPause)
	}
	s.shutDown(servers)
	unwatch()
	others.Wait()
	return err
}

// newRTMPService returns the service of a listener. It takes ownership of config, which is nil without TLS.
func (s *Server) newRTMPService(at net.Addr, config *tls.Config) *rtmp.Service {
	if config != nil {
		config.SessionTicketsDisabled = true // rtmpdump takes a ticket of TLS 1.3 for an error
	}
	return &rtmp.Service{
		Door: s.door, Gate: s.gate, Refusals: s.refusals, Handshakes: &s.handshakes, Log: s.log,
		TLS: config, Loopback: access.IsLoopback(at), HeaderTimeout: s.cfg.HeaderTimeout, Draining: s.draining,
	}
}

// serveMain serves the main listener, over TLS if there is a certificate.
func (s *Server) serveMain(main *http.Server, ln net.Listener) error {
	if s.cert == nil {
		return main.Serve(ln)
	}
	main.TLSConfig = s.cert.config()
	main.Protocols.SetHTTP2(true)
	return main.ServeTLS(ln, "", "")
}

// AwaitRecords waits until the directory of recordings, if there is one, is this process's: see Config.Successor.
func (s *Server) AwaitRecords(ctx context.Context) error { return s.records.await(ctx) }

// closeStores closes the stores of files and blobs, the recordings, which may take until ctx ends, and the node.
func (s *Server) closeStores(ctx context.Context) error {
	err := errors.Join(s.files.Close(), s.blobs.Close(), s.records.close(ctx), s.node.close(ctx))
	s.hook.Close(ctx) // last: what is closed tells the hook of its end
	return err
}

// shutDown ends everything in the order in which nothing is lost: publishers first, then viewers when they have the
// rest. Downloads have the same time to come to their end.
func (s *Server) shutDown(servers []*http.Server) {
	began := time.Now()
	s.log.Info("shutting down", "streams", s.relay.Stats().Streams, "viewers", s.relay.Viewers(),
		"downloads", s.files.Held(), "blobs", s.blobs.Held(), "within", s.cfg.DrainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	s.drain()
	s.node.drain()
	s.relay.AskToReconnect(ctx)
	s.relay.Close()
	// The process that replaces this one waits for the directory of recordings: it does not wait for viewers, too.
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		s.relay.AwaitRecorders()
		_ = s.records.close(ctx) // closeStores has the error as well
	}()
	files, blobs := s.files.Drain(), s.blobs.Drain()

	var closing sync.WaitGroup
	for _, srv := range servers {
		closing.Go(func() {
			if err := srv.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
				if n, m := s.files.Held(), s.blobs.Held(); n+m > 0 && srv == servers[0] {
					s.log.Warn("time is up, downloads are cut", "downloads", n, "blobs", m)
				}
				_ = srv.Close()
			}
		})
	}
	s.relay.Drain(ctx)
	closing.Wait()
	limit.Await(s.log, "downloads", files) // their connections are closed
	limit.Await(s.log, "blobs", blobs)
	if err := s.closeStores(ctx); err != nil {
		s.log.Error("the files, blobs or recordings are not closed", "reason", err)
	}
	limit.Await(s.log, "recordings", recorded)
	s.log.Info("stopped", "after", time.Since(began).Round(time.Millisecond))
}
