package redisbuf

import (
	"bytes"

	"github.com/redis/go-redis/v9"
)

// The kinds of replies, by the first byte: of RESP2, and those of RESP3 that a server may send to what is asked here.
const (
	kindStatus    = '+'
	kindError     = '-'
	kindInt       = ':'
	kindBulk      = '$'
	kindArray     = '*'
	kindNull      = '_'
	kindPush      = '>'
	kindAttribute = '|'
	kindMap       = '%'
	kindSet       = '~'
	kindDouble    = ','
	kindBool      = '#'
	kindBigNumber = '('
	kindBulkError = '!'
	kindVerbatim  = '='
)

const (
	// maxHeader is the longest header of a value: a kind, 19 digits and a line end, rounded up.
	maxHeader = 32

	// maxNesting bounds how deep a reply that nobody wants may be.
	maxNesting = 8

	// maxElements bounds the elements of one.
	maxElements = 1 << 16
)

// A header is the first line of a reply.
type header struct {
	kind byte
	n    int64  // for an integer, its value; for a bulk, array and the like, its length, -1 for none
	text []byte // for a status or an error: valid until the next bytes are received
}

// parseHeader returns the header that line, without its line end, is.
func parseHeader(line []byte) (h header, err error) {
	if len(line) == 0 {
		return h, badReply("an empty line")
	}
	h.kind, h.text = line[0], line[1:]
	switch h.kind {
	case kindStatus, kindError, kindNull, kindDouble, kindBool, kindBigNumber:
		return h, nil
	case kindInt:
		var ok bool
		if h.n, ok = parseInt(h.text); !ok {
			return h, badReply("%.40q is not a number", h.text)
		}
		return h, nil
	case kindBulk, kindArray, kindPush, kindAttribute, kindMap, kindSet, kindBulkError, kindVerbatim:
		var ok bool
		if h.n, ok = parseInt(h.text); !ok || h.n < -1 {
			return h, badReply("%.40q is not a length", h.text)
		}
		return h, nil
	}
	return h, badReply("a reply that begins with %q", h.kind)
}

// parseInt returns the number that p is in decimal, and whether it is one.
func parseInt(p []byte) (n int64, ok bool) {
	negative := len(p) > 0 && p[0] == '-'
	if negative {
		p = p[1:]
	}
	if len(p) == 0 || len(p) > 18 { // so that it cannot overflow
		return 0, false
	}
	for _, c := range p {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// line returns the next line, without its end. It is valid until the next bytes are received.
func (c *conn) line() ([]byte, error) {
	seen := 0
	for {
		p := c.inbox.unread()
		if i := bytes.IndexByte(p[seen:], '\n'); i >= 0 {
			i += seen
			if i == 0 || p[i-1] != '\r' {
				return nil, badReply("a line that does not end in CRLF")
			}
			line := p[:i-1]
			c.inbox.r += i + 1 // the bytes stay where they are; see flush
			return line, nil
		}
		seen = len(p)
		room := c.inbox.room()
		if len(room) == 0 {
			return nil, badReply("a line of more than %d bytes", maxLine)
		}
		n, err := c.receive(1, room, nil, nil)
		c.inbox.received(n)
		if err != nil {
			return nil, cut(err)
		}
	}
}

// readHeader returns the header of the next reply. It steps over pushes and attributes, and returns the error that a reply
// is as such, and redis.Nil for none.
func (c *conn) readHeader() (header, error) {
	for {
		line, err := c.line()
		if err != nil {
			return header{}, err
		}
		h, err := parseHeader(line)
		if err != nil {
			return h, err
		}
		switch h.kind {
		case kindPush:
			err = c.skipElements(h.n, maxNesting)
		case kindAttribute:
			err = c.skipElements(2*h.n, maxNesting)
		default:
			return h, c.meaning(h)
		}
		if err != nil {
			return h, err
		}
	}
}

// meaning returns the error that a reply is, if it is one.
func (c *conn) meaning(h header) error {
	switch {
	case h.kind == kindError:
		return serverError(string(h.text))
	case h.kind == kindBulkError:
		if h.n < 0 || h.n > maxLine {
			return badReply("an error of %d bytes", h.n)
		}
		text := make([]byte, h.n)
		if err := c.readValue(text, 0); err != nil {
			return err
		}
		return serverError(string(text))
	case h.kind == kindNull, h.n == -1 && (h.kind == kindBulk || h.kind == kindArray):
		return redis.Nil
	}
	return nil
}

// skipElements reads n replies and forgets them.
func (c *conn) skipElements(n int64, nesting int) error {
	if nesting == 0 || n > maxElements {
		return badReply("a reply of %d elements where none was asked for", n)
	}
	for n > 0 {
		line, err := c.line()
		if err != nil {
			return err
		}
		h, err := parseHeader(line)
		if err != nil {
			return err
		}
		if err := c.skipRest(h, nesting-1); err != nil {
			return err
		}
		if h.kind != kindAttribute { // which is about the element that comes next
			n--
		}
	}
	return nil
}

// skipRest reads what belongs to a reply after its header, and forgets it.
func (c *conn) skipRest(h header, nesting int) error {
	switch h.kind {
	case kindBulk, kindVerbatim, kindBulkError:
		if h.n >= 0 {
			return c.skipValue(h.n)
		}
	case kindArray, kindSet, kindPush:
		return c.skipElements(h.n, nesting)
	case kindMap, kindAttribute:
		return c.skipElements(2*h.n, nesting)
	}
	return nil
}
