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
	Timeout   time.Duration // time limit for receiving the PROXY header
	Addresses *address.Table
	// Ends limits the wait for a PROXY header, in addition to Timeout: when this context is done,
	// connections stop waiting. If Ends is nil, only Timeout limits the wait.
	Ends context.Context

	// Refused is called when a connection is closed because its PROXY header is invalid, or because
	// its peer may not send a PROXY header. Refused may be nil.
	Refused func(peer net.Addr, err error)
}

// A Listener accepts connections that may begin with a PROXY header. It returns TCP connections as
// *Conn.
type Listener struct {
	net.Listener
	cfg Config
}

// Listen returns a Listener for the connections that ln accepts. It takes ownership of ln.
func Listen(ln net.Listener, cfg Config) *Listener { return &Listener{ln, cfg} }

// Accept returns the next connection. It does not wait for the PROXY header.
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
		c.open(peer) // now, so that a client that sends nothing counts as well
	}
	return c
}

// A Conn is a TCP connection from a client or from a proxy. A proxy first sends a PROXY header with
// the client's address. RemoteAddr returns the client's address.
//
// RemoteAddr, Read and Err wait until the PROXY header has arrived, or until it is certain that
// there is no PROXY header. If the peer is a trusted proxy, the methods Above, Trusted and Account
// also wait.
//
// A Conn reads no bytes after the header. When one of these methods has returned, the caller may
// therefore read from the TCPConn and write to it directly. To close the connection, the caller
// must call Close on the Conn, because Close also releases the accounts.
type Conn struct {
	*net.TCPConn
	cfg    *Config
	direct bool // whether the peer is the client

	once    sync.Once // guards the fields below, unless direct is true
	remote  net.Addr
	trusted bool
	above   error // error if the client's address has too many connections

	err error // reason why the connection was closed; set in once

	mu      lock.Mutex
	closed  bool
	account *address.Account // the account of the client's address; nil if there are no limits
	kept    *address.Account // account of the request that has hijacked the connection, or nil

	head io.Writer // gets the bytes of Write; nil if Write sends them; see KeepHead

	// Used by the HTTP server.
	Hijacked  atomic.Bool
	IdleSince atomic.Int64 // when the wait for a request began, in Unix ns; 0 during a request
}

func badHeader(err error) *refuse.Refusal {
	return refuse.New(0, "PROXY header: %v", err).For(refuse.Proxy)
}

var errUntrusted = badHeader(errors.New("the peer is not among --trusted-proxies"))

// await waits until the PROXY header has been read. If the connection was closed, it returns the
// reason.
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
		if c.direct || c.trusted { // already counted, or a connection of many clients
			return
		}
		c.open(AddrOf(c.remote))
	})
	if refused != nil && c.cfg.Refused != nil {
		c.cfg.Refused(c.remote, refused)
	}
	return c.err
}

// open counts the connection for the client address addr, and sets c.account. If the address has
// too many connections, open sets c.above to the error instead.
func (c *Conn) open(addr netip.Addr) {
	account, err := c.cfg.Addresses.Acquire(addr)
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

// readHeader reads the PROXY header, and returns the client's address. If there is no header, or if
// the header contains no address, readHeader returns nil.
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

// Direct reports whether the peer is the client, and not a trusted proxy. If the peer is the
// client, the methods Above, Trusted and Account return at once, without waiting for a PROXY
// header.
func (c *Conn) Direct() bool { return c.direct }

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

// Above returns an error if the client's address has too many connections. The caller must then
// refuse requests with that error.
func (c *Conn) Above() error {
	c.identify()
	return c.above
}

// Trusted reports whether the peer, or the client that the PROXY header names, is a trusted proxy.
// Such a connection may carry the requests of many clients.
func (c *Conn) Trusted() bool {
	c.identify()
	return c.trusted
}

// Account returns the account of the client's address, or nil if no limits apply to the client. It
// may wait for the PROXY header.
func (c *Conn) Account() *address.Account {
	c.identify()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account
}

// Err waits until the PROXY header has been read. If reading it has failed, the connection is
// closed, and Err returns the reason. Otherwise Err returns nil.
func (c *Conn) Err() error { return c.await() }

// Read reads the bytes after the PROXY header. The first call waits for the header.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.await(); err != nil {
		return 0, err
	}
	return c.TCPConn.Read(p)
}

// KeepHead makes Write pass its bytes to head instead of sending them, until KeepHead is called
// with nil. A handler of an HTTP/1 request calls KeepHead to send the response header together with
// the body; see [Body]. Only the goroutine that writes to c may call KeepHead.
func (c *Conn) KeepHead(head io.Writer) { c.head = head }

// Write sends p, or writes p to the argument of KeepHead.
func (c *Conn) Write(p []byte) (int, error) {
	if c.head != nil {
		return c.head.Write(p)
	}
	return c.TCPConn.Write(p)
}

// A Body is a body, or a part of a body, that a handler passes to the method ReadFrom of an HTTP/1
// response. net/http first writes the response header, and then passes the Body to [Conn.ReadFrom].
type Body interface {
	io.Reader
	// Send writes the Body to c. If the handler has called KeepHead, Send also writes the response
	// header. Send returns the number of bytes written, without the header.
	Send(c *net.TCPConn) (int64, error)
}

// ReadFrom sends the bytes that it reads from src. If src is a [Body], ReadFrom calls Send instead.
func (c *Conn) ReadFrom(src io.Reader) (int64, error) {
	if b, ok := src.(Body); ok {
		return b.Send(c.TCPConn)
	}
	return c.TCPConn.ReadFrom(src)
}

// Keep transfers the Account of a request to c. Close then releases this Account. The HTTP server
// calls Keep when the request has hijacked the connection, because the connection then outlives the
// request. If c is already closed, Keep releases the Account at once.
func (c *Conn) Keep(a *address.Account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		a.Release()
		return
	}
	c.kept = a
}

// Close closes the TCP connection. It also releases the Account of the connection, and the Account
// that was passed to Keep.
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

// NetConn returns the underlying connection. Its RemoteAddr may be the address of a proxy.
func (c *Conn) NetConn() net.Conn { return c.TCPConn }

// Of finds the *Conn in a connection. If c is a *Conn, Of returns c. If c wraps a *Conn, as a TLS
// connection may do, Of returns the *Conn. Otherwise it returns nil.
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
