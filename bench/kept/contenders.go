package kept

import (
	"bufio"
	"io"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/reader"
)

// The first two contenders are the baselines.
var contenders = []contender{
	newContender("allocate a packet, share the slice", newSlices),
	newContender("batches of 64: allocate one slab, share the slice", newSlabs),
	newContender("millrace, one by one: a Ref each", newRefs),
	newContender("millrace, one by one: ReadChain, a Chain each", newChains),
	newContender("millrace, batches of 64 in one Chain", newBatches),
}

func itself(p *[]byte, yield func([]byte)) { yield(*p) }

func newSlices() sharer[[]byte] { return garbage(1, 0) }

func newSlabs() sharer[[]byte] { return garbage(batchPackets, 64<<10) }

func garbage(packets, buffer int) sharer[[]byte] {
	src := bufio.NewReaderSize(reader.NewSource(1), buffer)
	return sharer[[]byte]{
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

func newRefs() sharer[millrace.Ref] {
	src, pool := bufio.NewReader(reader.NewSource(1)), millrace.NewPool()
	return sharer[millrace.Ref]{
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

// newChains reads each packet into a Chain, which shares the blocks of the Reader.
func newChains() sharer[millrace.Chain] {
	r := millrace.NewReader(reader.NewSource(1))
	return sharer[millrace.Chain]{
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

// newBatches reads packets one by one, and merges each batch into one Chain, like a relay.
func newBatches() sharer[millrace.Chain] {
	r := millrace.NewReader(reader.NewSource(1))
	var packet millrace.Chain
	return sharer[millrace.Chain]{
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
	c.CloneTo(&d)
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
