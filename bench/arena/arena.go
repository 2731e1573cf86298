// Package arena measures what it costs to assemble a frame, hand it over and
// get its memory back: arena.Pool beside what Go programs do without it, and
// beside the Rust crate buffer_sv2, which runs as a child process.
//
// The code of those that have Writable, Take and Release is the same text, once
// for each type: a generic function or an interface would call the methods
// indirectly, and nothing could be inlined. pool.go is the text; the files that
// are generated are made from it.
package arena

//go:generate ./generate

import "time"

const (
	piece    = 10               // bytes of each write of a frame that arrives bit by bit
	maxFrame = 1 << 14          // bytes of the longest message
	spread   = 12_000           // how much shorter the shortest is
	messages = 2_000            // until the lengths begin again; two in a row are alike
	slotSize = 32               // bytes of a frame where the structure alone is measured
	hold     = time.Millisecond // how long a frame is looked at that was handed over
	holders  = 256              // how many do so at a time
)

// Shape says what a contender works in, where that means anything to it.
type Shape struct {
	Capacity int // bytes
	Slots    int // of a Pool
	Frame    int // bytes of the longest frame
	Live     int // how many frames are held at a time
	Order    Order
}

// Order is that in which frames are released.
type Order string

// The orders.
const (
	Newest Order = "newest" // the last one that was taken
	Oldest Order = "oldest"
	Random Order = "random"
)

// random is a SplitMix64 generator: Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", OOPSLA 2014. The Rust program has it too.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

const places = 4096 // until the order of releases begins again

// What everybody writes. It is not on the heap, which it would make larger: the
// collector would run less often for those who make garbage.
var (
	lengths    [messages / 2]int
	data       [maxFrame + messages/2]byte
	randomSlot [places]uint8
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

// message returns the length of message i and what it is written from: byte k
// of piece j is src[j+k], and byte k of a whole message is src[k].
func message(i int) (n int, src []byte) {
	i = i / 2 % len(lengths)
	return lengths[i], data[i:]
}

// slotOrder returns which of the frames that are held is released next, for
// each of as many operations as there are places.
func slotOrder(s Shape) *[places]uint8 {
	var order [places]uint8
	for i := range order {
		switch s.Order {
		case Oldest:
			order[i] = uint8(i % s.Live)
		case Random:
			order[i] = randomSlot[i] % uint8(s.Live)
		}
	}
	return &order
}
