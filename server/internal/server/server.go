package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/server/internal/address"
	"github.com/millrace-io/millrace/server/internal/limit"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/proxy"
	"github.com/millrace-io/millrace/server/internal/record"
	"github.com/millrace-io/millrace/server/internal/relay"
)

// maxHeaderBytes bounds a request's head. A browser sends about 1 KiB.
const maxHeaderBytes = 16 << 10

// A Server relays streams. New makes one, and Serve runs it once.
type Server struct {
	cfg     Config
	log     *slog.Logger
	relay   *relay.Hub
	cert    *certificate    // nil without TLS
	files   *fileService    // nil if no files are served
	blobs   *blobService    // nil if no blobs are kept
	records *record.Archive // nil if no streams are recorded
	node    *clusterNode    // nil if the server is alone
	started time.Time

	access   *access // Reload replaces its parts. Serve sets whether only this machine reaches the listeners
	clients  *clients
	budget   *budget
	refusals *refusals

	handshakes  handshakes
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
	s := &Server{cfg: cfg, log: cfg.Log, started: time.Now(), access: &access{log: cfg.Log}}
	s.draining, s.drain = context.WithCancel(context.Background())
	s.refusals = newRefusals(cfg.Log, &s.access.origins, cfg.Hook != "")
	s.access.refusals = s.refusals
	s.budget = newBudget(&s.cfg, s.refusals)
	s.clients = newClients(s.draining, &cfg, s.refusals)
	s.connections = connections{clients: s.clients, tls: cfg.TLSCert != "", limit: cfg.MaxConnections, all: make(map[*proxy.Conn]netip.Addr),
		from: make(map[netip.Addr]int)}
	var err error
	if s.cert, err = openCertificate(&cfg, s.log); err != nil {
		return nil, err
	}
	keys, err := cfg.tokenKeys()
	if err != nil {
		return nil, err
	}
	if s.files, err = openFiles(&s.cfg, s.budget); err != nil {
		return nil, err
	}
	if s.blobs, err = openBlobs(&s.cfg, s.access, s.budget); err != nil {
		_ = s.files.close()
		return nil, err
	}
	streams := cfg.Config
	if s.access.hook, err = openHook(s); err != nil {
		_ = s.closeStores(context.Background())
		return nil, err
	}
	s.access.auth.Store(&auth{publish: cfg.PublishToken, read: cfg.ReadToken, keys: keys, hook: s.access.hook != nil})
	s.access.origins.Store(cfg.origins())
	if s.records, err = openRecords(s, &streams); err != nil {
		_ = s.closeStores(context.Background())
		return nil, err
	}
	if s.node, err = openNode(s, &streams); err != nil {
		_ = s.closeStores(context.Background())
		return nil, err
	}
	streams.Memory = s.budget.memory
	s.relay = relay.New(streams)
	if s.node != nil {
		s.budget.memory.Add(memory.Step{Name: "cache", Above: 8, Free: s.node.objects.Free})
	}
	s.budget.memory.Add(memory.Step{Name: "connections", Above: 11, Heap: true, Free: s.connections.free})
	s.budget.addSteps()
	s.budget.memory.Add(s.relay.MemorySteps()...)
	if s.records != nil {
		s.budget.memory.Add(memory.Step{Name: "recordings", Above: 12, Free: s.records.Free})
	}
	return s, nil
}

// Listeners are what a Server listens on. All but Main may be nil.
type Listeners struct {
	Main  net.Listener
	Admin net.Listener
	RTMP  net.Listener
	RTMPS net.Listener // without TLS, which the Server adds
}

// close closes all of them.
func (l *Listeners) close() {
	for _, ln := range []net.Listener{l.Main, l.Admin, l.RTMP, l.RTMPS} {
		if ln != nil {
			_ = ln.Close()
		}
	}
}

// fields are the listeners by the names that systemd and a process that is replaced give them.
func (l *Listeners) fields() map[string]*net.Listener {
	return map[string]*net.Listener{"main": &l.Main, "admin": &l.Admin, "rtmp": &l.RTMP, "rtmps": &l.RTMPS}
}

// Named returns those that there are, by the names that Run takes.
func (l *Listeners) Named() map[string]net.Listener {
	named := make(map[string]net.Listener)
	for name, ln := range l.fields() {
		if *ln != nil {
			named[name] = *ln
		}
	}
	return named
}

