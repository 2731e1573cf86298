package reader

import (
	"github.com/cloudwego/gopkg/bufiox"
	"github.com/cloudwego/netpoll"
)

// bufioxRun uses Next, which borrows, and Release, which it does every 16
// packets: bufiox keeps what lies between two of them.
type bufioxRun struct {
	streams []bufioxStream
	subs    []*Subscriber
	sum     uint64
	at      int
}

type bufioxStream struct {
	r     *bufiox.DefaultReader
	since int // packets since Release
}

const bufioxPackets = 16

func openBufiox(streams []*Source, subs []*Subscriber) Run {
	r := &bufioxRun{streams: make([]bufioxStream, len(streams)), subs: subs}
	for i, s := range streams {
		r.streams[i].r = bufiox.NewDefaultReader(s)
	}
	return r
}

func (r *bufioxRun) Packets(n int) {
	for range n {
		r.at = next(r.at, len(r.streams))
		st := &r.streams[r.at]
		p, err := st.r.Next(PacketSize)
		must(err)
		r.sum += uint64(p[0])
		for _, s := range r.subs {
			s.Take(p)
		}
		if st.since++; st.since == bufioxPackets {
			st.since = 0
			must(st.r.Release(nil))
		}
	}
}

func (r *bufioxRun) Close() {
	for i := range r.streams {
		r.streams[i].r.Release(nil)
	}
}

// netpollRun uses netpoll's reader over an io.Reader: Next, look, Release.
type netpollRun struct {
	streams []netpoll.Reader
	subs    []*Subscriber
	sum     uint64
	at      int
}

func openNetpoll(streams []*Source, subs []*Subscriber) Run {
	r := &netpollRun{streams: make([]netpoll.Reader, len(streams)), subs: subs}
	for i, s := range streams {
		r.streams[i] = netpoll.NewReader(s)
	}
	return r
}

func (r *netpollRun) Packets(n int) {
	for range n {
		r.at = next(r.at, len(r.streams))
		st := r.streams[r.at]
		p, err := st.Next(PacketSize)
		must(err)
		r.sum += uint64(p[0])
		for _, s := range r.subs {
			s.Take(p)
		}
		must(st.Release())
	}
}

func (r *netpollRun) Close() {
	for _, st := range r.streams {
		st.Release()
	}
}
