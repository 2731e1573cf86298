package reader

import (
	"time"

	"github.com/millrace-io/millrace"
)

// A deadlined source may wait, as connections do: a Reader never reads on from it beyond what a packet needs.
type deadlined struct{ *Source }

// SetReadDeadline does nothing; a Source never waits.
func (deadlined) SetReadDeadline(time.Time) error { return nil }

func openDeadlines(streams []*Source, subs []*Subscriber) Run {
	rs := make([]*millrace.Reader, len(streams))
	for i, s := range streams {
		rs[i] = millrace.NewReader(deadlined{s})
	}
	return &rangeRun{streams: rs, subs: subs}
}

func newReaders(streams []*Source) []*millrace.Reader {
	rs := make([]*millrace.Reader, len(streams))
	for i, s := range streams {
		rs[i] = millrace.NewReader(s)
	}
	return rs
}

func release(streams []*millrace.Reader) {
	for _, r := range streams {
		r.Release()
	}
}

// rangeRun borrows each packet where it lies.
type rangeRun struct {
	streams []*millrace.Reader
	subs    []*Subscriber
	sum     uint64
	at      int
}

func openRange(streams []*Source, subs []*Subscriber) Run {
	return &rangeRun{streams: newReaders(streams), subs: subs}
}

func (r *rangeRun) Packets(n int) {
	look := func(p []byte) {
		r.sum += uint64(p[0])
		for _, s := range r.subs {
			s.Take(p)
		}
	}
	for range n {
		r.at = next(r.at, len(r.streams))
		must(r.streams[r.at].ReadRange(PacketSize, look))
	}
}

func (r *rangeRun) Close() { release(r.streams) }

// chainRun owns each packet, and could keep it.
type chainRun struct {
	streams []*millrace.Reader
	subs    []*Subscriber
	sum     uint64
	at      int
}

func openChain(streams []*Source, subs []*Subscriber) Run {
	return &chainRun{streams: newReaders(streams), subs: subs}
}

func (r *chainRun) Packets(n int) {
	var c millrace.Chain
	for range n {
		r.at = next(r.at, len(r.streams))
		must(r.streams[r.at].ReadChain(&c, PacketSize))
		for p := range c.All() {
			r.sum += uint64(p[0])
			for _, s := range r.subs {
				s.Take(p)
			}
		}
		c.Release()
	}
}

func (r *chainRun) Close() { release(r.streams) }