// Run listens where the configuration says and serves until ctx ends; see Serve. It takes ownership of the listeners that
// are given by name, instead of which it opens none: main, admin, rtmp and rtmps.
func (s *Server) Run(ctx context.Context, given map[string]net.Listener) error {
	l, err := s.listen(given)
	if err != nil {
		l.close()
		return errors.Join(err, s.closeStores(ctx))
	}
	return s.Serve(ctx, l)
}

func (s *Server) listen(given map[string]net.Listener) (l Listeners, err error) {
	fields := l.fields()
	for name, ln := range given {
		if fields[name] == nil {
			err = fmt.Errorf("a listener is named %q, want main, admin, rtmp or rtmps: see FileDescriptorName= in systemd.socket(5)", name)
			_ = ln.Close()
			continue
		}
		*fields[name] = ln
	}
	if l.RTMPS != nil && s.cert == nil {
		err = errors.New("the listener rtmps needs --tls-cert and --tls-key")
	}
	if err != nil {
		return l, err
	}
	for _, a := range []struct {
		flag, address string
		ln            *net.Listener
	}{
		{"listen", s.cfg.Listen, &l.Main}, {"admin", s.cfg.Admin, &l.Admin},
		{"rtmp", s.cfg.RTMP, &l.RTMP}, {"rtmps", s.cfg.RTMPS, &l.RTMPS},
	} {
		if *a.ln != nil && s.cfg.Successor && !listensAt((*a.ln).Addr(), a.address) {
			s.log.Warn("the address has changed, and only a restart takes it over",
				"flag", "--"+a.flag, "want", a.address, "listening", (*a.ln).Addr().String())
		}
		if *a.ln != nil || a.address == "" {
			continue
		}
		ln, err := net.Listen(network(a.address), a.address)
		if err != nil && a.flag == "rtmp" && s.cfg.RTMPOptional {
			s.log.Warn("RTMP is off: its address cannot be used, and --rtmp chooses another one", "reason", err)
			continue
		}
		if err != nil {
			return l, listenError(a.flag, a.address, err)
		}
		*a.ln = ln
	}
	return l, nil
}

// network returns the network of an address to listen at: 0.0.0.0 means all addresses of IPv4.
func network(address string) string {
	host, _, _ := net.SplitHostPort(address)
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return "tcp4"
	}
	return "tcp"
}

// listensAt reports whether a listener at a is what an address of the configuration may mean.
func listensAt(a net.Addr, address string) bool {
	tcp, ok := a.(*net.TCPAddr)
	host, port, err := net.SplitHostPort(address)
	if !ok || err != nil {
		return !ok // a Unix socket of systemd, or no address
	}
	if number, err := net.LookupPort("tcp", port); err != nil || number != tcp.Port && number != 0 {
		return false
	}
	ip := net.ParseIP(host)
	switch {
	case host == "":
		return tcp.IP.IsUnspecified()
	case ip == nil: // a name, which may mean this address
		return host != "localhost" || tcp.IP.IsLoopback()
	}
	return ip.Equal(tcp.IP)
}

