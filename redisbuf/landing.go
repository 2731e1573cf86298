package redisbuf

import "bytes"

// A reply is received into three areas with one system call: the header into the front of the connection's inbox, the
// value into the memory that it is for, and what comes after it into the back of the inbox. How long the header is has to
// be guessed: it is as long as that of the reply before, unless the number of digits of the value's length has changed.
//
//	inbox[:k]     memory                  inbox[k:]
//	┌──────────┐  ┌────────────────────┐  ┌──────────┐
//	│ $1024 CR │  │ value              │  │ CR LF    │
//	└──────────┘  └────────────────────┘  └──────────┘
//
// If the guess was wrong, the value is moved by the difference. What is no value, or is followed by more than the back of the
// inbox takes (a push, say), is moved into the inbox as a whole and read from there.

// guessed returns how long the header of the next reply probably is, if its value fills size bytes.
func (c *conn) guessed(size int) int {
	if c.headerLen > 0 {
		return c.headerLen
	}
	n := len("$0\r\n")
	for ; size >= 10; size /= 10 {
		n++
	}
	return n
}

// ask sends what was pushed, and receives the header of the reply, which must be a value, and some of that: the first got
// bytes are in buf. The rest of it is received by readValue or skipValue. The error is redis.Nil if there is no value.
// More of buf may have been overwritten.
func (c *conn) ask(buf []byte) (size int64, got int, err error) {
	if c.pipelined || c.wire.sent {
		return c.askNext(buf)
	}
	if len(c.inbox.unread()) > 0 { // a push has begun
		if err := c.awaitReply(); err != nil {
			return 0, 0, err
		}
		return c.askNext(buf)
	}
	if err := c.push(c.part()); err != nil {
		return 0, 0, err
	}
	k := c.guessed(len(buf))
	n, err := c.exchange(1, c.inbox.small[:k], buf, c.inbox.small[k:])
	if n == 0 {
		return 0, 0, cut(err)
	}
	if size, got, ok := c.land(n, k, buf); ok {
		return size, got, nil
	}
	return c.askNext(buf)
}

// askNext is ask for a request that was sent, the reply to which may be in the inbox.
func (c *conn) askNext(buf []byte) (size int64, got int, err error) {
	h, err := c.readHeader()
	if err != nil {
		return 0, 0, err
	}
	if h.kind != kindBulk {
		return 0, 0, badReply("%q where a value should be", h.kind)
	}
	if h.n > c.maxValue {
		return 0, 0, badReply("a value of %d bytes", h.n)
	}
	got = copy(buf[:min(h.n, int64(len(buf)))], c.inbox.unread())
	c.inbox.take(got)
	return h.n, got, nil
}

// land sorts n bytes that were received into inbox[:k], buf and inbox[k:]. If they begin with a value's header it returns
// the value's size, and how much of it is in buf now. Otherwise all of them are in the inbox.
func (c *conn) land(n, k int, buf []byte) (size int64, got int, ok bool) {
	s := stream{c.inbox.small[:k], buf, c.inbox.small[k:]}
	var head [maxHeader]byte
	first := head[:s.copy(head[:min(n, len(head))], 0)]
	h := bytes.IndexByte(first, '\n') + 1
	if h > 0 {
		size, ok = valueSize(first[:h])
	}
	got = int(min(int64(n-h), size, int64(len(buf))))
	extra := n - h - got
	if !ok || size > c.maxValue || extra > inboxLen {
		c.gather(n, &s)
		return 0, 0, false
	}
	c.headerLen = h
	var after [inboxLen]byte
	s.copy(after[:extra], h+got)
	if h > k {
		s.copy(buf[:got], h)
	} else if h < k {
		copy(buf[min(k-h, got):got], buf)
		copy(buf[:got], c.inbox.small[h:k])
	}
	c.inbox.w = copy(c.inbox.small[:], after[:extra])
	return size, got, true
}

// valueSize returns the length in a value's header, which includes its end, and whether it is one.
func valueSize(h []byte) (int64, bool) {
	if len(h) < len("$0\r\n") || h[0] != kindBulk || h[len(h)-2] != '\r' {
		return 0, false
	}
	n, ok := parseInt(h[1 : len(h)-2])
	return n, ok && n >= 0
}

// gather moves the first n bytes of s into the inbox.
func (c *conn) gather(n int, s *stream) {
	if n <= inboxLen {
		var p [inboxLen]byte
		c.inbox.set(p[:s.copy(p[:n], 0)])
		return
	}
	c.inbox.move(max(n, maxLine))
	c.inbox.received(s.copy(c.inbox.room()[:n], 0))
}

// A stream is bytes in three areas, one after the other.
type stream [3][]byte

// copy copies what begins at off into p, and returns how much that was.
func (s *stream) copy(p []byte, off int) (n int) {
	for _, area := range s {
		if off < len(area) {
			n += copy(p[n:], area[off:])
			off = len(area)
		}
		off -= len(area)
	}
	return n
}

// readValue receives the rest of a value, of which the first got bytes are in buf already, and what ends it.
func (c *conn) readValue(buf []byte, got int) error {
	n := copy(buf[got:], c.inbox.unread())
	c.inbox.take(n)
	got += n
	if got < len(buf) {
		room := c.inbox.room()
		n, err := c.receive(len(buf)-got+len("\r\n"), buf[got:], room, nil)
		if n > len(buf)-got {
			c.inbox.received(n - (len(buf) - got))
		}
		if err != nil {
			return cut(err)
		}
	}
	return c.readEnd()
}

// readPart receives a part of a value that is not its end, of which the first got bytes are in buf already.
func (c *conn) readPart(buf []byte, got int) error {
	n := copy(buf[got:], c.inbox.unread())
	c.inbox.take(n)
	if got += n; got == len(buf) {
		return nil
	}
	_, err := c.receive(len(buf)-got, buf[got:], nil, nil)
	return cut(err)
}

// receiveSome receives what there is of a value, at least one byte.
func (c *conn) receiveSome(buf []byte) (int, error) {
	if n := copy(buf, c.inbox.unread()); n > 0 {
		c.inbox.take(n)
		return n, nil
	}
	return c.receive(1, buf, nil, nil)
}

// skipValue receives n bytes of a value and what ends it, and forgets them.
func (c *conn) skipValue(n int64) error {
	for {
		there := int(min(n, int64(len(c.inbox.unread()))))
		c.inbox.take(there)
		if n -= int64(there); n == 0 {
			return c.readEnd()
		}
		if n > skipBlock && c.inbox.w == 0 {
			c.inbox.move(skipBlock)
		}
		got, err := c.receive(1, c.inbox.room(), nil, nil)
		c.inbox.received(got)
		if err != nil {
			return cut(err)
		}
	}
}

// skipBlock is what a value that nobody wants is read into at a time.
const skipBlock = 16 << 10

// readEnd reads what ends a value.
func (c *conn) readEnd() error {
	for len(c.inbox.unread()) < 2 {
		n, err := c.receive(1, c.inbox.room(), nil, nil)
		c.inbox.received(n)
		if err != nil {
			return cut(err)
		}
	}
	if p := c.inbox.unread(); p[0] != '\r' || p[1] != '\n' {
		return badReply("a value that does not end in CRLF")
	}
	c.inbox.take(2)
	return nil
}
