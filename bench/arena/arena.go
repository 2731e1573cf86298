// Package arena measures the cost of assembling a frame, passing the frame on and releasing its
// memory. It compares arena.Pool with plain Go programs and with the Rust crate buffer_sv2, which
// runs in a child process.
//
// Most loops are generic functions, so that all contenders do the same work. The shortest loops are
// written for each type instead, because the indirect calls of a generic function would distort the
// results.
//
// The Rust program and this package generate the same random input. A test can therefore check the
// frames of the Rust program.
package arena

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Program is the arena benchmark.
var Program = &measure.Program{
	Name: "arena", What: "frames assembled, handed over and released", Rounds: 15,
	Turn:  10 * time.Millisecond, // short, so that other processes disturb few measurements
	Parts: []string{"ten", "whole", "slots", "handoff"},
	Brief: []string{"-rounds", "5"},
	Run:   run,
}

const (
	pieceSize = 10               // bytes per write if a frame is written in pieces
	maxFrame  = 1 << 14          // maximum length of a message, in bytes
	spread    = 12_000           // message lengths differ by less than this many bytes
	messages  = 2_000            // messages in a cycle; messages 2i and 2i+1 are equal
	slotSize  = 32               // size of a frame in the measurement of slots, in bytes
	hold      = time.Millisecond // how long a goroutine keeps its frame
	holders   = 256              // maximum number of goroutines that keep a frame
	longer    = 8                // factor by which turns are longer if goroutines keep frames
)

type shape struct {
	capacity int // memory of an arena.Pool in bytes; other contenders ignore it
	slots    int // number of slots of an arena.Pool
	live     int // number of frames that are held at the same time
	order    order
}

// An order says which of the held frames is released next.
type order string

const (
	newest    order = "newest"
	oldest    order = "oldest"
	anyOrder  order = "random"
	maxOrders       = 4096 // number of releases after which the random order repeats
)

var (
	original = shape{capacity: 5 << 16, slots: 8}   // from buffer_sv2's own benchmark
	ample    = shape{capacity: 8 << 20, slots: 512} // enough for all frames
)

// random is a SplitMix64 generator: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
// Generators", OOPSLA 2014.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// The input is not on the heap: a larger heap makes garbage collections rarer, which favors
// contenders that produce garbage.
var (
	lengths    [messages / 2]int
	data       [maxFrame + messages/2]byte
	randomSlot [maxOrders]uint8
)

func init() {
	r := random(1)
	for i := range lengths {
		lengths[i] = maxFrame - int(r.next()%spread)
	}
	for i := range data {
		data[i] = byte(r.next())
	}
	for i := range randomSlot {
		randomSlot[i] = uint8(r.next())
	}
}

// message returns the length n of message i, and memory src for its content. A contender copies
// src[:n] at once, or copies n/pieceSize pieces. Piece number k is src[k:k+pieceSize], so the
// pieces overlap.
func message(i int) (n int, src []byte) {
	i = i / 2 % len(lengths)
	return lengths[i], data[i:]
}

// slotOrder returns the index of the frame that each operation releases. The order repeats after
// maxOrders operations.
func slotOrder(s shape) *[maxOrders]uint8 {
	var next [maxOrders]uint8
	for i := range next {
		switch s.order {
		case oldest:
			next[i] = uint8(i % s.live)
		case anyOrder:
			next[i] = randomSlot[i] % uint8(s.live)
		}
	}
	return &next
}

func run(ctx context.Context, p *measure.Params) (err error) {
	crate, err := startCrate(ctx, crateDir)
	rust := "buffer_sv2 3.0.1"
	switch {
	case errors.Is(err, measure.ErrMissing):
		p.Logf("buffer_sv2 is left out: %v", err)
	case err != nil:
		return err
	default:
		rust += ", cargo build --release, " + crate.version
		defer func() { err = errors.Join(err, crate.Close()) }()
	}
	for _, c := range contenders {
		if err := c.check(); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		kind, what string
		turn       time.Duration
	}{
		{"ten", "Frames written ten bytes at a time, then released", p.Turn},
		{"whole", "Frames written at once, then released", p.Turn},
		{
			"handoff", "Frames written ten bytes at a time, each kept by a goroutine (Rust: a thread) for 1 ms",
			longer * p.Turn,
		},
	} {
		if p.Wants(part.kind) {
			if err := compare(ctx, p, part.kind, part.what+". Rust: "+rust, crate,
				part.turn); err != nil {
				return err
			}
		}
	}
	if p.Wants("slots") {
		return slots(ctx, p,
			"Frames of 32 bytes, taken and released while others are held. Rust: "+rust,
			crate)
	}
	return nil
}

