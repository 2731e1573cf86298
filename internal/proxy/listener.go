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

	"github.com/millrace-io/millrace/internal/address"
	"github.com/millrace-io/millrace/internal/lock"
)

// Config is what the connections of a Listener have in common.
type Config struct {
	Trusted   *atomic.Pointer[Trusted]
	Timeout   time.Duration // for the header to arrive
	Addresses *address.Table
	Ends      context.Context // no connection waits for a header any more; nil: that does not end

	// Refused is called for a connection that is closed because of its header. It may be nil.
	Refused func(peer net.Addr, why *HeaderError)
}

// A Listener accepts connections that may begin with a header of the PROXY protocol. TCP connections are returned as
// *Conn.
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
		return &Conn{TCPConn: tcp, cfg: &l.cfg}, nil
	}
	return c, err
}

// A Conn is a TCP connection with the address of the client that a proxy speaks for. The first call of RemoteAddr, Account
// or Read waits for the header. Nothing behind the header is read ahead: then the TCPConn may be used in place of c, apart
// from Close.
type Conn struct {
	*net.TCPConn
	cfg *Config

	once    sync.Once // what follows is set by it
	remote  net.Addr
	trusted bool
	err     error // why the connection is closed
	above   error // a limit of the address that the connection is above

	mu      lock.Mutex
	closed  bool
	account *address.Account // nil: without limits
	kept    *address.Account // of the request that has taken the connection over

	// What the HTTP server knows of it.
	Hijacked  atomic.Bool
	IdleSince atomic.Int64 // in ns, since when it waits for a request; 0: it has one
}

// A HeaderError says why a header of the PROXY protocol is not accepted.
type HeaderError struct{ why error }

func (e *HeaderError) Error() string { return "PROXY header: " + e.why.Error() }
func (e *HeaderError) Unwrap() error { return e.why }

var errUntrusted = errors.New("the peer is not among --trusted-proxies")

// await waits for the header.
func (c *Conn) await() error {
	var refused *HeaderError
	c.once.Do(func() {
		c.remote = c.TCPConn.RemoteAddr()
		peer := AddrOf(c.remote)
		c.trusted = c.cfg.Trusted.Load().Has(peer)
		client, err := c.readHeader()
		if err != nil {
			c.err = err
			refused, _ = errors.AsType[*HeaderError](err)
			_ = c.Close()
			return
		}
		if client != nil {
			c.remote = client
			c.trusted = c.cfg.Trusted.Load().Has(AddrOf(client))
		}
		if c.trusted { // its clients come through it
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

// readHeader returns the address in a header, or nil if there is none.
func (c *Conn) readHeader() (client net.Addr, err error) {
	_ = c.SetReadDeadline(time.Now().Add(c.cfg.Timeout))
	cut := func() bool { return true }
	if c.cfg.Ends != nil {
		cut = context.AfterFunc(c.cfg.Ends, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	}
	n, err := peekHeader(c.TCPConn)
	if err == nil && n > 0 && !c.trusted {
		err = &HeaderError{errUntrusted}
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

// RemoteAddr returns the client's address.
func (c *Conn) RemoteAddr() net.Addr {
	_ = c.await()
	return c.remote
}

// Above returns why the requests of the connection are refused: its address has too many.
func (c *Conn) Above() error {
	_ = c.await()
	return c.above
}

// Trusted reports whether the peer, or the client that it speaks for, is a trusted proxy.
func (c *Conn) Trusted() bool {
	_ = c.await()
	return c.trusted
}

// Account implements [address.Holder].
func (c *Conn) Account() *address.Account {
	_ = c.await()
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
