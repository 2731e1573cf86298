package bench

import (
	"bufio"
	"context"
	"io"

	"github.com/millrace-io/millrace"
)

// What a source gives, and what is read from it.
const (
	packetSize       = 1 << 10
	minRead, maxRead = 64, 2048
	period           = 4093 // of the bytes; prime, so that packets differ
	subscribers      = 10
)

// sequence is what every source gives, again and again, with as much of its beginning at its end as a Read may take. It is
// not on the heap, which it would make larger: the collector would run less often for those who make garbage.
var sequence = func() (b [period + maxRead]byte) {
	x := uint64(88172645463325252)
	for i := range b[:period] {
		x = xorshift(x)
		b[i] = byte(x >> 32)
	}
	copy(b[period:], b[:maxRead])
	return b
}()

func xorshift(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	return x
}

// A source gives 64 to 2048 bytes per Read, or what there is room for. It gives the same to everybody.
type source struct {
	random uint64
	at     int
}

func newSource() *source { return &source{random: 3} }

func (s *source) Read(p []byte) (int, error) {
	s.random = xorshift(s.random)
	n := minRead + int((s.random>>32)*(maxRead-minRead+1)>>32)
	n = copy(p, sequence[s.at:s.at+n])
	if s.at += n; s.at >= period {
		s.at -= period
	}
	return n, nil
}

// A look is what is done with bytes that were read: their first and last byte are added to sums, so that nothing is
// optimised away.
type look struct {
	sum   uint64
	audit func(subscriber int, p []byte) // of a test; sees all of them
}

//go:noinline
func (l *look) at(subscriber int, p []byte) {
	l.sum += uint64(p[0]) + uint64(p[len(p)-1])
	if l.audit != nil {
		l.audit(subscriber, p)
	}
}

// readers are what the contests of the suite are made of: each reads n packets and looks at them.
func readerContests() []contest {
	return []contest{
		{"look", "Look at a packet of 1 KiB", "packet", []contender{
			reading("readrange", "millrace Reader.ReadRange", borrow),
			reading("peek", "bufio Peek + Discard", peek),
			reading("make", "bufio, make a packet", readOwn(1)),
		}},
		{"own", "Own a packet of 1 KiB, to keep or pass on", "packet", []contender{
			reading("readchain", "millrace Reader.ReadChain", shareTo(1)),
			reading("make", "bufio, make a packet", readOwn(1)),
		}},
		{"share", "Give a packet of 1 KiB to 10 subscribers, each its own", "packet", []contender{
			reading("clone", "millrace ReadChain, Clone for each", shareTo(subscribers)),
			reading("copy", "bufio, make and copy for each", readOwn(subscribers)),
		}},
	}
}

// A reading opens a way to read packets from src; what it returns reads n of them.
type readWay func(src io.Reader, l *look) (read func(n int) error, release func())

func reading(key, name string, way readWay) contender {
	return contender{key, name, func(context.Context) (*task, error) {
		do, release := way(newSource(), new(look))
		return &task{do, release}, nil
	}}
}

// borrow looks at each packet where it lies.
func borrow(src io.Reader, l *look) (func(int) error, func()) {
	r := millrace.NewReader(src)
	see := func(p []byte) { l.at(0, p) }
	return func(n int) error {
		for range n {
			if err := r.ReadRange(packetSize, see); err != nil {
				return err
			}
		}
		return nil
	}, r.Release
}

// shareTo gives each of some subscribers a share of each packet, which it looks at and releases.
func shareTo(subscribers int) readWay {
	return func(src io.Reader, l *look) (func(int) error, func()) {
		r := millrace.NewReader(src)
		return func(n int) error {
			var packet, share millrace.Chain
			for range n {
				if err := r.ReadChain(&packet, packetSize); err != nil {
					return err
				}
				for i := 1; i < subscribers; i++ {
					packet.Clone(&share)
					see(l, i, &share)
				}
				see(l, 0, &packet)
			}
			return nil
		}, r.Release
	}
}

// see looks at c and releases it.
func see(l *look, subscriber int, c *millrace.Chain) {
	for p := range c.All() {
		l.at(subscriber, p)
	}
	c.Release()
}

// peek is bufio without copies. Nothing can be kept.
func peek(src io.Reader, l *look) (func(int) error, func()) {
	r := bufio.NewReader(src)
	return func(n int) error {
		for range n {
			p, err := r.Peek(packetSize)
			if err != nil {
				return err
			}
			l.at(0, p)
			if _, err := r.Discard(packetSize); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// readOwn is how it is usually done: a slice for each packet, and a copy for each subscriber beyond the first.
func readOwn(subscribers int) readWay {
	return func(src io.Reader, l *look) (func(int) error, func()) {
		r := bufio.NewReader(src)
		size := packetSize // a variable, so that the slice is on the heap, like one that is passed on
		return func(n int) error {
			for range n {
				p := make([]byte, size)
				if _, err := io.ReadFull(r, p); err != nil {
					return err
				}
				for i := 1; i < subscribers; i++ {
					c := make([]byte, len(p))
					copy(c, p)
					l.at(i, c)
				}
				l.at(0, p)
			}
			return nil
		}, nil
	}
}
