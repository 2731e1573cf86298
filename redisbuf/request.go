package redisbuf

import (
	"strconv"

	"github.com/millrace-io/millrace"
)

// requestLen is what a connection has for a command without its value. For a longer key a block is borrowed.
const requestLen = 160

const (
	// maxDigits is how long a number is at most.
	maxDigits = len("-9223372036854775808")

	// argOverhead is what an argument has besides its bytes at most: "$", its length, and two line ends.
	argOverhead = 1 + maxDigits + 4
)

// A request is a command on its way out. What it is built of stays where it is until release.
//
// Invariant: what was built so far is buf, and begun ≤ len(buf) of it were handed out by part.
type request struct {
	small [requestLen]byte
	large millrace.Draft // instead of small, unless it is empty
	buf   []byte
	begun int
}

// fits reports whether there is room for size bytes more.
func (q *request) fits(size int) bool { return q.buf != nil && size <= cap(q.buf)-len(q.buf) }

// reset makes room for size bytes. What was built before must have been sent.
func (q *request) reset(size int) {
	q.release()
	if size > len(q.small) {
		q.large = millrace.DefaultPool.Get(size)
		q.buf = q.large.Bytes()[:0]
	} else {
		q.buf = q.small[:0]
	}
}

// release gives back what was borrowed.
func (q *request) release() {
	q.large.Release()
	q.buf, q.begun = nil, 0
}

func (q *request) array(n int) { q.number('*', int64(n)) }

func (q *request) arg(s string) {
	q.number('$', int64(len(s)))
	q.buf = append(q.buf, s...)
	q.end()
}

// intArg adds a number as an argument.
func (q *request) intArg(n int64) {
	var digits [maxDigits]byte
	p := strconv.AppendInt(digits[:0], n, 10)
	q.number('$', int64(len(p)))
	q.buf = append(q.buf, p...)
	q.end()
}

// number adds a line that says how many elements, or bytes, come next. Bytes are followed by end.
func (q *request) number(kind byte, n int64) {
	q.buf = append(q.buf, kind)
	q.buf = strconv.AppendInt(q.buf, n, 10)
	q.end()
}

func (q *request) end() { q.buf = append(q.buf, '\r', '\n') }

// rest returns how many bytes were added since the last call of part.
func (q *request) rest() int { return len(q.buf) - q.begun }

// part returns what was added since the last call.
func (q *request) part() []byte {
	p := q.buf[q.begun:len(q.buf):len(q.buf)]
	q.begun = len(q.buf)
	return p
}
