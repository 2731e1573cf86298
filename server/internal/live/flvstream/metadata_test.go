package flvstream

import (
	"bytes"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
)

// The metadata of RTMP messages gets a prefix, and all other messages remain as they are.
func TestMarkMetadata(t *testing.T) {
	for _, at := range []uint32{0, 1000, 1<<24 - 1, 1 << 30} {
		var enc rtmp.Encoder
		var batch millrace.Chain
		enc.SetChunkSize(&batch, 1<<20)
		offset := batch.Len()
		want := []string{"\x02\x00\x0d@setDataFrame" + "metadata", "video", "audio",
			"\x02\x00\x0d@setDataFrame" + strings.Repeat("m", 300)}
		for i, kind := range []rtmp.Type{rtmp.TypeData, rtmp.TypeVideo, rtmp.TypeAudio, rtmp.TypeData} {
			var body millrace.Chain
			body.AppendCopy([]byte(strings.TrimPrefix(want[i], "\x02\x00\x0d@setDataFrame")))
			err := enc.Append(&batch, rtmp.Message{Type: kind, ChunkStream: rtmp.DataChunks,
				Stream: rtmp.Stream, Timestamp: at}, &body)
			if err != nil {
				t.Fatal(err)
			}
		}
		enc.Release()
		MarkMetadata(&batch, offset, 1<<20)
		r := millrace.NewReader(bytes.NewReader(batch.Bytes()))
		dec := rtmp.NewDecoder(r, 1<<20)
		for i := 0; i < len(want); {
			var body millrace.Chain
			m, err := dec.Next(&body)
			if err != nil {
				t.Fatalf("message %d at %d: %v", i, at, err)
			}
			if m.Type != rtmp.TypeSetChunkSize {
				if string(body.Bytes()) != want[i] || m.Timestamp != at {
					t.Errorf("message %d at %d: %q at %d, want %q", i, at, body.Bytes(), m.Timestamp, want[i])
				}
				i++
			}
			body.Release()
		}
		dec.Release()
		r.Release()
		batch.Release()
	}
}
