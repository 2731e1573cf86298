package reader

import (
	"bufio"
	"io"
)

// sourceRun reads and does nothing else. The difference to it is what a contender costs.
type sourceRun struct {
	streams []io.Reader
	audience
	have []int
	buf  [maxRead]byte
}

func openSource(streams []io.Reader, subs []*Subscriber) Run {
	return &sourceRun{streams: streams, audience: audience{subs: subs}, have: make([]int, len(streams))}
}

func (r *sourceRun) Packets(n int) {
	for range n {
		r.next(len(r.streams))
		for r.have[r.at] < PacketSize {
			n, err := r.streams[r.at].Read(r.buf[:])
			must(err)
			r.have[r.at] += n
		}
		r.have[r.at] -= PacketSize
		r.see(r.buf[:PacketSize])
	}
}

func (r *sourceRun) Close() {}

// naiveRun makes a slice for each packet, and one more for each subscriber.
type naiveRun struct {
	streams []*bufio.Reader
	audience
	size int
}

func openNaive(streams []io.Reader, subs []*Subscriber) Run {
	return &naiveRun{streams: buffered(streams, 4<<10), audience: audience{subs: subs}, size: PacketSize}
}

func buffered(streams []io.Reader, size int) []*bufio.Reader {
	rs := make([]*bufio.Reader, len(streams))
	for i, s := range streams {
		rs[i] = bufio.NewReaderSize(s, size)
	}
	return rs
}

func (r *naiveRun) Packets(n int) {
	for range n {
		r.next(len(r.streams))
		p := make([]byte, r.size)
		_, err := io.ReadFull(r.streams[r.at], p)
		must(err)
		r.sum += uint64(p[0])
		for _, s := range r.subs {
			c := make([]byte, len(p))
			copy(c, p)
			s.Take(c)
		}
	}
}

func (r *naiveRun) Close() {}

// peekRun is bufio without copies: Peek, look, Discard. Nothing can be kept.
type peekRun struct {
	streams []*bufio.Reader
	audience
}

func openPeek(streams []io.Reader, subs []*Subscriber) Run {
	return &peekRun{streams: buffered(streams, 4<<10), audience: audience{subs: subs}}
}

func openPeekLarge(streams []io.Reader, subs []*Subscriber) Run {
	return &peekRun{streams: buffered(streams, 64<<10), audience: audience{subs: subs}}
}

func (r *peekRun) Packets(n int) {
	for range n {
		r.next(len(r.streams))
		b := r.streams[r.at]
		p, err := b.Peek(PacketSize)
		must(err)
		r.see(p)
		_, err = b.Discard(PacketSize)
		must(err)
	}
}

func (r *peekRun) Close() {}

// handRun is the least code that reads packets: a block, two offsets, and the
// rest moved to the front when there is no room.
type handRun struct {
	streams []handStream
	audience
}

type handStream struct {
	src  io.Reader
	buf  []byte
	r, w int
}

func openHand(streams []io.Reader, subs []*Subscriber) Run {
	r := &handRun{streams: make([]handStream, len(streams)), audience: audience{subs: subs}}
	for i, s := range streams {
		r.streams[i] = handStream{src: s, buf: make([]byte, 16<<10)}
	}
	return r
}

func (s *handStream) packet() []byte {
	if s.w-s.r < PacketSize {
		if len(s.buf)-s.r < PacketSize {
			s.w = copy(s.buf, s.buf[s.r:s.w])
			s.r = 0
		}
		for s.w-s.r < PacketSize {
			n, err := s.src.Read(s.buf[s.w:])
			must(err)
			s.w += n
		}
	}
	p := s.buf[s.r : s.r+PacketSize]
	s.r += PacketSize
	return p
}

func (r *handRun) Packets(n int) {
	for range n {
		r.next(len(r.streams))
		p := r.streams[r.at].packet()
		r.see(p)
	}
}

func (r *handRun) Close() {}
