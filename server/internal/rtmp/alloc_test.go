//go:build !race && !invariants

package rtmp

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/live"
)

// sample returns the tags before the first frame, and four GOPs of ten video frames with audio in
// between.
func sample() (config, film [][]byte) {
	tag := func(kind flv.Type, at uint32, body []byte) []byte {
		p := []byte{byte(kind), 0, 0, 0, byte(at >> 16), byte(at >> 8), byte(at), byte(at >> 24), 0,
			0, 0}
		p[1], p[2], p[3] = byte(len(body)>>16), byte(len(body)>>8), byte(len(body))
		return binary.BigEndian.AppendUint32(append(p, body...), uint32(11+len(body)))
	}
	config = [][]byte{
		tag(flv.TypeVideo, 0, []byte("\x17\x00\x00\x00\x00\x01\x42\x00\x1e\xff")),
		tag(flv.TypeAudio, 0, []byte("\xaf\x00\x12\x10")),
	}
	for i := range 40 {
		first := byte(0x27)
		if i%10 == 0 {
			first = 0x17
		}
		film = append(film, tag(flv.TypeVideo, uint32(40*i),
			append([]byte{first, 1, 0, 0, 0}, make([]byte, 3000)...)),
			tag(flv.TypeAudio, uint32(40*i+10), append([]byte{0xaf, 1}, make([]byte, 100)...)))
	}
	return config, film
}

// In steady state a message costs no allocation between an RTMP publisher and the ring, in one
// chunk or in many.
func TestReadingRTMPAllocatesNothing(t *testing.T) {
	for _, chunk := range []int{1 << 20, 1 << 10, 128} {
		p, err := live.NewHub(testConfig()).Open("cam", "test", live.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		config, film := sample()
		var enc rtmp.Encoder
		var out millrace.Chain
		message := func(kind rtmp.Type, at uint32, body []byte) {
			var b millrace.Chain
			b.AppendCopy(body)
			head := rtmp.Message{Type: kind, ChunkStream: 3 + int(kind)%3, Stream: rtmp.Stream,
				Timestamp: at}
			if err := enc.Append(&out, head, &b); err != nil {
				t.Fatal(err)
			}
		}
		tags := func(list [][]byte) {
			for _, tag := range list {
				message(rtmp.Type(
					tag[0]), uint32(tag[7])<<24|uint32(tag[4])<<16|uint32(tag[5])<<8|uint32(tag[6]),
					tag[11:len(tag)-4])
			}
		}
		cut := func() []byte {
			defer out.Release()
			return bytes.Clone(out.Bytes())
		}
		message(rtmp.TypeCommand, 0, rtmp.AppendAMF(nil, "connect", 1,
			rtmp.Object{{Name: "app", Value: "live"}}))
		message(rtmp.TypeCommand, 0, rtmp.AppendAMF(nil, "publish", 2, nil, "cam"))
		// This prevents acknowledgements, which are sent once in a megabyte.
		message(rtmp.TypeWindowSize, 0, []byte{0x7f, 0, 0, 0})
		start := append(append([]byte{3}, make([]byte, 2*1536)...), cut()...)
		enc.SetChunkSize(&out, chunk)
		tags(config)
		start = append(start, cut()...)
		tags(film)
		r := millrace.NewReader(io.MultiReader(bytes.NewReader(start),
			&sourcetest.Loop{Bytes: string(cut())}))
		conn := rtmp.NewServerConn(r, io.Discard, 1<<20)
		if _, err := conn.Accept(); err != nil {
			t.Fatal(err)
		}
		if err := conn.Start(); err != nil {
			t.Fatal(err)
		}
		var tagsOf tagMaker
		next := func() {
			for range 5000 {
				m, err := conn.Next(&tagsOf.body)
				if err == nil {
					err = tagsOf.publish(p, m)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		next() // until all buffers have their size
		if allocs := alloctest.Count(0, next); allocs != 0 {
			t.Errorf("%v allocations in 5000 messages in chunks of %d bytes, want 0", allocs, chunk)
		}
		tagsOf.release()
		conn.Release()
		r.Release()
		enc.Release()
		p.Close(nil)
	}
}
