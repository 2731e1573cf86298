package kept

import (
	"io"

	"google.golang.org/grpc/mem"

	"github.com/millrace-io/millrace/bench/reader"
)

// sharedGRPC counts views of packed blocks. A packet that lies in two blocks is two views, which makes it a slice of them.
func sharedGRPC() sharing[mem.BufferSlice] {
	s := &grpcStream{src: reader.NewSource(1), pool: mem.DefaultBufferPool()}
	return sharing[mem.BufferSlice]{
		packets: 1,
		next:    s.packet,
		share: func(b *mem.BufferSlice) mem.BufferSlice {
			b.Ref()
			return *b
		},
		bytes: func(b *mem.BufferSlice, yield func([]byte)) {
			for _, v := range *b {
				yield(v.ReadOnlyData())
			}
		},
		look:  func(b *mem.BufferSlice) uint64 { return uint64((*b)[0].ReadOnlyData()[0]) },
		drop:  func(b *mem.BufferSlice) { b.Free() },
		close: s.free,
	}
}

// A grpcStream reads into pooled blocks of 16 KiB, back to back.
type grpcStream struct {
	src   io.Reader
	pool  mem.BufferPool
	block mem.Buffer // nil before the first
	buf   []byte     // of block
	r, w  int
}

// packet returns the views that make up the next packet. The caller frees them.
func (s *grpcStream) packet() mem.BufferSlice {
	views := make(mem.BufferSlice, 0, 2)
	for need := reader.PacketSize; need > 0; {
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

// fill reads behind what has been read already, into a new block when the last one is full.
func (s *grpcStream) fill() {
	if s.w == len(s.buf) {
		s.free()
		b := s.pool.Get(16 << 10)
		s.block, s.buf, s.r, s.w = mem.NewBuffer(b, s.pool), *b, 0, 0
	}
	n, err := s.src.Read(s.buf[s.w:])
	must(n, err)
	s.w += n
}

// free frees the stream's own share of its block.
func (s *grpcStream) free() {
	if s.block != nil {
		s.block.Free()
		s.block = nil
	}
}
