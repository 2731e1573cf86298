package live

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// An Owner describes the node that owns a stream, and how to connect to that node.
type Owner struct {
	Node  string      // the owner's address with a port, for example http://10.0.0.5:8080
	Epoch uint64      // the latest known epoch; a response with a lower epoch is refused
	Proof Proof       // authenticates the two nodes to each other; nil: no authentication
	TLS   *tls.Config // for an owner with an https address; nil: the default configuration
	Dial  Dial        // connects to the owner; nil: DialNode
}

// A Dial connects to an address, like the method DialContext of [net.Dialer].
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DialNode connects to another node, at most for DialTimeout. Keep-alive detects a node that has died
// and sends nothing any more, within 11 seconds.
func DialNode(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: DialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true,
		Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	return d.DialContext(ctx, network, address)
}

// A Proof authenticates this node to another node of the cluster, and that node to this node.
type Proof interface {
	// Sign adds the proof of this node to a request. epoch is the greatest epoch of the stream that
	// this node knows.
	Sign(req *http.Request, epoch uint64)
	// Check returns an error unless the response proves that the other node is in the cluster. If
	// again is true, the caller must sign and send the request again.
	Check(res *http.Response) (again bool, err error)
}

const (
	// DialTimeout limits the time that a node may take to accept a connection. It can be this short
	// because nodes are near each other.
	DialTimeout = 3 * time.Second
	// bodyBuffer is how many bytes of a stream are read at a time from the node that owns the
	// stream. A stream of 5 Mbit/s fills such a buffer in 50 ms.
	bodyBuffer = 32 << 10
	// maxAnswer is the maximum size in bytes of the response header from the node that owns the
	// stream. A usual header has a few hundred bytes.
	maxAnswer = 16 << 10
)

var (
	errFed   = errors.New("the stream needs no pull: it has a publisher, or waits for its own")
	errStale = errors.New("the stream has a later owner than this one")
)

// Pull reads the named stream from the node that owns it, and publishes it here. It returns an
// error when the stream ends, ctx ends, a publisher connects to this node, or the connection fails.
// The stream then waits for its next publisher.
//
// If the stream has had no viewer for a while, Pull ends and returns nil. If the owner answered
// with a status other than 200, the error is a *[refuse.Refusal] with that status.
func (e Peers) Pull(ctx context.Context, name string, owner Owner) error {
	if err := cmp.Or(streamname.Check(name), registrar{e.hub}.checkRoom(name)); err != nil {
		return err
	}
	owner.Epoch = max(owner.Epoch, e.lastEpoch(name))
	p := e.hub.newPublisher(owner.Node)
	defer p.cancel(nil)
	defer context.AfterFunc(ctx, func() { p.cancel(context.Cause(ctx)) })()
	conn, early, err := e.requestStream(p, name, owner)
	if err == nil {
		if p.s, err = e.claimPull(p.claim, name); err != nil {
			_ = conn.Close()
		}
	}
	if p.s == nil {
		err = cmp.Or(context.Cause(p.ctx), context.Cause(ctx), err)
		e.pullFailed(name, err)
		return err
	}
	defer p.Answered()
	defer e.endUnwatched(p).Stop()
	in := p.Ingest(conn)
	defer func() {
		if conn, err := in.Release(); err == nil {
			_ = conn.Close()
		}
	}()
	body := httputil.NewChunkedReader(bufio.NewReaderSize(io.MultiReader(bytes.NewReader(early),
		in), bodyBuffer))
	err = p.Run(func() error { return cmp.Or(p.ReadBody(body), errOwnerEnded) })
	if err == errUnwatched {
		return nil
	}
	return err
}

// lastEpoch returns the greatest epoch with which this node has had a stream, or 0.
func (e Peers) lastEpoch(name string) uint64 {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	if s := e.hub.streams[name]; s != nil {
		return s.epoch
	}
	return 0
}

// pullFailed records that a pull of the named stream has failed with the error err. This error
// determines which error viewers get if they are still waiting for the stream when their time is
// up:
//   - If the other node has answered that it does not own the stream, the viewers get the error of
//     Config.absentError.
//   - Otherwise, the viewers get an error that says that the node does not answer.
func (e Peers) pullFailed(name string, err error) {
	var refused *refuse.Refusal
	ok := errors.As(err, &refused) && refused.Status == http.StatusMisdirectedRequest
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	for _, w := range e.hub.waiting[name] {
		w.unreached = !ok
	}
}

