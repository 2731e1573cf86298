package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// maxHeaderBytes bounds a request's head. A browser sends about 1 KiB.
const maxHeaderBytes = 16 << 10

// A Server relays streams. New makes one, and Serve runs it once.
type Server struct {
	cfg      Config
	log      *slog.Logger
	gate     *gate // set by Serve, because who may publish depends on the listener
	registry *registry
	census   *census
	metrics  *metrics
	heads    *headWatch
	cert     *certificate // nil without TLS
	shelf    *shelf       // nil if no files are served
	vault    *vault       // nil if no blobs are kept
	started  time.Time

	draining context.Context // ends when no more is to be published
	drain    context.CancelFunc
}

// New returns a server, or what is wrong with the configuration.
func New(cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Log,
		registry: newRegistry(cfg.MaxStreams),
		census:   newCensus(cfg.MaxViewers),
		started:  time.Now(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.heads = &headWatch{log: s.log, limit: cfg.HeaderTimeout, idle: cfg.IdleTimeout}
	s.metrics = newMetrics(s)
	var err error
	if s.cert, err = openCertificate(&cfg, s.log); err != nil {
		return nil, err
	}
	if s.shelf, err = openShelf(s); err != nil {
		return nil, err
	}
	if s.vault, err = openVault(s); err != nil {
		_ = s.shelf.close()
		return nil, err
	}
	s.draining, s.drain = context.WithCancel(context.Background())
	return s, nil
}

// Run listens where the configuration says and serves until ctx ends; see Serve.
func (s *Server) Run(ctx context.Context) error {
	ln, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		_ = s.closeStores()
		return fmt.Errorf("--listen: %w", err)
	}
	var admin net.Listener
	if s.cfg.Admin != "" {
		if admin, err = net.Listen("tcp", s.cfg.Admin); err != nil {
			_ = errors.Join(ln.Close(), s.closeStores())
			return fmt.Errorf("--admin: %w", err)
		}
	}
	return s.Serve(ctx, ln, admin)
}

// Serve takes ownership of the listeners, of which admin may be nil, and serves until ctx ends. Then it accepts no more
// connections, ends the publishers, lets the viewers have what is queued for them, and returns nil, all that within the
// drain timeout. It returns an error when it cannot serve.
func (s *Server) Serve(ctx context.Context, ln, admin net.Listener) error {
	s.gate = newGate(s.cfg.PublishToken, ln.Addr())
	main := s.httpServer(s.routes())
	main.ConnContext, main.ConnState = s.heads.connContext, s.heads.connState
	// A short exchange has this long in all, and so has what net/http still sends when a handler has returned. Streams
	// and files, which have no end in sight, bound each silence instead.
	main.WriteTimeout = s.cfg.StallTimeout
	servers := []*http.Server{main}
	failed := make(chan error, 2)
	go func() { failed <- s.serveMain(main, chunk.Listener{Listener: ln}) }()
	if admin != nil {
		side := s.httpServer(s.adminRoutes())
		servers = append(servers, side)
		go func() { failed <- side.Serve(admin) }()
	}
	s.greet(ln, admin)
	var demo sync.WaitGroup
	if s.cfg.Demo {
		demo.Go(s.playDemo)
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("server: %w", err)
	}
	s.shutDown(servers)
	demo.Wait()
	return err
}

// serveMain serves what everybody uses, over TLS if there is a certificate.
func (s *Server) serveMain(main *http.Server, ln net.Listener) error {
	if s.cert == nil {
		return main.Serve(ln)
	}
	main.TLSConfig = s.cert.config()
	main.Protocols.SetHTTP2(true)
	return main.ServeTLS(ln, "", "")
}

// wire returns the connection that carries what is written to c, which is another one under TLS: to be asked and told what TCP
// knows, and not to be read from or written to.
func wire(c net.Conn) net.Conn {
	if sealed, ok := c.(*tls.Conn); ok {
		c = sealed.NetConn()
	}
	return bare(c)
}

// bare returns the connection that c is, for those who look at its type: those that Serve accepts are a chunk.Listener's.
func bare(c net.Conn) net.Conn {
	if own, ok := c.(*chunk.Conn); ok {
		return own.TCPConn
	}
	return c
}

