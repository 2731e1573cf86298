package reader

import (
	"bufio"
	"io"

	"github.com/cloudwego/gopkg/bufiox"

	"github.com/millrace-io/millrace"
)

type contender struct {
	name string
	// open creates a reader for each stream. The function packets reads n packets, one from each
	// stream in turn, and passes each packet to the audience. The function release frees the
	// readers. Each contender has its own loop, so that no reader is called through an interface.
	open func(streams []io.Reader, a *audience) (packets func(n int), release func())
}

var (
	naive     = contender{"bufio + make a packet (+ copy a subscriber)", openNaive}
	peek      = contender{"bufio 4 KiB, Peek+Discard", openPeek(4 << 10)}
	peekLarge = contender{"bufio 64 KiB, Peek+Discard", openPeek(64 << 10)}
	readRange = contender{"millrace ReadRange", openRange}
	readChain = contender{"millrace ReadChain, released", openChain}
)

// The list onGenerator has the contenders that read from a Source, and the list onTCP has the
// contenders that read from a TCP connection. In each list, the first two contenders are the
// baselines.
var (
	onGenerator = []contender{
		naive, peek, readRange, readChain,
		{"cloudwego bufiox, release per 16 packets", openBufiox},
		{"hand-written 16 KiB block, offsets only", openHand},
	}
	onTCP = []contender{peek, peekLarge, naive, readRange, readChain}
)

func openAll[T any](streams []io.Reader, open func(io.Reader) T) []T {
	all := make([]T, len(streams))
	for i, s := range streams {
		all[i] = open(s)
	}
	return all
}

func nothing() {}

// must panics if err is not nil. The reads of this benchmark never fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func openRange(streams []io.Reader, a *audience) (packets func(int), release func()) {
	rs := openAll(streams, func(s io.Reader) *millrace.Reader { return millrace.NewReader(s) })
	look := func(p []byte) { a.deliver(p) }
	return func(n int) {
		for range n {
			must(rs[a.next(len(rs))].ReadRange(PacketSize, look))
		}
	}, func() { releaseAll(rs) }
}

// openChain reads each packet into a Chain and then releases the Chain. A program could keep the
// Chain instead.
func openChain(streams []io.Reader, a *audience) (packets func(int), release func()) {
	rs := openAll(streams, func(s io.Reader) *millrace.Reader { return millrace.NewReader(s) })
	return func(n int) {
		var c millrace.Chain
		for range n {
			must(rs[a.next(len(rs))].ReadChain(&c, PacketSize))
			for p := range c.All() {
				a.deliver(p)
			}
			c.Release()
		}
	}, func() { releaseAll(rs) }
}

func releaseAll(rs []*millrace.Reader) {
	for _, r := range rs {
		r.Release()
	}
}

// openNaive allocates a slice for each packet, and another for each subscriber.
func openNaive(streams []io.Reader, a *audience) (packets func(int), release func()) {
	rs := openAll(streams, bufio.NewReader)
	return func(n int) {
		for range n {
			p := make([]byte, PacketSize)
			_, err := io.ReadFull(rs[a.next(len(rs))], p)
			must(err)
			a.sum += uint64(p[0])
			for _, s := range a.subs {
				c := make([]byte, len(p))
				copy(c, p)
				s.Take(c)
			}
		}
	}, nothing
}

// openPeek reads with Peek and Discard, without copies. Each packet is valid only until the next
// read.
func openPeek(size int) func([]io.Reader, *audience) (packets func(int), release func()) {
	return func(streams []io.Reader, a *audience) (packets func(int), release func()) {
		rs := openAll(streams, func(s io.Reader) *bufio.Reader {
			return bufio.NewReaderSize(s, size)
		})
		return func(n int) {
			for range n {
				b := rs[a.next(len(rs))]
				p, err := b.Peek(PacketSize)
				must(err)
				a.deliver(p)
				_, err = b.Discard(PacketSize)
				must(err)
			}
		}, nothing
	}
}

// openBufiox reads with Next, without copies. It calls Release after every 16 packets of a stream.
// Until the call to Release, bufiox keeps all bytes that were read.
func openBufiox(streams []io.Reader, a *audience) (packets func(int), release func()) {
	const between = 16
	type stream struct {
		r     *bufiox.DefaultReader
		since int // packets since the last Release
	}
	rs := openAll(streams, func(s io.Reader) *stream {
		return &stream{r: bufiox.NewDefaultReader(s)}
	})
	return func(n int) {
			for range n {
				s := rs[a.next(len(rs))]
				p, err := s.r.Next(PacketSize)
				must(err)
				a.deliver(p)
				if s.since++; s.since == between {
					s.since = 0
					must(s.r.Release(nil))
				}
			}
		}, func() {
			for _, s := range rs {
				s.r.Release(nil)
			}
		}
}

// A handStream reads packets with as little code as possible. If its block has no room for a
// packet, it moves the unread bytes to the start of the block.
type handStream struct {
	src  io.Reader
	buf  []byte
	r, w int
}

func (s *handStream) packet() []byte {
	if s.w-s.r < PacketSize {
		if len(s.buf)-s.r < PacketSize {
			s.w = copy(s.buf, s.buf[s.r:s.w])
			s.r = 0
		}
		for s.w-s.r < PacketSize {
			n, err := s.src.Read(s.buf[s.w:])
			must(err)
			s.w += n
		}
	}
	p := s.buf[s.r : s.r+PacketSize]
	s.r += PacketSize
	return p
}

func openHand(streams []io.Reader, a *audience) (packets func(int), release func()) {
	rs := openAll(streams, func(s io.Reader) *handStream {
		return &handStream{src: s, buf: make([]byte, 16<<10)}
	})
	return func(n int) {
		for range n {
			a.deliver(rs[a.next(len(rs))].packet())
		}
	}, nothing
}