// requestStream requests the named stream from its owner. It returns the connection, and the bytes
// of the body that have arrived already. The connection has the deadline of the request, which
// ingest.NewConn removes. requestStream sets p.epoch to the epoch in the response.
func (e Peers) requestStream(p *Publisher, name string, owner Owner) (conn net.Conn, early []byte,
	err error) {
	if conn, early, err = e.askOnce(p, name, owner); err == errAskAgain {
		conn, early, err = e.askOnce(p, name, owner)
	}
	return conn, early, err
}

var errAskAgain = errors.New("the owner wants another proof")

func (e Peers) askOnce(p *Publisher, name string, owner Owner) (net.Conn, []byte, error) {
	req, err := http.NewRequest(http.MethodGet, owner.Node+"/live/"+name, nil)
	if err != nil {
		return nil, nil, err
	}
	if owner.Proof != nil {
		owner.Proof.Sign(req, owner.Epoch)
	}
	conn, err := owner.connect(p.ctx, req.URL)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(e.hub.cfg.PublishTimeout))
	uncut := context.AfterFunc(p.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	early, err := p.readAnswer(conn, req, owner)
	if !uncut() { // the function above may still use conn
		err = context.Cause(p.ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, early, nil
}

// connect connects to the owner, at most for DialTimeout. u is the URL of the request.
func (o *Owner) connect(ctx context.Context, u *url.URL) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	dial := o.Dial
	if dial == nil {
		dial = DialNode
	}
	conn, err := dial(ctx, "tcp", u.Host)
	if err != nil || u.Scheme != "https" {
		return conn, err
	}
	config := o.TLS.Clone() // a clone of nil is nil
	if config == nil {
		config = new(tls.Config)
	}
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	over := tls.Client(conn, config)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return over, nil
}

// readAnswer sends a request and reads the head of the response. It also returns the bytes that
// arrived together with the head but belong to the body.
func (p *Publisher) readAnswer(conn net.Conn, req *http.Request, owner Owner) (early []byte,
	err error) {
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	r := bufio.NewReader(io.LimitReader(conn, maxAnswer))
	res, err := http.ReadResponse(r, req) // the caller reads the body
	if err != nil {
		return nil, fmt.Errorf("the owner's answer: %w", err)
	}
	if owner.Proof != nil {
		if again, err := owner.Proof.Check(res); again {
			return nil, errAskAgain
		} else if err != nil {
			return nil, fmt.Errorf("the owner's answer: %w", err)
		}
	}
	p.epoch, err = strconv.ParseUint(res.Header.Get(EpochHeader), 10, 64)
	switch {
	case res.StatusCode != http.StatusOK:
		return nil, refuse.New(res.StatusCode, "the owner answers %d", res.StatusCode)
	case err != nil || p.epoch == 0 || !slices.Equal(res.TransferEncoding, []string{"chunked"}):
		return nil, fmt.Errorf("the owner's answer is not that of a node: %s %.40q", EpochHeader,
			res.Header.Get(EpochHeader))
	case p.epoch < owner.Epoch:
		return nil, errStale
	}
	early, _ = r.Peek(r.Buffered())
	return bytes.Clone(early), nil
}

// claimPull gives the named stream to c, a publisher that reads from another node. It returns an
// error if the stream has another publisher, or if this node owns the stream.
func (e Peers) claimPull(c *claim, name string) (*stream, error) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	s := e.hub.streams[name]
	switch {
	case e.hub.ends.Err() != nil:
		return nil, refuse.ErrShutdown
	case s == nil && len(e.hub.streams) >= e.hub.cfg.MaxStreams:
		return nil, e.hub.cfg.tooManyStreams()
	case s == nil:
		s = e.hub.newStream(name)
	case s.lease != nil || s.pause == nil:
		return nil, errFed
	case c.epoch < s.epoch:
		return nil, errStale
	}
	registrar{e.hub}.grant(s, c)
	e.hub.publishers.Add(1)
	return s, nil
}

// endUnwatched starts a timer that ends the pull p after pullIdle without viewers. The caller must
// stop the timer when p has ended.
func (e Peers) endUnwatched(p *Publisher) (t *time.Timer) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	t = time.AfterFunc(e.hub.pullIdle, func() {
		e.hub.mu.Lock()
		defer e.hub.mu.Unlock()
		left := e.hub.pullIdle - e.hub.unwatchedFor(p.s)
		switch {
		case p.ctx.Err() != nil:
		case left > 0:
			t.Reset(left)
		default:
			p.cancel(errUnwatched)
		}
	})
	return t
}
