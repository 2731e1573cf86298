package kept

import (
	"bufio"
	"io"

	"google.golang.org/grpc/mem"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/reader"
)

// Contenders are all of them; the first is what the others are compared with.
var Contenders = []Contender{
	contender("allocate once, share the slice", allocated),
	contender("millrace, one by one: a Ref each", refs),
	contender("millrace, one by one: ReadChain, a Chain each", chains),
	contender("millrace, batches of 64 in one Chain", batches),
	contender("grpc mem, Ref and Free", grpc),
}

// allocated lets the garbage collector find out when the last one let go.
func allocated() sharing[[]byte] {
	src := bufio.NewReader(reader.NewSource(1))
	return sharing[[]byte]{
		packets: 1,
		next: func() []byte {
			p := make([]byte, reader.PacketSize)
			must(io.ReadFull(src, p))
			return p
		},
		share: func(p *[]byte) []byte { return *p },
		look:  func(p *[]byte) uint64 { return uint64((*p)[0]) },
		drop:  func(p *[]byte) { *p = nil },
		close: func() {},
	}
}

// refs has a block for each packet.
func refs() sharing[millrace.Ref] {
	src := bufio.NewReader(reader.NewSource(1))
	return sharing[millrace.Ref]{
		packets: 1,
		next: func() millrace.Ref {
			d := millrace.DefaultPool.Get(reader.PacketSize)
			must(io.ReadFull(src, d.Bytes()[:reader.PacketSize]))
			return d.Freeze(reader.PacketSize)
		},
		share: (*millrace.Ref).Clone,
		look:  func(r *millrace.Ref) uint64 { return uint64(r.Bytes()[0]) },
		drop:  (*millrace.Ref).Release,
		close: func() {},
	}
}

// chains takes packets out of the reader's own blocks.
func chains() sharing[millrace.Chain] {
	r := millrace.NewReader(reader.NewSource(1))
	return sharing[millrace.Chain]{
		packets: 1,
		next: func() (c millrace.Chain) {
			must(0, r.ReadChain(&c, reader.PacketSize))
			return c
		},
		share: cloneChain,
		look:  lookChain,
		drop:  (*millrace.Chain).Release,
		close: r.Release,
	}
}

// batches is what a relay does: packets are taken one by one, merged, and
// shared together.
func batches() sharing[millrace.Chain] {
	r := millrace.NewReader(reader.NewSource(1))
	var packet millrace.Chain
	return sharing[millrace.Chain]{
		packets: BatchPackets,
		next: func() (c millrace.Chain) {
			for range BatchPackets {
				must(0, r.ReadChain(&packet, reader.PacketSize))
				c.Merge(&packet)
			}
			return c
		},
		share: cloneChain,
		look:  lookChain,
		drop:  (*millrace.Chain).Release,
		close: r.Release,
	}
}

func cloneChain(c *millrace.Chain) (d millrace.Chain) {
	c.Clone(&d)
	return d
}

func lookChain(c *millrace.Chain) (sum uint64) {
	for p := range c.All() {
		sum += strideSum(p)
	}
	return sum
}

// grpc counts views of packed blocks. A packet that lies in two blocks is two
// views, which makes it a slice of them.
func grpc() sharing[mem.BufferSlice] {
	s := reader.NewGRPCStream(reader.NewSource(1))
	return sharing[mem.BufferSlice]{
		packets: 1,
		next:    func() mem.BufferSlice { return s.Packet(make(mem.BufferSlice, 0, 2)) },
		share: func(b *mem.BufferSlice) mem.BufferSlice {
			b.Ref()
			return *b
		},
		look:  func(b *mem.BufferSlice) uint64 { return uint64((*b)[0].ReadOnlyData()[0]) },
		drop:  func(b *mem.BufferSlice) { b.Free() },
		close: s.Close,
	}
}

// must is for reads from a source that never fails.
func must(_ int, err error) {
	if err != nil {
		panic(err)
	}
}
