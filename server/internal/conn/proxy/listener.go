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
	Timeout   time.Duration // time limit for the arrival of the header
	Addresses *address.Table
	// When this context ends, connections stop waiting for a header; nil means never.
	Ends context.Context

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
		c.open(peer) // here, so that a client that sends nothing is counted too
	}
	return c
}

// A Conn is a TCP connection whose RemoteAddr is the client address that a proxy has forwarded. The
// first call of RemoteAddr, Read or Err waits until the header has arrived, or until it is certain
// that there is none. If the peer is a trusted proxy, Above, Trusted and Account wait too. Conn
// reads no bytes beyond the header. So after that wait, the TCPConn may be used in place of c,
// except for Close.
type Conn struct {
	*net.TCPConn
	cfg    *Config
	direct bool // whether the peer is the client

	once    sync.Once // guards the fields below, unless the peer is the client
	remote  net.Addr
	trusted bool
	above   error // error if the connection exceeds a limit of its address

	err error // why the connection is closed; set under once

	mu      lock.Mutex
	closed  bool
	account *address.Account // nil if it has no limits
	kept    *address.Account // the account of the request that has taken over the connection

	// State for the HTTP server.
	Hijacked  atomic.Bool
	IdleSince atomic.Int64 // start of the wait for a request, in ns; 0 while it serves one
}

// badHeader returns the refusal of a connection with an invalid PROXY header.
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
		if c.direct || c.trusted { // the connection is already counted, or it carries many clients
			return
		}
		c.open(AddrOf(c.remote))
	})
	if refused != nil && c.cfg.Refused != nil {
		c.cfg.Refused(c.remote, refused)
	}
	return c.err
}

// open counts the connection towards the limits of address a.
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

// readHeader returns the client's address from the header, or nil if there is no header.
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

// Direct reports whether the peer is itself the client. If so, Above, Trusted and Account do not
// wait.
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

// Above returns an error if the client's address has too many connections, and nil otherwise. The
// caller must refuse requests with that error.
func (c *Conn) Above() error {
	c.identify()
	return c.above
}

// Trusted reports whether the peer, or the client that its header names, is a trusted proxy.
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

// Err returns the reason why the connection was closed instead of being served, or nil.
func (c *Conn) Err() error { return c.await() }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.await(); err != nil {
		return 0, err
	}
	return c.TCPConn.Read(p)
}

// Keep makes Close also release a, the account of a request that has taken over the connection.
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

// NetConn returns the underlying connection. Its RemoteAddr is the address of the proxy.
func (c *Conn) NetConn() net.Conn { return c.TCPConn }

// Of returns c if it is a Conn. If c is a TLS connection, Of returns the Conn underneath it. If
// there is no Conn, it returns nil.
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
