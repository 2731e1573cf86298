package redisbuf

import "strconv"

// maxKept is the maximum capacity, in bytes, of a buffer that the next request reuses.
const maxKept = 4 << 10

// A request collects the text of commands, without the values, which are queued separately.
type request struct {
	buf    []byte
	begun  int  // buf[:begun] has been queued
	asking bool // add ASKING before each command, because the key's slot is moving to this server
}

func (q *request) reset() {
	if cap(q.buf) > maxKept {
		q.buf = nil
	}
	q.buf, q.begun, q.asking = q.buf[:0], 0, false
}

// nextPart returns the text that was added since the last call. Adding more text does not change
// the returned text.
func (q *request) nextPart() []byte {
	p := q.buf[q.begun:len(q.buf):len(q.buf)]
	q.begun = len(q.buf)
	return p
}

// beginCommand appends the first line of a command to the request. The line contains n, the number
// of the command's arguments.
func (q *request) beginCommand(n int) {
	if q.asking {
		q.buf = append(q.buf, "*1\r\n$6\r\nASKING\r\n"...)
	}
	q.line('*', int64(n))
}

func (q *request) arg(s string) {
	q.bulkLen(int64(len(s)))
	q.buf = append(q.buf, s...)
	q.lineEnd()
}

func (q *request) intArg(n int64) {
	var digits [len("-9223372036854775808")]byte
	p := strconv.AppendInt(digits[:0], n, 10)
	q.bulkLen(int64(len(p)))
	q.buf = append(q.buf, p...)
	q.lineEnd()
}

// bulkLen adds the length line of an argument of n bytes. The caller then adds the n bytes and a
// lineEnd.
func (q *request) bulkLen(n int64) { q.line('$', n) }

func (q *request) line(kind byte, n int64) {
	q.buf = append(q.buf, kind)
	q.buf = strconv.AppendInt(q.buf, n, 10)
	q.lineEnd()
}

func (q *request) lineEnd() { q.buf = append(q.buf, '\r', '\n') }
