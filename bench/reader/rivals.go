package reader

import (
	"io"

	"github.com/cloudwego/gopkg/bufiox"
	"google.golang.org/grpc/mem"
)

// bufioxRun uses Next, which borrows, and Release, which it does every 16
// packets: bufiox keeps what lies between two of them.
type bufioxRun struct {
	streams []bufioxStream
	audience
}

type bufioxStream struct {
	r     *bufiox.DefaultReader
	since int // packets since Release
}

const bufioxPackets = 16

func openBufiox(streams []io.Reader, subs []*Subscriber) Run {
	r := &bufioxRun{streams: make([]bufioxStream, len(streams)), audience: audience{subs: subs}}
	for i, s := range streams {
		r.streams[i].r = bufiox.NewDefaultReader(s)
	}
	return r
}

func (r *bufioxRun) Packets(n int) {
	for range n {
		r.next(len(r.streams))
		st := &r.streams[r.at]
		p, err := st.r.Next(PacketSize)
		must(err)
		r.see(p)
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

// GRPCStream reads into pooled blocks of 16 KiB, back to back, and gives each
// packet as counted views of them. A packet may be kept, and shared with Ref.
type GRPCStream struct {
	src   io.Reader
	pool  mem.BufferPool
	block mem.Buffer // nil before the first
	buf   []byte     // of block
	r, w  int
}

const grpcBlock = 16 << 10

// NewGRPCStream makes a stream with blocks from gRPC's own pool.
func NewGRPCStream(src io.Reader) *GRPCStream {
	return &GRPCStream{src: src, pool: mem.DefaultBufferPool()}
}

// Packet appends the views that make up the next packet. The caller frees them.
func (s *GRPCStream) Packet(views mem.BufferSlice) mem.BufferSlice {
	for need := PacketSize; need > 0; {
		if s.r == s.w {
			s.fill()
		}
		n := min(need, s.w-s.r)
		views = append(views, s.block.Slice(s.r, s.r+n))
		s.r += n
		need -= n
	}
	return views
}

// fill reads behind what has been read already, into a new block when the last
// one is full.
func (s *GRPCStream) fill() {
	if s.w == len(s.buf) {
		s.Close()
		b := s.pool.Get(grpcBlock)
		s.block, s.buf, s.r, s.w = mem.NewBuffer(b, s.pool), *b, 0, 0
	}
	n, err := s.src.Read(s.buf[s.w:])
	must(err)
	s.w += n
}

// Close frees the stream's own share of its block.
func (s *GRPCStream) Close() {
	if s.block != nil {
		s.block.Free()
		s.block = nil
	}
}

type grpcRun struct {
	streams []*GRPCStream
	audience
}

func openGRPC(streams []io.Reader, subs []*Subscriber) Run {
	r := &grpcRun{streams: make([]*GRPCStream, len(streams)), audience: audience{subs: subs}}
	for i, s := range streams {
		r.streams[i] = NewGRPCStream(s)
	}
	return r
}

func (r *grpcRun) Packets(n int) {
	views := make(mem.BufferSlice, 0, 8)
	for range n {
		r.next(len(r.streams))
		views = r.streams[r.at].Packet(views[:0])
		for _, v := range views {
			p := v.ReadOnlyData()
			r.see(p)
		}
		views.Free()
	}
}

func (r *grpcRun) Close() {
	for _, s := range r.streams {
		s.Close()
	}
}
