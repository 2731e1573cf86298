// Package reader compares ways to read packets of 1 KiB.
//
// In the first group of tables, a child process sends packets over a TCP connection: as a flood, in
// small writes, or at a steady rate. As in a server, most of the cost is system calls. In the
// second group, the packets come from a generator, which returns 64 to 2048 bytes per Read and
// never waits. These tables show the cost of the readers alone.
//
// Every contender is used as its documentation says. Before a contender is measured, it must
// deliver the bytes that were sent.
package reader

import (
	"bytes"
	"fmt"
	"io"
)

// PacketSize is the size of a packet, in bytes.
const PacketSize = 1024

// A Source is an endless io.Reader that returns 64 to 2048 bytes per Read, or fewer if the buffer
// is shorter. All Sources return the same bytes. The seed determines only where each Read ends.
type Source struct {
	random uint64
	at     int
	_      [128]byte // separates sources of different processors in memory
}

// NewSource returns a Source for the seed.
func NewSource(seed uint64) *Source { return &Source{random: seed*2 + 1} }

const (
	minRead, maxRead = 64, 2048
	period           = 4093 // bytes after which the sequence repeats; prime, so that packets differ
)

// slab holds one period of the sequence, followed by the first maxRead bytes of the next period.
var slab = func() (b [period + maxRead]byte) {
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

func (s *Source) Read(p []byte) (int, error) {
	s.random = xorshift(s.random)
	n := minRead + int((s.random>>32)*(maxRead-minRead+1)>>32)
	n = copy(p, slab[s.at:s.at+n])
	if s.at += n; s.at >= period {
		s.at -= period
	}
	return n, nil
}

// A subscriber receives packets, each in one or more pieces. It reads the first and the last byte
// of each piece.
type subscriber struct {
	bytes int
	sum   uint64
	audit func([]byte) // set by a check; nil while time is measured
}

// Take receives a packet or a piece of a packet. It borrows p.
//
//go:noinline
func (s *subscriber) Take(p []byte) {
	s.bytes += len(p)
	s.sum += uint64(p[0]) + uint64(p[len(p)-1])
	if s.audit != nil {
		s.audit(p)
	}
}

// An audience passes each packet to all subscribers. It also chooses the stream to read next.
type audience struct {
	subs []*subscriber
	sum  uint64
	at   int
}

// deliver passes a packet or a piece of a packet to the subscribers. It borrows p.
func (a *audience) deliver(p []byte) {
	a.sum += uint64(p[0])
	for _, s := range a.subs {
		s.Take(p)
	}
}

func (a *audience) next(n int) int {
	if a.at++; a.at >= n {
		a.at = 0
	}
	return a.at
}

// check reads n packets, and returns an error if a packet is missing or differs from the packet
// that was sent. Each stream must send the sequence of a Source.
func (c contender) check(streams []io.Reader, n int) error {
	var got bytes.Buffer
	first, second := &subscriber{audit: func(p []byte) { got.Write(p) }}, new(subscriber)
	read, release := c.open(streams, &audience{subs: []*subscriber{first, second}})
	read(n)
	release()
	if first.bytes != n*PacketSize || second.bytes != first.bytes {
		return fmt.Errorf("%s: subscribers got %d and %d bytes of %d", c.name, first.bytes,
			second.bytes, n*PacketSize)
	}
	want := make([]byte, PacketSize)
	for i := range n { // the first packet of each stream, then the second, and so on
		at := i / len(streams) * PacketSize
		for j := range want {
			want[j] = slab[(at+j)%period]
		}
		if !bytes.Equal(got.Next(PacketSize), want) {
			return fmt.Errorf("%s: packet %d differs from the one that was sent", c.name, i)
		}
	}
	return nil
}
