package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Config configures the connections of a Listener.
type Config struct {
	Trusted   *atomic.Pointer[Trusted]
	Timeout   time.Duration // for the header to arrive
	Addresses *address.Table
	Ends      context.Context // no connection waits for a header any more; nil: that does not end

	// Refused is called for a connection that is closed because of its header. It may be nil.
	Refused func(peer net.Addr, why error)
}

// A Listener accepts connections that may begin with a header of the PROXY protocol. TCP
// connections are returned as *Conn.
type Listener struct {
	net.Listener
	cfg Config
}

// Listen returns a Listener over ln, which it takes ownership of.
func Listen(ln net.Listener, cfg Config) *Listener { return &Listener{ln, cfg} }

// Accept implements net.Listener. It does not wait for a header.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return newConn(tcp, &l.cfg), nil
	}
	return c, err
}

func newConn(tcp *net.TCPConn, cfg *Config) *Conn {
	c := &Conn{TCPConn: tcp, cfg: cfg, remote: tcp.RemoteAddr()}
	peer := AddrOf(c.remote)
	if c.trusted = cfg.Trusted.Load().Has(peer); !c.trusted {
		c.direct = true
		c.open(peer) // at once: a client that says nothing counts, too
	}
	return c
}

// A Conn is a TCP connection with the address of the client that a proxy forwards. The first call
// of RemoteAddr or Read waits until the header has arrived, or its absence is certain. The other
// methods wait, too, if the peer is a trusted proxy. No bytes after the header are read ahead, so
// the TCPConn may then be used in place of c, except for Close.
type Conn struct {
	*net.TCPConn
	cfg    *Config
	direct bool // the peer is the client

	once    sync.Once // guards the fields below, unless the peer is the client
	remote  net.Addr
	trusted bool
	above   error // a limit of the address that the connection is above

	err error // why the connection is closed; set by once

	mu      lock.Mutex
	closed  bool
	account *address.Account // nil: without limits
	kept    *address.Account // of the request that has taken the connection over

	// Flags for the HTTP server.
	Hijacked  atomic.Bool
	IdleSince atomic.Int64 // in ns, since when it waits for a request; 0: it has one
}

// badHeader refuses a connection for its PROXY header.
func badHeader(why error) *refuse.Refusal {
	return refuse.New(0, "PROXY header: %v", why).For(refuse.Proxy)
}

var errUntrusted = badHeader(errors.New("the peer is not among --trusted-proxies"))

// await waits for the header.
func (c *Conn) await() error {
	var refused *refuse.Refusal
	c.once.Do(func() {
		client, err := c.readHeader()
		if err != nil {
			c.err = err
			refused = refuse.Of(err)
			_ = c.Close()
			return
		}
		if client != nil {
			c.remote = client
			c.trusted = c.cfg.Trusted.Load().Has(AddrOf(client))
		}
		if c.direct || c.trusted { // it is counted, or its clients come through it
			return
		}
		c.open(AddrOf(c.remote))
	})
	if refused != nil && c.cfg.Refused != nil {
		c.cfg.Refused(c.remote, refused)
	}
	return c.err
}

// open counts the connection for its address.
func (c *Conn) open(a netip.Addr) {
	account, err := c.cfg.Addresses.Acquire(a)
	if c.above = err; err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		account.Release()
		return
	}
	c.account = account
}

// readHeader returns the address in the header, or nil without one.
func (c *Conn) readHeader() (client net.Addr, err error) {
	_ = c.SetReadDeadline(time.Now().Add(c.cfg.Timeout))
	cut := func() bool { return true }
	if c.cfg.Ends != nil {
		cut = context.AfterFunc(c.cfg.Ends, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	}
	n, err := peekHeader(c.TCPConn)
	if err == nil && n > 0 && !c.trusted {
		err = errUntrusted
	}
	if err == nil && n > 0 {
		head := make([]byte, n)
		if _, err = io.ReadFull(c.TCPConn, head); err == nil {
			client, err = parseHeader(head)
		}
	}
	if !cut() && err == nil {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		return nil, err
	}
	_ = c.SetReadDeadline(time.Time{})
	return client, nil
}

// Direct reports whether the peer is the client: then Above, Trusted and Account do not wait.
func (c *Conn) Direct() bool { return c.direct }

// identify waits until the client is known.
func (c *Conn) identify() {
	if !c.direct {
		_ = c.await()
	}
}

// RemoteAddr returns the client's address.
func (c *Conn) RemoteAddr() net.Addr {
	_ = c.await()
	return c.remote
}

// Above returns why the requests of the connection are refused: its address has too many.
func (c *Conn) Above() error {
	c.identify()
	return c.above
}

// Trusted reports whether the peer, or the client that it speaks for, is a trusted proxy.
func (c *Conn) Trusted() bool {
	c.identify()
	return c.trusted
}

// Account implements [address.Holder].
func (c *Conn) Account() *address.Account {
	c.identify()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account
}

// Err returns why the connection is closed instead of served.
func (c *Conn) Err() error { return c.await() }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.await(); err != nil {
		return 0, err
	}
	return c.TCPConn.Read(p)
}

// Keep has Close release a, the account of the request that has taken the connection over.
func (c *Conn) Keep(a *address.Account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		a.Release()
		return
	}
	c.kept = a
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	err := c.TCPConn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.account.Release()
		c.kept.Release()
	}
	return err
}

// NetConn returns the connection without the address of the client.
func (c *Conn) NetConn() net.Conn { return c.TCPConn }

// Of returns the Conn that c is, or that is under c's TLS, or nil.
func Of(c net.Conn) *Conn {
	for {
		switch over := c.(type) {
		case *Conn:
			return over
		case interface{ NetConn() net.Conn }:
			c = over.NetConn()
		default:
			return nil
		}
	}
}
