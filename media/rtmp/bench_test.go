package rtmp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
	"github.com/millrace-io/millrace/media/rtmp"
)

// BenchmarkNext reads messages of 16 KiB: in one chunk, as ffmpeg sends them, in chunks of 4096
// bytes, as OBS does, and in chunks of the default size.
func BenchmarkNext(b *testing.B) {
	const size = 16 << 10
	for _, chunk := range []int{1 << 20, 4096, 128} {
		b.Run(fmt.Sprint(chunk), func(b *testing.B) {
			r := millrace.NewReader(&sourcetest.Loop{
				Bytes: control(1, uint32(chunk)) + rawChunks(6, 9, 40, 1, strings.Repeat("x", size),
					chunk, false)})
			defer r.Release()
			d := rtmp.NewDecoder(r, 1<<20)
			defer d.Release()
			var c millrace.Chain
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Next(&c); err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
		})
	}
}

// BenchmarkAppend divides video messages of 16 KiB into chunks of 1 MiB.
func BenchmarkAppend(b *testing.B) {
	var enc rtmp.Encoder
	defer enc.Release()
	var picture, body, out millrace.Chain
	defer picture.Release()
	picture.AppendCopy(make([]byte, 16<<10))
	enc.SetChunkSize(&out, 1<<20)
	out.Release()
	b.ReportAllocs()
	for b.Loop() {
		picture.CloneTo(&body)
		if err := enc.Append(&out, rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: rtmp.VideoChunks,
			Stream: 1}, &body); err != nil {
			b.Fatal(err)
		}
		out.Release()
	}
}
