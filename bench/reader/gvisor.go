package reader

import "gvisor.dev/gvisor/pkg/buffer"

// gvisorRun reads into a view at a time, appends it to the stream's buffer,
// applies a function to the front, and trims that, as the network stack does.
type gvisorRun struct {
	streams []gvisorStream
	subs    []*Subscriber
	sum     uint64
	at      int
}

type gvisorStream struct {
	src *Source
	buf buffer.Buffer
}

func openGvisor(streams []*Source, subs []*Subscriber) Run {
	r := &gvisorRun{streams: make([]gvisorStream, len(streams)), subs: subs}
	for i, s := range streams {
		r.streams[i].src = s
	}
	return r
}

func (s *gvisorStream) fill() {
	for s.buf.Size() < PacketSize {
		v := buffer.NewViewSize(maxRead)
		n, err := s.src.Read(v.AsSlice())
		must(err)
		v.CapLength(n)
		must(s.buf.Append(v))
	}
}

func (r *gvisorRun) Packets(n int) {
	look := func(v *buffer.View) {
		p := v.AsSlice()
		r.sum += uint64(p[0])
		for _, s := range r.subs {
			s.Take(p)
		}
	}
	for range n {
		r.at = next(r.at, len(r.streams))
		st := &r.streams[r.at]
		st.fill()
		st.buf.SubApply(0, PacketSize, look)
		st.buf.TrimFront(PacketSize)
	}
}

func (r *gvisorRun) Close() {
	for i := range r.streams {
		r.streams[i].buf.Release()
	}
}
