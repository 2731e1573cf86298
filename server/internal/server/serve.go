package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/ops"
	"github.com/millrace-io/millrace/server/internal/rtmp"
)

// Run opens the listeners of the configuration and calls Serve. The map inherited may contain open
// listeners under the names in [Listeners.Named]. Run uses such a listener instead of opening
// a new one. Run takes ownership of all inherited listeners.
func (s *Server) Run(ctx context.Context, inherited map[string]net.Listener) error {
	l, err := openListeners(&s.cfg, inherited)
	if err != nil {
		l.close()
		return errors.Join(err, s.closeStores(ctx))
	}
	return s.Serve(ctx, l)
}

// ErrReplaced is the cancellation cause of Serve's context if another process has taken over the
// listeners.
var ErrReplaced = errors.New("another process has taken the listeners over")

// acceptedPause is how long a replaced process still waits for the first requests on the
// connections that it has accepted.
const acceptedPause = time.Second

// Serve takes ownership of the listeners and serves until ctx ends. It then stops accepting
// connections, ends the publishers, and lets viewers receive their queued frames. Serve then
// returns nil, at the latest shortly after the drain timeout. If a listener fails, Serve returns an
// error.
func (s *Server) Serve(ctx context.Context, l Listeners) error {
	ctx, s.stopServing = context.WithCancel(ctx)
	defer s.stopServing()
	s.gate.SetPolicy(s.gate.Policy().On(access.IsLoopback(l.Main.Addr())))
	if s.node != nil {
		s.node.Start(live.NewPeers(s.hub))
	}
	observer := s.observer(&l)
	s.getCertificates(s.draining)
	main := s.httpServer(s.clients.withClientAddr(s.routes(observer)), &s.budget.Requests)
	main.ConnState = s.connections.note
	servers := []*http.Server{main}
	failed := make(chan error, 3)
	go func() { failed <- s.serveMain(main, s.clients.behindProxies(l.Main, true)) }()
	if l.Admin != nil {
		s.operator.SetPolicy(&access.Policy{Read: s.cfg.AdminToken,
			Loopback: access.IsLoopback(l.Admin.Addr())})
		side := s.httpServer(s.adminRoutes(observer, l.Main.Addr()), &s.budget.Operator)
		servers = append(servers, side)
		go func() { failed <- side.Serve(l.Admin) }()
	}
	watching, unwatch := context.WithCancel(context.Background())
	var others sync.WaitGroup
	others.Go(func() { s.budget.Memory.Run(watching) })
	if l.RTMP != nil {
		others.Go(func() {
			s.newRTMPService(l.RTMP.Addr(), nil).Serve(s.clients.behindProxies(l.RTMP, false))
		})
	}
	if l.HTTP != nil {
		side := s.httpServer(s.redirectRoutes(l.Main.Addr()), &s.budget.Requests)
		side.ConnState = s.connections.note
		servers = append(servers, side)
		go func() { failed <- side.Serve(s.clients.behindProxies(l.HTTP, true)) }()
	}
	if l.RTMPS != nil {
		others.Go(func() {
			s.newRTMPService(l.RTMPS.Addr(), s.cert.TLS()).Serve(s.clients.behindProxies(l.RTMPS,
				false))
		})
	}
	s.logStart(l)
	if s.cfg.Ready != nil {
		s.cfg.Ready(l)
	}
	if s.cfg.Demo {
		others.Go(func() { (&demoService{s.hub, s.node, s.log}).run(s.draining) })
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
			srv.SetKeepAlivesEnabled(false) // further requests must reach the new process
		}
		time.Sleep(acceptedPause)
	}
	s.shutDown(servers)
	unwatch()
	others.Wait()
	return err
}

func (s *Server) observer(l *Listeners) *ops.Observer {
	o := &ops.Observer{
		Version: s.cfg.Version, Self: s.cfg.self(), Started: s.started, Log: s.log,
		Hub: s.hub, Acceptor: s.acceptor, Gate: s.gate, Refusals: s.refusals, Budget: s.budget,
		Connections: &s.connections.counts,
		Addresses:   s.clients.addresses,
		RTMP:        rtmpPort(l.RTMP), RTMPS: rtmpPort(l.RTMPS),
		Files: s.files, Blobs: s.blobs, Hook: s.hook, Draining: s.draining,
	}
	o.Push = s.push
	if s.records != nil {
		o.Records = s.records.Archive
	}
	if s.node != nil {
		o.Cluster = s.node.observed
	}
	return o
}

// newRTMPService returns the RTMP service of the listener at addr. If config is nil, the service
// does not use TLS. newRTMPService takes ownership of config.
func (s *Server) newRTMPService(addr net.Addr, config *tls.Config) *rtmp.Service {
	if config != nil {
		config.NextProtos = nil
		config.SessionTicketsDisabled = true // rtmpdump treats a TLS 1.3 session ticket as an error
	}
	return &rtmp.Service{
		Acceptor: s.acceptor, Gate: s.gate, Refusals: s.refusals, Handshakes: &s.handshakes,
		Log: s.log,
		TLS: config, Loopback: access.IsLoopback(addr), HeaderTimeout: s.cfg.HeaderTimeout,
		Draining: s.draining,
	}
}

func (s *Server) serveMain(main *http.Server, ln net.Listener) error {
	if s.cert == nil {
		return main.Serve(ln)
	}
	main.TLSConfig = s.cert.TLS()
	main.Protocols.SetHTTP2(true)
	return main.ServeTLS(ln, "", "")
}

// reconnectWait limits how long shutDown waits for publishers that were asked to reconnect to
// another server. They leave at their next keyframe, and an encoder should send one every two
// seconds.
const reconnectWait = 2 * time.Second

// shutDown ends the publishers, viewers and transfers in an order that loses no data. The
// publishers end first. The viewers end after they have received the remaining frames. Downloads
// may finish in the meantime. After --drain-timeout, the remaining viewers and downloads are ended.
func (s *Server) shutDown(servers []*http.Server) {
	began := time.Now()
	s.log.Info("shutting down", "streams", s.hub.Stats().Streams, "viewers", s.hub.Viewers(),
		"downloads", s.files.Held(), "blobs", s.blobs.Held(), "within", s.cfg.DrainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	s.drain()
	s.node.drain()
	asking, stop := context.WithTimeout(ctx, s.reconnectWait)
	s.hub.AskToReconnect(asking)
	stop()
	s.hub.Close()
	// The recordings are closed in parallel, without waiting for viewers, because a process that
	// replaces this one waits for the directory of recordings.
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		s.hub.AwaitRecorders()
		_ = s.records.close(ctx) // closeStores returns the same error
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
	s.hub.Drain(ctx)
	s.push.Await(ctx)
	closing.Wait()
	limit.Await(s.log, "downloads", files) // ends soon, because all connections are closed
	limit.Await(s.log, "blobs", blobs)
	if err := s.closeStores(ctx); err != nil {
		s.log.Error("the files, blobs or recordings are not closed", "reason", err)
	}
	limit.Await(s.log, "recordings", recorded)
	s.log.Info("stopped", "after", time.Since(began).Round(time.Millisecond))
}