// listenError returns the error of listening at the address of a flag, and says what may help.
func listenError(flag, address string, err error) error {
	host, port, _ := net.SplitHostPort(address)
	n, notANumber := strconv.Atoi(port)
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("--%s: %w: this machine has no such address, and :%s is for all that it has", flag, err, port)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("--%s: %w: choose a port from 1024 on, or start the server with the socket units of deploy", flag, err)
	case !errors.Is(err, syscall.EADDRINUSE) || notANumber != nil:
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return fmt.Errorf("--%s: %w: choose another port, as in --%s %s, or port 0 for a free one", flag, err,
		flag, net.JoinHostPort(host, strconv.Itoa(n%math.MaxUint16+1)))
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
	s.access.auth.Store(s.access.auth.Load().on(isLoopback(l.Main.Addr())))
	s.rtmp, s.rtmps = newRTMPPort(l.RTMP), newRTMPPort(l.RTMPS)
	if s.node != nil {
		s.node.Start(s.relay)
	}
	main := s.httpServer(s.clients.nameClients(s.routes()), &s.budget.requests)
	main.ConnState = s.connections.note
	servers := []*http.Server{main}
	failed := make(chan error, 2)
	go func() { failed <- s.serveMain(main, s.clients.behindProxies(l.Main, true)) }()
	if l.Admin != nil {
		s.access.operator.Store(&auth{read: s.cfg.AdminToken, loopback: isLoopback(l.Admin.Addr())})
		side := s.httpServer(s.adminRoutes(l.Main.Addr()), &s.budget.operator)
		servers = append(servers, side)
		go func() { failed <- side.Serve(l.Admin) }()
	}
	watching, unwatch := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { s.budget.memory.Run(watching) })
	if l.RTMP != nil {
		others.Go(func() { s.newRTMPService(l.RTMP, nil).serve(s.clients.behindProxies(l.RTMP, false)) })
	}
	if l.RTMPS != nil {
		others.Go(func() { s.newRTMPService(l.RTMPS, s.cert.config()).serve(s.clients.behindProxies(l.RTMPS, false)) })
	}
	s.greet(l)
	if s.cfg.Ready != nil {
		s.cfg.Ready(l)
	}
	if s.cfg.Demo {
		others.Go(s.playDemo)
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

// serveMain serves the main listener, over TLS if there is a certificate.
func (s *Server) serveMain(main *http.Server, ln net.Listener) error {
	if s.cert == nil {
		return main.Serve(ln)
	}
	main.TLSConfig = s.cert.config()
	main.Protocols.SetHTTP2(true)
	return main.ServeTLS(ln, "", "")
}

// closeStores closes the stores of files and blobs, the recordings, which may take until ctx ends, and the node.
func (s *Server) closeStores(ctx context.Context) error {
	err := errors.Join(s.files.close(), s.blobs.close(), s.closeRecords(ctx), s.node.close(ctx))
	s.access.hook.Close(ctx) // last: what is closed tells the hook of its end
	return err
}

// greet logs where the server listens and what it serves.
func (s *Server) greet(l Listeners) {
	ln, admin := l.Main, l.Admin
	s.log.Info("listening", "address", ln.Addr().String(), "page", s.pageLink(ln.Addr()), "version", s.cfg.Version)
	if admin != nil {
		s.log.Info("admin listening", "address", admin.Addr().String())
		if s.cfg.AdminToken == "" && !isLoopback(admin.Addr()) {
			s.log.Warn("the admin listener can be reached from other machines: without --admin-token it shows profiles to all who ask")
		}
	}
	for _, ln := range []net.Listener{l.RTMP, l.RTMPS} {
		if ln != nil {
			s.log.Info("RTMP listening", "address", ln.Addr().String(), "tls", ln == l.RTMPS)
			if s.access.auth.Load().on(isLoopback(ln.Addr())).publishPolicy() == "off" {
				s.log.Warn("publishing by RTMP is off: other machines can reach this listener, and there is no --publish-token",
					"address", ln.Addr().String())
			}
		}
	}
	if s.files != nil {
		s.log.Info("serving files",
			"root", s.cfg.Root, "at", s.pageLink(ln.Addr())+filesPath[1:], "lists", s.cfg.FilesListing)
	}
	if s.records != nil {
		s.log.Info("recording streams", "in", s.cfg.Record, "named", s.cfg.RecordStreams)
	}
	if s.node != nil {
		s.log.Info("sharing streams with other nodes", "as", s.cfg.self())
		if _, host, _ := strings.Cut(s.cfg.self(), "://"); isLoopback(ln.Addr()) && !isLocalName(host) {
			s.log.Warn("no other node can reach this listener: --listen is for this machine only", "advertised", s.cfg.self())
		}
	}
	if s.blobs != nil {
		s.log.Info("keeping blobs", "in", s.blobs.where, "at", s.pageLink(ln.Addr())+blobsPath[1:])
		if s.files != nil && s.cfg.Blobs != "" && isWithin(s.cfg.Blobs, s.cfg.Root) {
			s.log.Warn("blobs can be read at /files/ too: --blobs lies in --root")
		}
	}
	if s.cfg.ReadToken != "" {
		s.log.Info("reading needs the token", "page", s.pageLink(ln.Addr())+"?token=TOKEN")
	}
	s.warnOfTokens(&s.cfg)
	publish := s.access.auth.Load().publishPolicy()
	if publish == "open" && s.cfg.TrustedProxies != "" {
		s.log.Warn("all clients of the proxies may publish that these let name this machine: there is no --publish-token",
			"proxies", s.cfg.TrustedProxies)
	}
	if publish == "off" {
		s.log.Warn("publishing is off: other machines can reach this listener, and there is no --publish-token")
	}
}

// warnOfTokens warns of tokens that clients have to escape in an address.
func (s *Server) warnOfTokens(cfg *Config) {
	for _, t := range []struct{ flag, token string }{
		{"publish-token", cfg.PublishToken}, {"read-token", cfg.ReadToken}, {"admin-token", cfg.AdminToken},
	} {
		if changedInURL(t.token) {
			s.log.Warn("the token has characters that addresses and programs may change: "+
				"escape them in addresses, or choose letters, digits and -._~", "flag", "--"+t.flag)
		}
	}
}

// isWithin reports whether path is dir or lies in it.
func isWithin(path, dir string) bool {
	path, err1 := filepath.Abs(path)
	dir, err2 := filepath.Abs(dir)
	rel, err := filepath.Rel(dir, path)
	return err1 == nil && err2 == nil && err == nil && filepath.IsLocal(rel)
}

// pageLink returns the address of the page for a browser on this machine: not every browser opens 0.0.0.0.
func (s *Server) pageLink(a net.Addr) string {
	host := a.String()
	if tcp, ok := a.(*net.TCPAddr); ok && (len(tcp.IP) == 0 || tcp.IP.IsUnspecified()) {
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	if s.cert != nil {
		return "https://" + host + "/"
	}
	return "http://" + host + "/"
}

// Without these bounds a client that sends a frame of 1 MiB, or a body that no handler reads, makes net/http hold as
// much for each connection, without any token.
const (
	// http2Frame is the longest frame that a client may send: the least that HTTP/2 allows, and enough for any body.
	http2Frame = 16 << 10

	// http2Body is how many bytes of bodies a connection may send before a handler has read them. A publisher with a round
	// trip of 100 ms sends up to 20 Mbit/s through it.
	http2Body = 256 << 10

	// http2Streams is how many requests a connection may have at a time. Each holds memory, so that
	// it is the least that HTTP/2 recommends; browsers open fewer.
	http2Streams = 100
)

// httpServer returns what answers the requests of a listener. They hold memory of requests.
func (s *Server) httpServer(h http.Handler, requests *memory.Loans) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s.limitBodies(s.budget.limitAnswers(requests, h)),
		Protocols:         protocols,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		// This limits a short answer as a whole, and what net/http sends after a handler has
		// returned. Streams and files limit each silence instead, and profiles take longer.
		WriteTimeout:   s.cfg.StallTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       log.New(errorLog{s.log}, "", 0),
		ConnContext:    connContext,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize:              http2Frame,
			MaxReceiveBufferPerConnection: http2Body,
			MaxReceiveBufferPerStream:     http2Body,
			MaxConcurrentStreams:          http2Streams,
			// A connection of HTTP/2 that takes nothing blocks all of its viewers and downloads. It is closed a little
			// later than they are, so that the log has their reasons.
			WriteByteTimeout: s.cfg.StallTimeout + time.Second/2,
		},
		// No ReadTimeout: a stream has no end. Its handler limits each silence.
	}
}

