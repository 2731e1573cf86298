package kept

import (
	"bufio"
	"io"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/reader"
)

// contenders are all contenders. The table compares each of them with the first, which allocates a
// slice per packet, and with the second, which allocates a slab per batch.
var contenders = []contender{
	newContender("allocate a packet, share the slice", allocated),
	newContender("batches of 64: allocate one slab, share the slice", slabs),
	newContender("millrace, one by one: a Ref each", refs),
	newContender("millrace, one by one: ReadChain, a Chain each", chains),
	newContender("millrace, batches of 64 in one Chain", batches),
}

func itself(p *[]byte, yield func([]byte)) { yield(*p) }

// allocated makes a slice for each packet. The garbage collector frees the slice after the last
// subscriber has dropped it.
func allocated() sharing[[]byte] { return garbage(1, 0) }

// slabs does the same as allocated for batches: one allocation and one read for 64 packets.
func slabs() sharing[[]byte] { return garbage(batchPackets, 64<<10) }

func garbage(packets, buffer int) sharing[[]byte] {
	src := bufio.NewReaderSize(reader.NewSource(1), buffer)
	return sharing[[]byte]{
		packets: packets,
		next: func() []byte {
			p := make([]byte, packets*reader.PacketSize)
			must(io.ReadFull(src, p))
			return p
		},
		share: func(p *[]byte) []byte { return *p },
		bytes: itself,
		look:  func(p *[]byte) uint64 { return strideSum(*p) },
		drop:  func(p *[]byte) { *p = nil },
		close: func() {},
	}
}

// refs reads each packet into a separate block.
func refs() sharing[millrace.Ref] {
	src, pool := bufio.NewReader(reader.NewSource(1)), millrace.NewPool()
	return sharing[millrace.Ref]{
		packets: 1,
		next: func() millrace.Ref {
			d := pool.Get(reader.PacketSize)
			must(io.ReadFull(src, d.Bytes()[:reader.PacketSize]))
			return d.Freeze(reader.PacketSize)
		},
		share: (*millrace.Ref).Clone,
		bytes: func(r *millrace.Ref, yield func([]byte)) { yield(r.Bytes()) },
		look:  func(r *millrace.Ref) uint64 { return uint64(r.Bytes()[0]) },
		drop:  (*millrace.Ref).Release,
		close: func() {},
	}
}

// chains reads packets as chains, which share the blocks of the reader.
func chains() sharing[millrace.Chain] {
	r := millrace.NewReader(reader.NewSource(1))
	return sharing[millrace.Chain]{
		packets: 1,
		next: func() (c millrace.Chain) {
			must(0, r.ReadChain(&c, reader.PacketSize))
			return c
		},
		share: cloneChain,
		bytes: chainBytes,
		look:  lookChain,
		drop:  (*millrace.Chain).Release,
		close: r.Release,
	}
}

// batches works like a relay: it reads packets one by one, merges them, and shares them together.
func batches() sharing[millrace.Chain] {
	r := millrace.NewReader(reader.NewSource(1))
	var packet millrace.Chain
	return sharing[millrace.Chain]{
		packets: batchPackets,
		next: func() (c millrace.Chain) {
			for range batchPackets {
				must(0, r.ReadChain(&packet, reader.PacketSize))
				c.Merge(&packet)
			}
			return c
		},
		share: cloneChain,
		bytes: chainBytes,
		look:  lookChain,
		drop:  (*millrace.Chain).Release,
		close: r.Release,
	}
}

func cloneChain(c *millrace.Chain) (d millrace.Chain) {
	c.Clone(&d)
	return d
}

func chainBytes(c *millrace.Chain, yield func([]byte)) {
	for p := range c.All() {
		yield(p)
	}
}

func lookChain(c *millrace.Chain) (sum uint64) {
	for p := range c.All() {
		sum += strideSum(p)
	}
	return sum
}

// strideSum reads one byte of each packet in p and returns their sum.
func strideSum(p []byte) (sum uint64) {
	for i := 0; i < len(p); i += reader.PacketSize {
		sum += uint64(p[i])
	}
	return sum
}

// must panics if err is not nil. It is for reads from a source that never fails.
func must(_ int, err error) {
	if err != nil {
		panic(err)
	}
}
