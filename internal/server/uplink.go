package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// An uplink is how a publisher's stream comes, and how it is answered. Read gives the body, and has the stream's viewers told
// of what was published whenever that is due.
type uplink interface {
	io.Reader
	// answer ends the request. clean says that the body was read to its end.
	answer(status int, contentType string, body []byte, clean bool)
}

// A directUplink is a connection that was taken over from net/http. Reading it directly has two advantages over Request.Body.
// A read is as large as what has arrived, where net/http's buffer has 4 KiB. And it shows when everything that was there has
// been read: that is the moment to tell the viewers of it, all at once.
type directUplink struct {
	s       *stream
	conn    io.ReadWriteCloser
	early   []byte // what net/http had read ahead
	framing framing
	idle    time.Duration
	cleanup func()
}

// newDirectUplink takes over the connection under a request. It returns an error if that is not possible, and then the request
// is as it was.
func newDirectUplink(w http.ResponseWriter, r *http.Request, s *stream) (*directUplink, error) {
	length := r.ContentLength
	expects := r.ProtoAtLeast(1, 1) && length != 0 && strings.EqualFold(r.Header.Get("Expect"), "100-continue")
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	conn = bare(conn)
	u := &directUplink{s: s, framing: newFraming(length), idle: s.server.cfg.PublishTimeout}
	ahead, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	u.early = bytes.Clone(ahead)
	if expects && len(u.early) == 0 {
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n") // if this fails, so will the first read
	}
	if latency := s.server.cfg.Latency; latency >= leastPolled {
		if p := newPolled(conn, latency, u.idle, s.server.draining, s.announce); p != nil {
			u.conn, u.cleanup = p, func() {}
			return u, nil
		}
	} else if c := newLaned(conn, s); c != nil {
		u.conn, u.cleanup = c, func() {}
		return u, nil
	}
	u.wait(conn, s.announceSoon)
	return u, nil
}

// wait prepares u for a goroutine that waits for what arrives on conn.
func (u *directUplink) wait(conn net.Conn, tell func()) {
	p := newPatience(u.idle, u.s.server.draining, conn.SetReadDeadline)
	u.conn, u.cleanup = &patient{Conn: conn, patience: p, tell: tell}, p.over
}

// A driven is a connection whose reader is run by others, in turns, when something has arrived.
type driven interface {
	io.ReadWriteCloser
	// start has read run, which reads from the connection, and then done, in a goroutine that may wait. It returns at once.
	start(read, done func())
	// detach returns the connection as one that can be waited for, and closes this one.
	detach() (net.Conn, error)
}

// leastPolled is the smallest latency bound with which a publisher's connection is looked at from time to time, rather than
// when something has arrived.
const leastPolled = 5 * time.Millisecond

// patient is a connection whose reads are watched by a patience. Nothing tells whether a read is going to wait, so viewers are
// told of what has come before each one.
type patient struct {
	net.Conn
	patience *patience
	tell     func()
}

func (c *patient) Read(p []byte) (int, error) {
	c.tell()
	n, err := c.Conn.Read(p)
	c.patience.note()
	return n, err
}

// CloseWrite tells the publisher that nothing more will come. From now on it may be silent for lingerTime.
func (c *patient) CloseWrite() error {
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok { // TCP, TLS, a Unix socket
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read implements io.Reader.
func (u *directUplink) Read(p []byte) (int, error) {
	for !u.framing.done {
		n, err := u.receive(p)
		if n == 0 && err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF // by its framing the body goes on
			}
			return 0, explainSilence(err, u.idle)
		}
		if n, err = u.framing.strip(p[:n]); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// receive reads what comes next on the connection.
func (u *directUplink) receive(p []byte) (int, error) {
	if len(u.early) > 0 {
		n := copy(p, u.early)
		u.early = u.early[n:]
		return n, nil
	}
	return u.conn.Read(p)
}

func (u *directUplink) answer(status int, contentType string, body []byte, clean bool) {
	defer u.conn.Close()
	u.cleanup()
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n"+
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
		status, http.StatusText(status), contentType, len(body))
	if _, err := u.conn.Write(append([]byte(head), body...)); err != nil || clean && !u.framing.excess {
		return
	}
	u.linger()
}

// linger reads on for a moment after an answer in the middle of the body, or in front of more requests, which are not
// answered. Closing at once, with bytes that were not read, would make the kernel reset the connection, and the publisher
// would see that instead of the answer.
func (u *directUplink) linger() {
	c, ok := u.conn.(interface{ CloseWrite() error })
	if !ok || c.CloseWrite() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(u.s.server.draining, lingerTime)
	defer cancel()
	var p [4 << 10]byte
	for read := 0; read < lingerBytes && ctx.Err() == nil; {
		n, err := u.conn.Read(p[:])
		if err != nil {
			return
		}
		read += n
	}
}

// What linger reads at most.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// A handlerUplink is a request's body as net/http gives it: HTTP/2, or a connection that cannot be taken over.
type handlerUplink struct {
	w        http.ResponseWriter
	r        *http.Request
	s        *stream
	patience *patience
}

func newHandlerUplink(w http.ResponseWriter, r *http.Request, s *stream) *handlerUplink {
	u := &handlerUplink{w: w, r: r, s: s}
	u.patience = newPatience(s.server.cfg.PublishTimeout, s.server.draining, http.NewResponseController(w).SetReadDeadline)
	return u
}

// Read implements io.Reader. Nothing tells whether it is going to wait, so viewers are told by a timer.
func (u *handlerUplink) Read(p []byte) (int, error) {
	u.s.announceSoon()
	n, err := u.r.Body.Read(p)
	u.patience.note()
	return n, explainSilence(err, u.patience.idle)
}

func (u *handlerUplink) answer(status int, contentType string, body []byte, clean bool) {
	u.patience.over()
	h := u.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if !clean && u.r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	u.w.WriteHeader(status)
	_, _ = u.w.Write(body)
}
