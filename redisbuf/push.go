package redisbuf

import "bytes"

// stepOverPushes removes from the end of the inbox what a server may send unasked: pushes, which RESP3 has. The
// beginning of one may stay there, for the next call to read on; it has to be short, because a connection holds no
// block between calls. It reports whether there is nothing else.
func (c *conn) stepOverPushes() bool {
	for {
		p := c.inbox.unread()
		if len(p) == 0 {
			c.inbox.clear() // the last line was read, but not taken
			return true
		}
		if p[0] != kindPush {
			return false
		}
		n, ok := replyLen(p, maxNesting)
		if !ok {
			return false
		}
		if n == 0 {
			return c.inbox.shrink()
		}
		c.inbox.take(n)
	}
}

// replyLen returns how many bytes the reply has that p begins with, and 0 if it goes on behind the end of p. It is not ok
// if that is no reply, or one that nobody would step over.
func replyLen(p []byte, nesting int) (n int, ok bool) {
	n = bytes.IndexByte(p, '\n') + 1
	if n == 0 {
		return 0, len(p) < maxLine
	}
	if n < 2 || p[n-2] != '\r' {
		return 0, false
	}
	h, err := parseHeader(p[:n-2])
	if err != nil {
		return 0, false
	}
	elements := h.n
	switch h.kind {
	case kindBulk, kindVerbatim, kindBulkError:
		switch end := int64(n) + h.n + int64(len("\r\n")); {
		case h.n < 0:
			return n, true
		case end > int64(len(p)):
			return 0, true
		default:
			return int(end), p[end-2] == '\r' && p[end-1] == '\n'
		}
	case kindMap, kindAttribute:
		elements *= 2
	case kindArray, kindSet, kindPush:
	default:
		return n, true
	}
	if nesting == 0 || elements > maxElements {
		return 0, false
	}
	for elements > 0 {
		m, ok := replyLen(p[n:], nesting-1)
		if m == 0 {
			return 0, ok
		}
		if p[n] != kindAttribute { // which is about the element that comes next
			elements--
		}
		n += m
	}
	return n, true
}