type connKey struct{}

// connContext puts the connection where handlers find it.
func connContext(ctx context.Context, c net.Conn) context.Context {
	ctx = context.WithValue(ctx, connKey{}, c)
	if p := proxy.Of(c); p != nil {
		ctx = address.NewContext(ctx, p)
	}
	return ctx
}

// An errorLog logs the errors of net/http.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Write(p []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(p, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug // every port scanner makes one
	}
	l.log.Log(context.Background(), level, strings.TrimSpace(string(p)))
	return len(p), nil
}

// limitBodies bounds what a body costs that no handler reads. Over HTTP/1, net/http waits for some of it before it
// sends the answer; over HTTP/2, it keeps what comes. A handler that reads a body sets its own deadline.
func (s *Server) limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Body == http.NoBody:
		case r.ProtoMajor == 1:
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.HeaderTimeout))
		case r.Method != http.MethodPost && r.Method != http.MethodPut:
			_ = r.Body.Close() // which drops it
		}
		next.ServeHTTP(w, r)
	})
}

// shutDown ends everything in the order in which nothing is lost: publishers first, then viewers when they have the
// rest. Downloads have the same time to come to their end.
func (s *Server) shutDown(servers []*http.Server) {
	began := time.Now()
	s.log.Info("shutting down", "streams", s.relay.Stats().Streams, "viewers", s.relay.Viewers(),
		"downloads", s.files.count(), "blobs", s.blobs.count(), "within", s.cfg.DrainTimeout)
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
		_ = s.closeRecords(ctx) // closeStores has the error as well
	}()
	files, blobs := s.files.drain(), s.blobs.drain()

	var closing sync.WaitGroup
	for _, srv := range servers {
		closing.Go(func() {
			if err := srv.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
				if n, m := s.files.count(), s.blobs.count(); n+m > 0 && srv == servers[0] {
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
