package redisbuf

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// fewPieces of memory go out in one system call from a wire's own list: a header, a value of half a megabyte in blocks of
// 64 KiB, and what follows it. Longer Chains borrow a list of manyPieces, 16 MiB in such blocks: sent at once, a megabyte
// takes three quarters of the time that it takes in tens, and a wire that rests should not hold that list.
const (
	fewPieces  = 10
	manyPieces = 256
)

// A batch is such a list.
type batch [manyPieces][]byte

var batches = sync.Pool{New: func() any { return new(batch) }}

// A wire carries bytes to a server and back. It is used by one goroutine at a time.
//
// Invariants:
//
//	out is part of few, or of batch if there is one
//	written ≤ pushed
//	what of few and batch is not in out, and, between calls, all of in, are nil: a wire keeps nobody's memory alive
type wire struct {
	conn net.Conn
	patience
	readTimeout, writeTimeout time.Duration

	out   [][]byte // what is to be sent
	few   [fewPieces][]byte
	batch *batch // or nil
	sent  bool   // all of the request has left, so that the server may do what it says

	// How many bytes were pushed in this call, and how many of them have left. Values that the kernel moves by itself do not
	// count in either, and are followed by bytes that do.
	pushed, written int64

	in       [3][]byte // where to receive to
	vectored *vectored // or nil: how bytes move without passing through the net package
}

func newWire(conn net.Conn, readTimeout, writeTimeout time.Duration) *wire {
	w := &wire{conn: conn, readTimeout: max(readTimeout, 0), writeTimeout: max(writeTimeout, 0)}
	w.patience.conn = conn
	w.out = w.few[:0]
	w.vectored = newVectored(w)
	w.resumes = w.vectored != nil
	return w
}

// begin is called before a call's first exchange.
func (w *wire) begin(ctx context.Context) error {
	w.sent, w.pushed, w.written = false, 0, 0
	return w.patience.begin(ctx, w.readTimeout)
}

// end is called after a call's last exchange, and reports whether the wire can be used for another call.
func (w *wire) end() bool {
	w.unpush()
	return w.patience.end()
}

// push adds p to what is sent next. It borrows p until that has happened.
func (w *wire) push(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if len(w.out) == fewPieces && w.batch == nil && w.vectored != nil {
		w.batch = batches.Get().(*batch)
		w.out = w.batch[:copy(w.batch[:], w.few[:])]
		clear(w.few[:])
	}
	if len(w.out) == cap(w.out) {
		if err := w.send(); err != nil {
			return err
		}
	}
	w.out = append(w.out, p)
	w.pushed += int64(len(p))
	return nil
}

// renew gives whatever waits from now on the whole timeout again, after time that was spent elsewhere.
func (w *wire) renew() error {
	if w.timeout == 0 || w.glancing {
		return nil
	}
	return w.setDeadline()
}

// unpush forgets what was pushed.
func (w *wire) unpush() {
	clear(w.out)
	w.out = w.few[:0]
	if w.batch != nil {
		batches.Put(w.batch)
		w.batch = nil
	}
}

// exchange sends what was pushed, and then receives until at least need bytes have come, into a, b and c in that order.
func (w *wire) exchange(need int, a, b, c []byte) (n int, err error) {
	if w.vectored == nil {
		if err := w.send(); err != nil {
			return 0, err
		}
		w.sent = true
		return w.receive(need, a, b, c)
	}
	w.sent = w.sent || len(w.out) == 0
	w.in = [3][]byte{a, b, c}
	if err = w.use(w.readTimeout); err == nil {
		n, err = w.vectored.exchange(need)
	}
	w.in = [3][]byte{}
	return n, err
}

// receive receives until at least need bytes have come, into a, b and c in that order.
func (w *wire) receive(need int, a, b, c []byte) (n int, err error) {
	w.in = [3][]byte{a, b, c}
	if err = w.use(w.readTimeout); err == nil {
		if w.vectored != nil {
			n, err = w.vectored.receive(need)
		} else {
			n, err = w.read(need)
		}
	}
	w.in = [3][]byte{}
	return n, err
}

// read is receive by the connection's own Read.
func (w *wire) read(need int) (n int, err error) {
	for n < need {
		area := &w.in[0]
		for i := range w.in {
			if area = &w.in[i]; len(*area) > 0 {
				break
			}
		}
		m, err := w.conn.Read(*area)
		*area = (*area)[m:]
		n += m
		w.moved = w.moved || m > 0
		if n >= need {
			break
		}
		if err = w.goesOn(err); err != nil {
			return n, err
		}
	}
	return n, nil
}

// send sends what was pushed.
func (w *wire) send() error {
	if len(w.out) == 0 {
		return nil
	}
	err := w.use(w.writeTimeout)
	if err == nil && !w.resumes && w.moved {
		err = w.renew() // in the middle of a call: a Write that a deadline has ended cannot be called again
	}
	if err == nil {
		if w.vectored != nil {
			err = w.vectored.send()
		} else {
			err = w.writePieces()
		}
	}
	w.unpush()
	return err
}

// goesOn returns nil if a Read or Write that gave err is to be called again.
func (w *wire) goesOn(err error) error {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return w.expired(err)
}

// writeStep is how much the connection's own Write is given at a time. Each of them has the whole timeout, because one that
// a deadline has ended cannot be called again.
const writeStep = 64 << 10

// write is the connection's own Write of all of p.
func (w *wire) write(p []byte) error {
	for {
		n, err := w.conn.Write(p[:min(len(p), writeStep)])
		p = p[n:]
		w.written += int64(n)
		w.moved = w.moved || n > 0
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if over := w.over(); over != nil {
				err = over
			}
		}
		if err != nil || len(p) == 0 {
			return err
		}
		if err := w.renew(); err != nil {
			return err
		}
	}
}

// took removes the first n bytes from pieces, and returns how many pieces are gone.
func took(pieces [][]byte, n int) (gone int) {
	for i := range pieces {
		if n < len(pieces[i]) {
			pieces[i] = pieces[i][n:]
			return i
		}
		n -= len(pieces[i])
		pieces[i] = nil
	}
	return len(pieces)
}

// errClosedByServer says that the server has ended the connection where a reply should be.
var errClosedByServer = io.ErrUnexpectedEOF
