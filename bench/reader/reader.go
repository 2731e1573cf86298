// Package reader compares ways to read packets of 1 KiB.
//
// On TCP connections a child process sends: a flood, small writes, or a paced stream. This is the
// load of a server, and system calls are most of the cost. With a generator, which provides 64 to
// 2048 bytes per Read and never waits, the table shows the cost of the readers alone: one stream,
// one stream on each processor, and a hundred streams with ten subscribers each.
//
// Every contender is used as its own documentation says, and before it is measured it must deliver
// the bytes that were sent.
//
// Most of the package is a loop for each contender, and a source for each of both tables.
package reader

import (
	"bytes"
	"fmt"
	"io"
)

// PacketSize is the number of bytes that are read at a time.
const PacketSize = 1024

// A Source provides 64 to 2048 bytes per Read, or as many as there is room for. The bytes are one
// endless sequence, the same for every Source; the seed decides where its reads end.
type Source struct {
	random uint64
	at     int
	_      [128]byte // keeps the source of another processor at a distance
}

// NewSource makes a source.
func NewSource(seed uint64) *Source { return &Source{random: seed*2 + 1} }

const (
	minRead, maxRead = 64, 2048
	period           = 4093 // of the bytes; prime, so that packets differ
)

// slab holds the sequence once, and as much again as a Read may take.
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

// A subscriber is given packets, in one piece or more. It reads the ends of each.
type subscriber struct {
	bytes int
	sum   uint64
	audit func([]byte) // of a check; nil while time is measured
}

// Take borrows p.
//
//go:noinline
func (s *subscriber) Take(p []byte) {
	s.bytes += len(p)
	s.sum += uint64(p[0]) + uint64(p[len(p)-1])
	if s.audit != nil {
		s.audit(p)
	}
}

// An audience is given each packet at once, and knows which stream's turn it is. Without
// subscribers the first byte of each packet is read, and the packet is dropped.
type audience struct {
	subs []*subscriber
	sum  uint64
	at   int
}

// see borrows a packet, or a piece of one.
func (a *audience) see(p []byte) {
	a.sum += uint64(p[0])
	for _, s := range a.subs {
		s.Take(p)
	}
}

// next moves on to the next of n streams.
func (a *audience) next(n int) int {
	if a.at++; a.at >= n {
		a.at = 0
	}
	return a.at
}

// check has a contender read packets from streams that all carry the sequence, and fails if two
// subscribers do not get every byte of it in order.
func (c contender) check(streams []io.Reader, packets int) error {
	var got bytes.Buffer
	first, second := &subscriber{audit: func(p []byte) { got.Write(p) }}, new(subscriber)
	read, release := c.open(streams, &audience{subs: []*subscriber{first, second}})
	read(packets)
	release()
	if first.bytes != packets*PacketSize || second.bytes != first.bytes {
		return fmt.Errorf("%s: subscribers got %d and %d bytes of %d", c.name, first.bytes,
			second.bytes, packets*PacketSize)
	}
	want := make([]byte, PacketSize)
	for i := range packets { // each stream gives its first packet, then each its second
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