// compare prints a table of all contenders for one kind of work. If crate is nil, the table omits
// the Rust program.
func compare(ctx context.Context, p *measure.Params, kind, title string, crate *crate,
	turn time.Duration) error {
	p.Logf("arena: %s", kind)
	var all []measure.Contender
	own, crateKind := original, kind
	if kind == "handoff" {
		own, crateKind = ample, "apart"
		all = append(all, contenders[0].benchmark("arena.Pool, 8 slots, 320 KiB", kind, original))
	}
	ours := len(all)
	for _, c := range contenders {
		all = append(all, c.benchmark(c.name, kind, own))
	}
	if crate != nil {
		all = append(all, crate.benchmark("Rust: BufferPool", crateKind+"/pool"),
			crate.benchmark("Rust: BufferFromSystemMemory", crateKind+"/heap"))
	}
	costs, err := measure.Compare(ctx, all, p.Rounds, turn)
	if err != nil {
		return err
	}
	t := measure.NewTable("arena-"+kind, title, "contender", "ns a frame", "x arena.Pool", "CPU ns",
		"CPU, x arena.Pool", "B/op",
		"allocs/op", "outside its memory")
	t.Bar = 1
	t.Note = fmt.Sprintf(
		"x is how many times as long the contender takes as arena.Pool in the same round. Unless its row says "+
			"otherwise, arena.Pool has %d slots and %d KiB.", own.slots, own.capacity>>10)
	for i, c := range costs {
		bytes, allocs := c.Bytes.Whole(), fmt.Sprintf("%.2f", c.Allocs.Median())
		if i >= len(all)-2 && crate != nil {
			bytes, allocs = "-", "-" // the Rust program does not report allocations
		}
		t.Row(all[i].Name, c.Nanos, c.Nanos.Over(costs[ours].Nanos), c.CPU.Median(),
			c.CPU.Over(costs[ours].CPU).Median(), bytes,
			allocs, percent(c))
	}
	return p.Add(t)
}

func percent(c measure.Cost) string {
	s, ok := c.More["outside"]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.3g%%", 100*s.Median())
}

func slots(ctx context.Context, p *measure.Params, title string, crate *crate) error {
	var shapes []shape
	// Each pair is a number of held frames and a number of slots. The last two pairs fill all
	// slots.
	for _, held := range [][2]int{{1, 8}, {4, 8}, {8, 64}, {32, 64}, {8, 8}, {64, 64}} {
		for _, o := range []order{newest, oldest, anyOrder} {
			if held[0] > 1 || o == newest {
				shapes = append(shapes, shape{64 << 10, held[1], held[0], o})
			}
		}
	}
	t := measure.NewTable("arena-slots", title, "held, slots, released", "arena.Pool ns", "B/op",
		"outside its memory", "make ns",
		"sync.Pool ns", "buffer_sv2 ns", "its frames outside", "buffer_sv2's, x ours")
	t.Bar = 1
	for _, s := range shapes {
		p.Logf("arena: slots, %d of %d, %s", s.live, s.slots, s.order)
		all := []measure.Contender{poolSlots(s), madeSlots(s), pooledSlots(s)}
		if crate != nil {
			all = append(all, crate.benchmark("buffer_sv2",
				fmt.Sprintf("slots/pool/%d/%s", s.live, s.order)))
		}
		costs, err := measure.Compare(ctx, all, p.Rounds, p.Turn)
		if err != nil {
			return err
		}
		costs = append(costs, measure.Cost{}) // a zero costs[3] if there is no Rust program
		ours, rust := costs[0], costs[3]
		t.Row(fmt.Sprintf("%d, %d, %s", s.live, s.slots, s.order), ours.Nanos, ours.Bytes.Whole(),
			percent(ours),
			costs[1].Nanos.Median(), costs[2].Nanos.Median(), rust.Nanos, percent(rust),
			rust.Nanos.Over(ours.Nanos))
	}
	return p.Add(t)
}
