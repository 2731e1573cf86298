package redisbuf

import (
	"bufio"
	"io"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The kind of a reply is its first byte. The list has the kinds that the package can receive.
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
	// maxValue is the largest length that the package accepts from a server. It is the default
	// limit in Redis (proto-max-bulk-len).
	maxValue = 512 << 20

	// maxSkip is the maximum number of bytes that are skipped so that a connection can be used
	// again. If more bytes are unwanted, a new connection is cheaper.
	maxSkip = 1 << 20

	maxNesting = 8

	// maxElements is the maximum number of elements of a skipped array, set or map. Each entry of a
	// map counts as two elements.
	maxElements = 1 << 16
)

// A header is the first line of a reply.
type header struct {
	kind byte
	n    int64  // value of an integer, or length of a bulk string, array etc.; -1 for null
	text []byte // text of a status or an error, valid until more bytes are received
}

// parseHeader parses the first line of a reply. The line must not include its line end.
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
	case kindBulk, kindArray, kindPush, kindAttribute, kindMap, kindSet, kindBulkError,
		kindVerbatim:
		var ok bool
		if h.n, ok = parseInt(h.text); !ok || h.n < -1 || h.n > maxValue {
			return h, badReply("%.40q is not a length", h.text)
		}
		return h, nil
	}
	return h, badReply("a reply that begins with %q", h.kind)
}

// parseInt returns the decimal number in p, which must not have a plus sign.
func parseInt(p []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(p), 10, 64)
	return n, err == nil && p[0] != '+'
}

// lineLen is the maximum length of a line, and the size of a connection's receive buffer. A short
// value arrives in the buffer together with its line. Most of a long value bypasses the buffer.
const lineLen = 4 << 10

// readLine returns the next line, without its end. The line is valid until more bytes are read.
func (c *conn) readLine() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return nil, badReply("a line of more than %d bytes", lineLen)
	case err != nil:
		return nil, err
	case len(line) < 2 || line[len(line)-2] != '\r':
		return nil, badReply("a line that does not end in CRLF")
	}
	return line[:len(line)-2], nil
}

func (c *conn) readPart(p []byte) error {
	_, err := io.ReadFull(c.in, p)
	return err
}

// nextHeader returns the next header, even if it belongs to a push or an attribute.
func (c *conn) nextHeader() (header, error) {
	line, err := c.readLine()
	if err != nil {
		return header{}, err
	}
	return parseHeader(line)
}

// readReply returns the header of the reply to a command. It skips pushes and attributes. If ASKING
// was sent before the command, readReply first reads the reply to ASKING. If the reply to the
// command is an error, readReply returns that error. If the reply is null, it returns redis.Nil.
func (c *conn) readReply() (header, error) {
	if c.asking {
		// Ignore an error reply to ASKING, because the reply to the command shows the consequence.
		if err := c.skipReply(); err != nil && !isServerError(err) {
			return header{}, err
		}
	}
	return c.readHeader()
}

// readHeader returns the header of the next reply. It skips pushes and attributes. If the reply is
// an error, readHeader returns that error. If the reply is null, it returns redis.Nil.
func (c *conn) readHeader() (header, error) {
	for {
		h, err := c.nextHeader()
		if err != nil {
			return h, err
		}
		switch h.kind {
		case kindPush, kindAttribute:
			err = c.skipRest(h, maxNesting)
		default:
			return h, c.replyError(h)
		}
		if err != nil {
			return h, err
		}
	}
}

// replyError returns the error of a reply with header h. It returns redis.Nil for null, and nil if
// the reply is not an error.
func (c *conn) replyError(h header) error {
	switch {
	case h.kind == kindError:
		return serverError(h.text)
	case h.kind == kindBulkError:
		if h.n < 0 || h.n > lineLen {
			return badReply("an error of %d bytes", h.n)
		}
		text := make([]byte, h.n)
		if err := c.readPart(text); err != nil {
			return err
		}
		if err := c.readEnd(); err != nil {
			return err
		}
		return serverError(text)
	case h.kind == kindNull, h.n == -1 && (h.kind == kindBulk || h.kind == kindArray):
		return redis.Nil
	}
	return nil
}

// readKind reads the header of a reply, and returns the number in the header. A reply of another
// kind is an error. name describes the expected kind in error messages.
func (c *conn) readKind(kind byte, name string) (int64, error) {
	h, err := c.readReply()
	if err == nil && h.kind != kind {
		err = badReply("%q where %s should be", h.kind, name)
	}
	if err != nil {
		return 0, err
	}
	return h.n, nil
}

// readValueHeader returns the length of a value. The caller must then call readPart and readEnd.
func (c *conn) readValueHeader() (int64, error) { return c.readKind(kindBulk, "a value") }

func (c *conn) readOK() error {
	_, err := c.readKind(kindStatus, "a status")
	return err
}

func (c *conn) readLen() (int64, error) {
	n, err := c.readKind(kindInt, "a length")
	if n < 0 {
		return 0, badReply("a length of %d", n)
	}
	return n, err
}

// readEnd reads the line end after a value.
func (c *conn) readEnd() error {
	p, err := c.in.Peek(len("\r\n"))
	if err != nil {
		return err
	}
	if p[0] != '\r' || p[1] != '\n' {
		return badReply("a value that does not end in CRLF")
	}
	_, err = c.in.Discard(len(p))
	return err
}

// skipUnwanted skips the last n bytes of an unwanted value and its line end, so that the connection
// can be used again. It always returns reason.
//
// If n is greater than maxSkip, skipUnwanted skips nothing and marks the connection as broken. For
// a Conn or a Pipeline, skipUnwanted skips any number of bytes, because the next calls need the
// same connection.
func (c *conn) skipUnwanted(n int64, reason error) error {
	if n > maxSkip && !c.keep && !c.pipelined {
		c.broken = true
	} else if err := c.skipValue(n); err != nil {
		c.broken = true
	}
	return reason
}

// skipReply reads and drops a reply. If the reply is an error, skipReply returns that error.
func (c *conn) skipReply() error {
	h, err := c.readHeader()
	if err != nil {
		return err
	}
	return c.skipRest(h, maxNesting)
}

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

func (c *conn) skipElements(n int64, nesting int) error {
	if nesting == 0 || n > maxElements {
		return badReply("an unexpected reply of %d elements", n)
	}
	for ; n > 0; n-- {
		if err := c.skipElement(nesting); err != nil {
			return err
		}
	}
	return nil
}

// skipElement reads and drops a reply and the attributes before it.
func (c *conn) skipElement(nesting int) error {
	for {
		h, err := c.nextHeader()
		if err != nil {
			return err
		}
		if err := c.skipRest(h, nesting-1); err != nil || h.kind != kindAttribute {
			return err
		}
	}
}

func (c *conn) skipValue(n int64) error {
	if _, err := c.in.Discard(int(n)); err != nil {
		return err
	}
	return c.readEnd()
}

// skipPushes reads and drops the pushes that have arrived since the last reply. If other bytes have
// arrived, it returns a *ProtocolError.
func (c *conn) skipPushes() error {
	for c.in.Buffered() > 0 {
		if c.hasStrayBytes() {
			return badReply("%.40q before the request", c.unread())
		}
		if err := c.skipElement(maxNesting + 1); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) unread() []byte {
	p, _ := c.in.Peek(c.in.Buffered())
	return p
}

// hasStrayBytes reports whether there are unread bytes that do not begin with a push. After the
// last reply of a call, the server may send only pushes, which need no request.
func (c *conn) hasStrayBytes() bool {
	p := c.unread()
	return len(p) > 0 && p[0] != kindPush
}
