// Package kept measures the cost of passing packets of 1 KiB to ten goroutines, each of which keeps
// a packet for a while and then drops it.
//
// Channels pass the packets, 64 at a time. Their cost is measured separately and subtracted. Every
// contender must first deliver the same bytes to all goroutines.
package kept

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/reader"
)

const (
	subscribers  = 10 // goroutines, each of which receives every packet
	batchPackets = 64 // number of packets in a batch

	queuePackets = 1024 // capacity of each channel
	keepPackets  = 256  // number of packets that each subscriber keeps

	warmUp = 256 // batches that fill the pools before the clock starts
)

// Program compares all contenders in one table.
var Program = &measure.Program{
	Name: "kept", What: "packets of 1 KiB that ten goroutines share and keep", Rounds: 9,
	Turn:  300 * time.Millisecond,
	Brief: []string{"-rounds", "5", "-turn", "200ms"},
	Run:   run,
}

func run(ctx context.Context, p *measure.Params) error {
	var all []measure.Contender
	for _, c := range contenders {
		if err := c.check(50); err != nil {
			return err
		}
		all = append(all, measure.Contender{Name: c.name,
			Turn: func(n int) (measure.Turn, error) { return c.turn(n), nil }})
	}
	p.Logf("kept: all contenders deliver the same bytes")
	costs, err := measure.Compare(ctx, all, p.Rounds, p.Turn)
	if err != nil {
		return err
	}
	t := measure.NewTable("kept", fmt.Sprintf("Packets of 1 KiB kept by %d goroutines",
		subscribers), "contender", "ns a packet",
		"of these hand-off", "without it", "x a slice a packet", "x a slab a batch", "B/op",
		"allocs/op", "GCs a million")
	t.Bar = 3
	t.Note = "x is how many times as fast the contender is, without the hand-off, which is the channels' own time."
	net := func(c measure.Cost) measure.Series { return c.Nanos.Minus(c.More["hand-off"]) }
	for i, c := range costs {
		t.Row(contenders[i].name, c.Nanos, c.More["hand-off"].Median(), net(c),
			net(costs[0]).Over(net(c)), net(costs[1]).Over(net(c)),
			c.Bytes.Whole(), c.Allocs.Median(), c.GCs.Median())
	}
	return p.Add(t)
}

type contender struct {
	name string
	// run sends batches of packets to all subscribers. If audit is not nil, each subscriber passes
	// the bytes that it receives to audit.
	run func(batches int, audit func(subscriber int, p []byte))
	// handOff sends values without data, to measure the cost of the channels.
	handOff func(batches int)
}

// A sharer makes values of type T and shares them with the subscribers. A value contains one packet
// or one batch. Each subscriber calls the functions bytes, look and drop on its own goroutine.
type sharer[T any] struct {
	packets int                    // number of packets in a value
	next    func() T               // returns the next value
	share   func(*T) T             // returns another share, for one subscriber
	bytes   func(*T, func([]byte)) // passes all bytes to a function, for a check
	look    func(*T) uint64        // reads one byte of each packet
	drop    func(*T)               // releases one share
	close   func()
}

func newContender[T any](name string, newSharer func() sharer[T]) contender {
	return contender{
		name: name,
		run:  func(n int, audit func(int, []byte)) { newSharer().run(n, audit) },
		handOff: func(n int) {
			real := newSharer()
			real.close()
			var zero T
			nothing := sharer[T]{
				packets: real.packets,
				next:    func() T { return zero },
				share:   func(v *T) T { return *v },
				look:    func(*T) uint64 { return 0 },
				drop:    func(*T) {},
				close:   func() {},
			}
			nothing.run(n, nil)
		},
	}
}

// run sends batches of packets to the subscribers, and returns when the subscribers have dropped
// all packets.
//
// All contenders send a complete batch at a time, even if they share packets one by one. Otherwise,
// the channels would cost several times as much as the measured work.
func (s sharer[T]) run(batches int, audit func(int, []byte)) {
	var wg sync.WaitGroup
	subs := make([]subscriber[T], subscribers)
	for i := range subs {
		subs[i] = newSubscriber[T](batchPackets / s.packets)
		look := s.look
		if audit != nil {
			look = func(v *T) uint64 {
				s.bytes(v, func(p []byte) { audit(i, p) })
				return 0
			}
		}
		wg.Go(func() { s.subscribe(&subs[i], look) })
	}
	var v T // declared outside the loop, because it escapes to the heap
	for range batches {
		for i := range subs {
			subs[i].filling = <-subs[i].empty
		}
		for k := range batchPackets / s.packets {
			v = s.next()
			for i := range subs {
				subs[i].filling[k] = s.share(&v)
			}
			s.drop(&v)
		}
		for i := range subs {
			subs[i].full <- subs[i].filling
		}
	}
	for i := range subs {
		close(subs[i].full)
	}
	wg.Wait()
	s.close()
}

type subscriber[T any] struct {
	full    chan []T // filled slices for the goroutine
	empty   chan []T // slices that the goroutine returns for reuse
	filling []T
	sum     uint64
}

func newSubscriber[T any](shares int) subscriber[T] {
	const slices = queuePackets / batchPackets
	s := subscriber[T]{full: make(chan []T, slices), empty: make(chan []T, slices)}
	for range slices {
		s.empty <- make([]T, shares)
	}
	return s
}

// subscribe receives packets until sub.full is closed. It keeps the newest keepPackets packets, and
// drops all packets at the end.
func (s sharer[T]) subscribe(sub *subscriber[T], look func(*T) uint64) {
	ring := make([]T, keepPackets/s.packets)
	at, held := 0, 0
	for shares := range sub.full {
		for i := range shares {
			sub.sum += look(&shares[i])
			if held == len(ring) {
				s.drop(&ring[at])
			} else {
				held++
			}
			ring[at] = shares[i]
			if at++; at == len(ring) {
				at = 0
			}
		}
		clear(shares)
		sub.empty <- shares
	}
	for i := range held {
		s.drop(&ring[i])
	}
}

func (c contender) check(batches int) error {
	want := crc32.NewIEEE()
	size := int64(batches * batchPackets * reader.PacketSize)
	if _, err := io.CopyN(want, reader.NewSource(1), size); err != nil {
		return err
	}
	var sums [subscribers]uint32
	var sizes [subscribers]int64
	c.run(batches, func(i int, p []byte) {
		sums[i] = crc32.Update(sums[i], crc32.IEEETable, p)
		sizes[i] += int64(len(p))
	})
	for i := range sums {
		if sums[i] != want.Sum32() || sizes[i] != size {
			return fmt.Errorf("%s: subscriber %d got %d bytes that are not the %d of the source",
				c.name, i, sizes[i], size)
		}
	}
	return nil
}

// turn measures a run of n batches. To exclude the allocations of channels and goroutines, it
// subtracts the allocations of a run of one batch.
func (c contender) turn(n int) measure.Turn {
	all := func(batches int) func() { return func() { c.run(batches, nil) } }
	all(warmUp)()
	runtime.GC()
	once := measure.Take(batchPackets, all(1))
	t := measure.Take(n*batchPackets, all(n))
	t.Bytes -= min(t.Bytes, once.Bytes)
	t.Allocs -= min(t.Allocs, once.Allocs)
	c.handOff(warmUp)
	runtime.GC()
	handOff := measure.Take(t.Ops, func() { c.handOff(n) })
	t.More = map[string]float64{"hand-off": float64(handOff.Time.Nanoseconds()) / float64(t.Ops)}
	return t
}
