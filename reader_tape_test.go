package millrace_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing/iotest"

	"github.com/millrace-io/millrace"
)

// A tape is what a source gives: bytes, and errors that lie between them. Where an error lies depends on the bytes
// before it and on nothing else, so that two readers that ask for different amounts still meet the same stream.
// Behind everything lies io.EOF, again and again.
type tape struct {
	data   []byte
	faults []fault // in order of at
}

type fault struct {
	at  int
	err error
}

var faultErrors = []error{
	errors.New("first fault"),
	errors.New("second fault"),
	io.EOF, // a file that grows: the reader may come back after its end
	iotest.ErrTimeout,
}

// A player gives a tape as one of several kinds of source would.
type player struct {
	tape
	kind  kind
	rng   *rand.Rand
	at    int // bytes given
	next  int // faults given
	calls int
	bare  int   // at this byte an error comes alone, attach or not
	last  error // the last error given
	zero  bool  // the last call gave nothing
}

// A kind says how a player cuts its tape.
type kind struct {
	name   string
	most   int  // bytes at a time; 0 means as many as are asked for
	zeros  bool // now and then nothing and no error
	attach bool // an error comes together with the bytes before it
	wrap   func(io.Reader) io.Reader
	ahead  bool // wrap reads ahead, so that the player cannot tell what has been consumed
}

var kinds = []kind{
	{name: "whole"},
	{name: "whole, errors with data", attach: true},
	{name: "packets", most: 1500},
	{name: "packets, errors with data", most: 1500, attach: true},
	{name: "trickle with empty reads", most: 20, zeros: true},
	{name: "trickle with empty reads, errors with data", most: 20, zeros: true, attach: true},
	{name: "OneByteReader", wrap: iotest.OneByteReader},
	{name: "HalfReader", wrap: iotest.HalfReader},
	{name: "DataErrReader", wrap: iotest.DataErrReader, ahead: true},
}

func newPlayer(t tape, k kind, seed uint64) *player {
	return &player{tape: t, kind: k, rng: rand.New(rand.NewPCG(seed, 1)), bare: -1}
}

// source returns what the readers under test are given.
func (p *player) source() io.Reader {
	if p.kind.wrap != nil {
		return p.kind.wrap(p)
	}
	return p
}

// rewound returns a player that gives the last n bytes again, but not the error that came behind them.
func (p *player) rewound(n int) *player {
	q := newPlayer(p.tape, p.kind, uint64(p.at))
	q.at, q.next, q.bare = p.at-n, p.next, p.at
	return q
}

// end returns where the bytes up to the next error end.
func (p *player) end() int {
	if p.next < len(p.faults) {
		return p.faults[p.next].at
	}
	return len(p.data)
}

func (p *player) fault() error {
	p.last = io.EOF
	if p.next < len(p.faults) {
		p.last = p.faults[p.next].err
		p.next++
	}
	return p.last
}

// size chooses how much of room bytes to give.
func (p *player) size(room int) int {
	n := min(room, p.end()-p.at)
	if p.kind.most > 0 && n > 0 {
		n = 1 + p.rng.IntN(min(n, p.kind.most))
	}
	return n
}

func (p *player) Read(b []byte) (int, error) {
	p.calls++
	if p.zero = p.kind.zeros && !p.zero && p.rng.IntN(3) == 0; p.zero {
		return 0, nil
	}
	if p.at == p.end() {
		return 0, p.fault()
	}
	n := copy(b[:p.size(len(b))], p.data[p.at:])
	p.at += n
	if p.kind.attach && p.at == p.end() && p.at != p.bare {
		return n, p.fault()
	}
	return n, nil
}

// feed is a player as NewReaderFrom wants it: it gives a few pieces at a time, made in different ways.
func (p *player) feed(dst *millrace.Chain) error {
	p.calls++
	if p.zero = p.kind.zeros && !p.zero && p.rng.IntN(3) == 0; p.zero {
		return nil
	}
	if p.at == p.end() {
		return p.fault()
	}
	for range 1 + p.rng.IntN(4) {
		if p.at == p.end() {
			break
		}
		n := p.size(1 + p.rng.IntN(5000))
		addPiece(dst, p.data[p.at:p.at+n], p.rng.IntN(3))
		p.at += n
	}
	if p.kind.attach && p.at == p.end() && p.at != p.bare {
		return p.fault()
	}
	return nil
}

// addPiece adds b to c in one of three ways.
func addPiece(c *millrace.Chain, b []byte, how int) {
	switch how {
	case 0:
		c.AppendCopy(b)
	case 1:
		d := millrace.DefaultPool.Get(len(b))
		r := d.Freeze(copy(d.Bytes(), b))
		c.Append(&r)
	default: // a view of a larger block that somebody else had
		d := millrace.DefaultPool.Get(len(b) + 7)
		copy(d.Bytes(), "before!")
		r := d.Freeze(7 + copy(d.Bytes()[7:], b))
		s := r.Slice(7, 7+len(b))
		r.Release()
		c.Append(&s)
	}
}

// stuff makes n bytes of everything that the methods of a Reader look for: lines of either ending and of all lengths,
// characters of all sizes, broken characters, varints.
func stuff(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+64)
	for len(b) < n {
		switch rng.IntN(8) {
		case 0:
			b = append(b, '\n')
		case 1:
			b = append(b, "\r\n"...)
		case 2:
			b = append(b, '\r')
		case 3:
			b = append(b, "日本語 é 🙂"[rng.IntN(6):]...)
		case 4:
			for range rng.IntN(12) {
				b = append(b, 0x80|byte(rng.Uint32()))
			}
		case 5:
			for range rng.IntN(1 << rng.IntN(14)) {
				b = append(b, byte(rng.Uint32())|1) // never a newline
			}
		default:
			for range rng.IntN(40) {
				b = append(b, 'a'+byte(rng.IntN(26)))
			}
		}
	}
	return b[:n]
}

func randomTape(rng *rand.Rand, most int) tape {
	t := tape{data: stuff(rng, rng.IntN(most))}
	at := 0
	for range rng.IntN(6) {
		at += rng.IntN(len(t.data) - at + 1)
		t.faults = append(t.faults, fault{at, faultErrors[rng.IntN(len(faultErrors))]})
	}
	return t
}
