package websocket

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
)

// firstGrant is the memory, in bytes, that Next takes for a frame before any of the payload has
// arrived. When the memory is full, Next takes another block, as large as the bytes that have
// arrived, up to maxGrant.
const (
	firstGrant = 4 << 10
	maxGrant   = 64 << 10
)

const (
	drainTime = time.Second
	drainMost = 1 << 20
)

// A Conn is a WebSocket connection. One goroutine may call Next while other goroutines write. The
// caller must call Next until it fails, because Next also answers ping and close frames.
type Conn struct {
	conn     net.Conn
	protocol string
	opts     Options

	// Used by Next only.
	r     *millrace.Reader
	begun bool      // the first byte of a message or control frame has arrived
	due   time.Time // when the message or control frame must be complete; zero if unset
	err   error     // the error that ended Next

	// closeBy is when the client must have answered a close frame, in Unix nanoseconds; 0 if no
	// close frame was sent.
	closeBy atomic.Int64

	mu     sync.Mutex // held during writes
	closed bool       // a close frame was sent, or a write has failed
}

func newConn(conn net.Conn, buffered *bufio.Reader, protocol string, o Options) *Conn {
	if o.MaxMessage <= 0 {
		o.MaxMessage = defaultMaxMessage
	}
	if o.MessageTimeout <= 0 {
		o.MessageTimeout = defaultTimeout
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = defaultTimeout
	}
	if o.Pool == nil {
		o.Pool = millrace.DefaultPool()
	}
	return &Conn{conn: conn, protocol: protocol, opts: o,
		r: o.Pool.NewReader(withBuffered(conn, buffered), 0)}
}

// NetConn returns the underlying connection, for example to find its addresses.
func (c *Conn) NetConn() net.Conn { return c.conn }

// Subprotocol returns the subprotocol that Accept has chosen, or "".
func (c *Conn) Subprotocol() string { return c.protocol }

// Next appends the payload of the next message to dst, which owns the bytes, and returns the
// message's type. It joins fragments, and checks that a Text message is UTF-8.
//
// Next answers pings. When the client sends a close frame, Next answers with a close frame, closes
// the connection, and returns a *CloseError. If the client violates the protocol or a limit, Next
// sends a close frame, closes the connection, and returns a *CloseError or a *LimitError. Any other
// error comes from the connection. After an error, dst is unchanged, and all later calls return the
// same error.
func (c *Conn) Next(dst *millrace.Chain) (Type, error) {
	if c.err != nil {
		return 0, c.err
	}
	var m message
	defer m.draft.Release()
	for {
		h, err := c.readHeader()
		switch {
		case err != nil:
		case h.control():
			err = c.handleControl(h)
		default:
			err = c.readFragment(&m, h)
		}
		if err != nil {
			m.chain.Release()
			return 0, c.fail(err)
		}
		if m.t == 0 || m.complete {
			c.begun, c.due = false, time.Time{}
		}
		if m.complete {
			dst.Merge(&m.chain)
			return m.t, nil
		}
	}
}

type message struct {
	t        Type // 0 before the first fragment
	chain    millrace.Chain
	draft    millrace.Draft // the rest of the block that is being filled
	text     textCheck
	complete bool
}

func (c *Conn) readFragment(m *message, h header) error {
	switch {
	case h.opcode == opContinuation && m.t == 0:
		return &CloseError{ProtocolError, "a continuation without a message"}
	case h.opcode != opContinuation && m.t != 0:
		return &CloseError{ProtocolError, "a new message within a fragmented one"}
	case h.opcode != opContinuation:
		m.t = Type(h.opcode)
	}
	if h.length > uint64(c.opts.MaxMessage-m.chain.Len()) {
		return &LimitError{c.opts.MaxMessage}
	}
	for length, offset := int(h.length), 0; offset < length; {
		if len(m.draft.Bytes()) == 0 {
			m.draft.Release()
			m.draft = c.opts.Pool.Get(c.nextBlockSize(m, h, length-offset))
		}
		p := m.draft.Bytes()
		p = p[:min(len(p), length-offset)]
		if err := c.readFull(p); err != nil {
			return err
		}
		unmask(p, h.mask, offset)
		if m.t == Text && !m.text.add(p) {
			return errText
		}
		r := m.draft.Cut(len(p))
		m.chain.Append(&r)
		offset += len(p)
	}
	if h.fin && !m.text.complete() {
		return errText
	}
	m.complete = h.fin
	return nil
}

var errText = &CloseError{InvalidPayload, "text is not UTF-8"}

// nextBlockSize returns the size of the next block for the message: the number of bytes that have
// arrived, but at least firstGrant and at most maxGrant. In the last fragment, it is at most rest,
// the number of missing bytes.
func (c *Conn) nextBlockSize(m *message, h header, rest int) int {
	n := max(firstGrant, min(maxGrant, max(m.chain.Len(), c.r.Buffered())))
	if h.fin {
		n = min(n, rest)
	}
	return n
}

func (c *Conn) readHeader() (header, error) {
	if err := c.await(minHeader); err != nil {
		return header{}, err
	}
	p, err := c.r.Peek(minHeader)
	if err == nil {
		n := headerSize(p)
		if err = c.await(n); err == nil {
			p, err = c.r.Peek(n)
		}
	}
	if err != nil {
		if len(p) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return header{}, err
	}
	c.begun = true
	h, err := parseHeader(p)
	if err == nil {
		err = c.r.Skip(len(p))
	}
	return h, err
}