// closeStores closes what files and blobs are in.
func (s *Server) closeStores() error { return errors.Join(s.shelf.close(), s.vault.close()) }

// greet logs what a newcomer wants to know.
func (s *Server) greet(ln, admin net.Listener) {
	s.log.Info("listening", "address", ln.Addr().String(), "page", s.pageLink(ln.Addr()), "version", s.cfg.Version)
	if admin != nil {
		s.log.Info("admin listening", "address", admin.Addr().String())
		if !isLoopback(admin.Addr()) {
			s.log.Warn("the admin listener can be reached from other machines: it shows profiles to everybody who asks")
		}
	}
	if s.shelf != nil {
		s.log.Info("serving files", "root", s.cfg.Root, "at", s.pageLink(ln.Addr())+filesPath[1:], "lists", s.cfg.FilesListing)
	}
	if s.vault != nil {
		s.log.Info("keeping blobs", "in", s.vault.where, "at", s.pageLink(ln.Addr())+blobsPath[1:])
	}
	if s.cfg.PublishToken == "" && !s.gate.loopback {
		s.log.Warn("publishing is off: other machines can reach this listener, and there is no --publish-token")
	}
}

// pageLink is where a browser on this machine finds the page. Not every browser opens an address that stands for all of
// the machine's own.
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

func (s *Server) httpServer(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s.boundBodies(h),
		Protocols:         protocols,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(complaints{s.log}, "", 0),
		// A connection of HTTP/2 that takes nothing holds all of its viewers and downloads: not even their resets get through.
		// It is closed a little later than they are ended, so that the reason that is told is theirs.
		HTTP2: &http.HTTP2Config{WriteByteTimeout: s.cfg.StallTimeout + 2*inspectEvery},
		// No ReadTimeout: a stream has no end in sight. Whoever reads it bounds its silence.
	}
}

// complaints logs what net/http has to say.
type complaints struct{ log *slog.Logger }

func (c complaints) Write(p []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(p, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug // whoever looks whether the port is open makes one
	}
	c.log.Log(context.Background(), level, strings.TrimSpace(string(p)))
	return len(p), nil
}

// boundBodies bounds the wait for a body that nobody reads: over HTTP/1, net/http answers when it has some of it. Whoever
// takes a body in bounds its silence in another way, or takes the connection over.
func (s *Server) boundBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.HeaderTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// shutDown ends everything in the order in which nothing is lost: publishers first, then viewers when they have the rest.
// Downloads have the same time to come to their end.
func (s *Server) shutDown(servers []*http.Server) {
	began := time.Now()
	s.log.Info("shutting down", "streams", len(s.registry.all()), "viewers", s.census.count(),
		"downloads", s.shelf.count(), "blobs", s.vault.count(), "within", s.cfg.DrainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	s.drain()
	idle := s.registry.close()
	empty := s.census.close()
	idleShelf, idleVault := s.shelf.drain(), s.vault.drain()

	var closing sync.WaitGroup
	for _, srv := range servers {
		closing.Go(func() {
			if err := srv.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
				if n, m := s.shelf.count(), s.vault.count(); n+m > 0 && srv == servers[0] {
					s.log.Warn("time is up, downloads are cut", "downloads", n, "blobs", m)
				}
				_ = srv.Close()
			}
		})
	}
	select {
	case <-empty:
	case <-ctx.Done():
		s.log.Warn("time is up, viewers are disconnected", "viewers", s.census.count())
		s.census.end(drained)
		s.settled("viewers", empty) // their connections are closed
	}
	s.settled("publishers", idle) // their connections have a deadline in the past
	closing.Wait()
	s.settled("downloads", idleShelf) // their connections are closed
	s.settled("blobs", idleVault)
	if err := s.closeStores(); err != nil {
		s.log.Error("the files or blobs are not closed", "reason", err)
	}
	s.log.Info("stopped", "after", time.Since(began).Round(time.Millisecond))
}

// lastGrace is how long goroutines that have nothing to wait for any more may take to end. A publisher is looked at every
// --latency, which is a second at the most.
const lastGrace = 3 * time.Second

// settled waits until done is closed, but not for ever: a mistake elsewhere must not keep the process from ending.
func (s *Server) settled(who string, done <-chan struct{}) {
	grace := time.NewTimer(lastGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		s.log.Error("stopping without them", "who", who)
	}
}
