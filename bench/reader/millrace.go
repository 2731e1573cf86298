package reader

import (
	"io"

	"github.com/millrace-io/millrace"
)

func newReaders(streams []io.Reader) []*millrace.Reader {
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
	audience
}

func openRange(streams []io.Reader, subs []*Subscriber) Run {
	return &rangeRun{streams: newReaders(streams), audience: audience{subs: subs}}
}

func (r *rangeRun) Packets(n int) {
	look := func(p []byte) {
		r.see(p)
	}
	for range n {
		r.next(len(r.streams))
		must(r.streams[r.at].ReadRange(PacketSize, look))
	}
}

func (r *rangeRun) Close() { release(r.streams) }

// chainRun owns each packet, and could keep it.
type chainRun struct {
	streams []*millrace.Reader
	audience
}

func openChain(streams []io.Reader, subs []*Subscriber) Run {
	return &chainRun{streams: newReaders(streams), audience: audience{subs: subs}}
}

func (r *chainRun) Packets(n int) {
	var c millrace.Chain
	for range n {
		r.next(len(r.streams))
		must(r.streams[r.at].ReadChain(&c, PacketSize))
		for p := range c.All() {
			r.see(p)
		}
		c.Release()
	}
}

func (r *chainRun) Close() { release(r.streams) }
