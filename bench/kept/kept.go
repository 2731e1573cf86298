// Package kept measures what it costs to hand packets of 1 KiB to ten
// goroutines that keep them for a while and then let go.
//
// The packets come from a source like those of package reader, are shared one
// by one or as batches, go over ten channels, 64 at a time, and wait in a ring
// in each goroutine. What the channels cost by themselves is measured with
// values of the same size that nobody has to look after, and is subtracted.
package kept

import (
	"runtime"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/reader"
	"github.com/millrace-io/millrace/internal/crossover"
)

const (
	// Subscribers is how many goroutines get each packet.
	Subscribers = 10
	// BatchPackets is how many packets are shared at once where they are.
	BatchPackets = 64

	// What waits in a channel and what a subscriber holds on to is the same
	// number of bytes for all, so that nobody has the caches to himself.
	queuePackets = 1024
	keepPackets  = 256
)

// Contender is a way to share.
type Contender struct {
	Name    string
	Batched bool // shares BatchPackets at once
	run     func(packets int)
	handOff func(packets int) // the same, without packets
}

// sharing is a contender's way with a T, which stands for one packet or one
// batch. Producer and subscribers run in goroutines of their own.
type sharing[T any] struct {
	packets int // in a T
	next    func() T
	share   func(*T) T      // another share, for one subscriber
	look    func(*T) uint64 // at each packet
	drop    func(*T)        // one share
	close   func()
}

// contender makes one of s, which is called anew for each turn.
func contender[T any](name string, s func() sharing[T]) Contender {
	return Contender{
		Name:    name,
		Batched: s().packets > 1,
		run:     func(n int) { s().run(n) },
		handOff: func(n int) {
			real := s()
			real.close()
			var zero T
			nothing := sharing[T]{
				packets: real.packets,
				next:    func() T { return zero },
				share:   func(v *T) T { return *v },
				look:    func(*T) uint64 { return 0 },
				drop:    func(*T) {},
				close:   func() {},
			}
			nothing.run(n)
		},
	}
}

// run hands packets out until all subscribers have let go of them. However
// they are shared, BatchPackets of them cross a channel at once: a channel
// operation a packet and subscriber costs several times what is measured here.
func (s sharing[T]) run(packets int) {
	var wg sync.WaitGroup
	subs := make([]subscriber[T], Subscribers)
	for i := range subs {
		subs[i] = newSubscriber[T](BatchPackets / s.packets)
		wg.Go(func() { s.subscribe(&subs[i]) })
	}
	var v T // one for all, because its address escapes
	for range packets / BatchPackets {
		for i := range subs {
			subs[i].filling = <-subs[i].empty
		}
		for k := range BatchPackets / s.packets {
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

// subscriber is where a goroutine's packets wait. Slices go back and forth, so
// that nothing is allocated for them.
type subscriber[T any] struct {
	full, empty chan []T
	filling     []T
	sum         uint64
}

func newSubscriber[T any](shares int) subscriber[T] {
	const slices = queuePackets / BatchPackets
	s := subscriber[T]{full: make(chan []T, slices), empty: make(chan []T, slices)}
	for range slices {
		s.empty <- make([]T, shares)
	}
	return s
}

// subscribe keeps the last keepPackets packets.
func (s sharing[T]) subscribe(sub *subscriber[T]) {
	ring := make([]T, keepPackets/s.packets)
	at, held := 0, 0
	for shares := range sub.full {
		for i := range shares {
			sub.sum += s.look(&shares[i])
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

// Result is one contender, a value for each round.
type Result struct {
	Contender    Contender
	measure.Cost                // of a packet, all told
	HandOff      measure.Series // nanoseconds a packet, for the channels alone
}

// Measure gives every contender a turn of about d in every round, and its
// hand-off one right after it.
func Measure(rounds int, d time.Duration) []Result {
	results := make([]Result, len(Contenders))
	packets := make([]int, len(Contenders))
	const probe = 200 * BatchPackets
	for i, c := range Contenders {
		results[i].Contender = c
		n := int(probe * float64(d) / float64(turn(c.run, probe).Time))
		packets[i] = max(n/BatchPackets, 2) * BatchPackets
	}
	for round := range rounds {
		for _, i := range crossover.Order(len(Contenders), round) {
			r := &results[i]
			r.Add(turn(r.Contender.run, packets[i]), packets[i])
			handOff := turn(r.Contender.handOff, packets[i]).Time
			r.HandOff = append(r.HandOff, float64(handOff)/float64(packets[i]))
		}
	}
	return results
}

// turn hands out n packets. Channels and goroutines are made anew for it; what
// they allocate is known from a short run, and left out.
func turn(run func(int), n int) measure.Turn {
	run(warmUp)
	runtime.GC() // nobody pays for the garbage of the one before
	once := measure.Take(func() { run(short) })
	t := measure.Take(func() { run(n) })
	t.Bytes -= min(t.Bytes, once.Bytes)
	t.Allocs -= min(t.Allocs, once.Allocs)
	return t
}

const (
	// warmUp is how many packets fill the pools before the clock starts.
	warmUp = 16 << 10
	// short is the run that allocates what every run does, and little else.
	short = BatchPackets
)

// strideSum looks at one byte of each packet in p.
func strideSum(p []byte) (sum uint64) {
	for i := 0; i < len(p); i += reader.PacketSize {
		sum += uint64(p[i])
	}
	return sum
}