// await sets the read deadline if fewer than n bytes are buffered. Between messages, it first waits
// for one byte. The MessageTimeout begins when this byte arrives.
func (c *Conn) await(n int) error {
	if c.r.Buffered() >= n {
		return nil
	}
	if !c.begun {
		var idle time.Time
		if c.opts.IdleTimeout > 0 {
			idle = time.Now().Add(c.opts.IdleTimeout)
		}
		if err := c.setReadDeadline(idle); err != nil {
			return err
		}
		if _, err := c.r.Peek(1); err != nil {
			return err
		}
		c.begun = true
		if c.r.Buffered() >= n {
			return nil
		}
	}
	if c.due.IsZero() {
		c.due = time.Now().Add(c.opts.MessageTimeout)
	}
	return c.setReadDeadline(c.due)
}

// setReadDeadline sets the read deadline to t or, after Close, to closeBy.
func (c *Conn) setReadDeadline(t time.Time) error {
	err := c.conn.SetReadDeadline(t)
	if by := c.closeBy.Load(); by != 0 { // Check closeBy after SetReadDeadline, because Close may run during that call.
		err = c.conn.SetReadDeadline(time.Unix(0, by))
	}
	return err
}

func (c *Conn) readFull(p []byte) error {
	if err := c.await(len(p)); err != nil {
		return err
	}
	_, err := io.ReadFull(c.r, p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// handleControl handles a control frame. It returns an error if the frame ends the connection.
func (c *Conn) handleControl(h header) error {
	var buf [maxControl]byte
	p := buf[:h.length]
	if err := c.readFull(p); err != nil {
		return err
	}
	unmask(p, h.mask, 0)
	switch h.opcode {
	case opPing:
		if err := c.writeControl(opPong, p); err != net.ErrClosed {
			return err
		}
		return nil // do not answer pings after Close
	case opPong:
		return nil
	}
	if len(p) == 0 {
		return &CloseError{NoStatus, ""}
	}
	if len(p) == 1 {
		return &CloseError{ProtocolError, "a close frame of one byte"}
	}
	var text textCheck
	e := &CloseError{Code(binary.BigEndian.Uint16(p)), string(p[2:])}
	if !e.Code.valid() {
		return &CloseError{ProtocolError, "an invalid close code"}
	}
	if !text.add(p[2:]) || !text.complete() {
		return &CloseError{InvalidPayload, "the close reason is not UTF-8"}
	}
	return e
}

// fail closes the connection. If err is a *CloseError or a *LimitError, it first sends a close
// frame. Every later Next returns err.
func (c *Conn) fail(err error) error {
	c.err = err
	code, reason := Code(0), ""
	var closing *CloseError
	var limit *LimitError
	switch {
	case errors.As(err, &closing):
		if code = closing.Code; code == NoStatus {
			code = NormalClosure
		}
		reason = closing.Reason
	case errors.As(err, &limit):
		code, reason = MessageTooBig, limit.Error()
	}
	if code != 0 && c.Close(code, reason) == nil {
		c.drain()
	}
	c.release()
	return err
}

// drain discards what the client still sends, until the client closes the connection or a limit is
// reached. If the server closes a connection with unread bytes, the client may lose the close
// frame.
func (c *Conn) drain() {
	if conn, ok := c.conn.(interface{ CloseWrite() error }); ok && conn.CloseWrite() == nil &&
		c.conn.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = c.r.Discard(drainMost)
	}
}

// release closes c and frees the Reader's memory. Only the reading goroutine may call it.
func (c *Conn) release() {
	c.conn.Close()
	c.r.Release()
}

// Write sends a message. It takes ownership of payload, even if it returns an error, and leaves
// payload empty.
func (c *Conn) Write(t Type, payload *millrace.Chain) error {
	var out millrace.Chain
	AppendMessage(&out, t, payload)
	return c.WriteFrames(&out)
}

// WriteFrames sends messages that [AppendMessage] has encoded. It writes as
// [millrace.Chain.WriteTo] does: over TCP, with one system call. It takes ownership of frames, even
// if it returns an error, and leaves frames empty.
func (c *Conn) WriteFrames(frames *millrace.Chain) error {
	defer frames.Release()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeLocked(frames)
}

func (c *Conn) writeLocked(frames *millrace.Chain) error {
	if c.closed {
		return net.ErrClosed
	}
	err := c.conn.SetWriteDeadline(time.Now().Add(c.opts.WriteTimeout))
	if err == nil {
		_, err = frames.WriteTo(c.conn)
	}
	if err != nil {
		c.closed = true // a frame may have been sent in part
	}
	return err
}

// Ping sends a ping. The client answers with a pong, which resets the IdleTimeout.
func (c *Conn) Ping() error { return c.writeControl(opPing, nil) }

func (c *Conn) writeControl(opcode byte, payload []byte) error {
	var buf [maxHeader + maxControl]byte
	var out millrace.Chain
	out.AppendCopy(append(appendHeader(buf[:0], opcode, len(payload)), payload...))
	return c.WriteFrames(&out)
}

// Close sends a close frame with a code and a reason, cut to 123 bytes. After Close, all writes
// fail. Next returns when the client has answered, or after the MessageTimeout. Close returns
// net.ErrClosed if a close frame was sent before.
func (c *Conn) Close(code Code, reason string) error {
	var buf [maxHeader + maxControl]byte
	p := binary.BigEndian.AppendUint16(make([]byte, 0, maxControl), uint16(code))
	p = append(p, validPrefix(reason, maxControl-len(p))...)
	var out millrace.Chain
	defer out.Release()
	out.AppendCopy(append(appendHeader(buf[:0], opClose, len(p)), p...))
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.writeLocked(&out)
	c.closed = true
	by := time.Now().Add(c.opts.MessageTimeout)
	if c.closeBy.CompareAndSwap(0, by.UnixNano()) {
		_ = c.conn.SetReadDeadline(by) // fails only if the connection is closed
	}
	return err
}

// validPrefix returns the longest prefix of s that has at most n bytes and does not end within a
// character.
func validPrefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
