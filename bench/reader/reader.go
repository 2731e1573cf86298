// Package reader compares ways to read packets of 1 KiB from a source that
// gives 64 to 2048 bytes at a time: one stream, one stream on each processor,
// and a hundred streams whose packets each go to ten subscribers.
//
// Every contender is used as its own documentation says, gets the same bytes,
// and has to show each packet to whoever asked for it.
package reader

import "io"

// PacketSize is what is read at a time.
const PacketSize = 1024

// Run is a contender at work on its streams.
type Run interface {
	// Packets reads n packets, from one stream after the other.
	Packets(n int)
	// Close gives back what it holds.
	Close()
}

// Contender is a way to read packets.
type Contender struct {
	Name string
	// Keeps says whether a packet may be kept after the next is read.
	Keeps bool
	// Open begins to read streams. Each packet goes to all subs, at once;
	// without subs it is looked at and dropped.
	Open func(streams []*Source, subs []*Subscriber) Run
}

// Contenders are all of them; the order is that of the tables.
var Contenders = []Contender{
	{"source alone", false, openSource},
	{"bufio + make a packet (+ copy a subscriber)", true, openNaive},
	{"bufio Peek+Discard, 4 KiB", false, openPeek},
	{"millrace ReadRange", false, openRange},
	{"millrace ReadRange, a source with deadlines", false, openDeadlines},
	{"millrace ReadChain, released", true, openChain},
	{"cloudwego bufiox, release per 16 packets", false, openBufiox},
	{"netpoll zero-copy reader", false, openNetpoll},
	{"grpc mem, packed 16 KiB + views", true, openGRPC},
	{"gvisor buffer", true, openGvisor},
	{"hand-written 16 KiB block, offsets only", false, openHand},
}

// Workload is what the streams and subscribers are.
type Workload struct {
	Name     string
	What     string
	Parallel bool // one stream on each processor
	Streams  int
	Subs     int
}

// Workloads are the three of the tables.
var Workloads = []Workload{
	{"W1", "one connection on each processor", true, 1, 0},
	{"W2", "one connection", false, 1, 0},
	{"W3", "100 streams, each packet to 10 subscribers", false, 100, 10},
}

// Open begins a run of c on fresh streams. The seed decides where their reads
// end; all contenders get the same.
func (w Workload) Open(c Contender, seed uint64) Run {
	streams := make([]*Source, w.Streams)
	for i := range streams {
		streams[i] = NewSource(seed + uint64(i))
	}
	subs := make([]*Subscriber, w.Subs)
	for i := range subs {
		subs[i] = new(Subscriber)
	}
	return c.Open(streams, subs)
}

// Source gives 64 to 2048 bytes a Read, or what there is room for. The bytes
// are those of one endless sequence, the same for every Source.
type Source struct {
	random uint64
	at     int
	_      [128]byte // keeps the source of another processor at a distance
}

// NewSource makes a source.
func NewSource(seed uint64) *Source { return &Source{random: seed*2 + 1} }

var _ io.Reader = (*Source)(nil)

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

// Subscriber gets packets, in one piece or more. It looks at the ends of each.
type Subscriber struct {
	Bytes int
	sum   uint64
	audit func([]byte) // of a test
}

// Take borrows p.
//
//go:noinline
func (s *Subscriber) Take(p []byte) {
	s.Bytes += len(p)
	s.sum += uint64(p[0]) + uint64(p[len(p)-1])
	if s.audit != nil {
		s.audit(p)
	}
}

// next is the stream after i.
func next(i, n int) int {
	if i++; i == n {
		return 0
	}
	return i
}

// must is for reads from a Source, which never fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
