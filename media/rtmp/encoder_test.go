package rtmp_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
)

// The reference and a Decoder read the output of an Encoder, with chunks of any size.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var enc rtmp.Encoder
		var out millrace.Chain
		var want []slowMessage
		for range 30 {
			if rnd.IntN(4) == 0 {
				enc.SetChunkSize(&out, 1+rnd.IntN(1<<rnd.IntN(25)))
			}
			ids := []int{2, 3, 63, 64, 65, 319, 320, 65599, rtmp.AudioChunks, rtmp.VideoChunks,
				rtmp.DataChunks}
			m := rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: ids[rnd.IntN(len(ids))],
				Stream:    rnd.Uint32(),
				Timestamp: []uint32{0, 40, 0xfffffe, 0xffffff, 0x1000000, 1<<32 - 1}[rnd.IntN(6)],
				Size:      77}
			p := make([]byte, rnd.IntN(1<<rnd.IntN(14)))
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			var body millrace.Chain
			for rest := p; len(rest) > 0; { // in several pieces
				n := 1 + rnd.IntN(len(rest))
				var piece millrace.Chain
				piece.AppendCopy(rest[:n])
				body.Merge(&piece)
				rest = rest[n:]
			}
			if err := enc.Append(&out, m, &body); err != nil || body.Len() > 0 {
				t.Fatal(err, body.Len())
			}
			m.Size = len(p)
			want = append(want, slowMessage{m, string(p)})
		}
		enc.Release()
		sent := bytes.Clone(out.Bytes())
		out.Release()
		read, err := slowDecode(sent, 1<<16)
		sameResult(t, read, err, want, io.EOF)
		got, err := decodeAll(t, bytes.NewReader(sent), 4096, 1<<16)
		sameResult(t, got, err, want, io.EOF)
	}
}

// The bytes of the smallest sessions are those of the specification.
func TestEncoderBytes(t *testing.T) {
	encode := func(chunk int, m rtmp.Message, body string) string {
		var enc rtmp.Encoder
		defer enc.Release()
		var out, b millrace.Chain
		defer out.Release()
		if chunk > 0 {
			enc.SetChunkSize(&out, chunk)
			out.Release()
		}
		b.AppendCopy([]byte(body))
		if err := enc.Append(&out, m, &b); err != nil {
			t.Fatal(err)
		}
		return string(out.Bytes())
	}
	video := rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: 6, Stream: 1, Timestamp: 0x10203}
	late := video
	late.Timestamp = 0x01020304
	far := video
	far.ChunkStream = 64
	for _, tt := range []struct {
		name  string
		chunk int
		m     rtmp.Message
		body  string
		want  string
	}{
		{"one chunk", 0, video, "abc", "\x06\x01\x02\x03\x00\x00\x03\x09\x01\x00\x00\x00abc"},
		{"no body", 0, video, "", "\x06\x01\x02\x03\x00\x00\x00\x09\x01\x00\x00\x00"},
		{"chunks of 2", 2, video, "abcde", "\x06\x01\x02\x03\x00\x00\x05\x09\x01\x00\x00\x00ab\xc6cd\xc6e"},
		{"two whole chunks", 2, video, "abcd",
			"\x06\x01\x02\x03\x00\x00\x04\x09\x01\x00\x00\x00ab\xc6cd"},
		{"128 bytes are one chunk", 0, video, strings.Repeat("x", 128),
			"\x06\x01\x02\x03\x00\x00\x80\x09\x01\x00\x00\x00" + strings.Repeat("x", 128)},
		{"extended, repeated", 2, late, "abc",
			"\x06\xff\xff\xff\x00\x00\x03\x09\x01\x00\x00\x00\x01\x02\x03\x04ab\xc6\x01\x02\x03\x04c"},
		{"two bytes of number", 2, far, "abc",
			"\x00\x00\x01\x02\x03\x00\x00\x03\x09\x01\x00\x00\x00ab\xc0\x00c"},
	} {
		if got := encode(tt.chunk, tt.m, tt.body); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
	var enc rtmp.Encoder
	defer enc.Release()
	var out millrace.Chain
	defer out.Release()
	enc.SetChunkSize(&out, 3)
	enc.SetChunkSize(&out, 4096) // in chunks of 3
	want := "\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x00\x03" +
		"\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x10\xc2\x00"
	if got := string(out.Bytes()); got != want {
		t.Errorf("two chunk sizes:\n got %q\nwant %q", got, want)
	}
}

func TestEncoderSharesBodies(t *testing.T) {
	var enc rtmp.Encoder
	defer enc.Release()
	var body, out millrace.Chain
	defer out.Release()
	enc.SetChunkSize(&out, 4096)
	out.Release()
	body.AppendCopy(bytes.Repeat([]byte("0123456789"), 1000))
	from := unsafe.Pointer(unsafe.SliceData(pieces(&body)[0]))
	if err := enc.Append(&out, rtmp.Message{ChunkStream: 6}, &body); err != nil {
		t.Fatal(err)
	}
	list := pieces(&out) // headers and payloads alternate
	if len(list) != 6 {
		t.Fatalf("%d pieces, want 6", len(list))
	}
	for i, at := range []int{0, 4096, 8192} {
		if got := unsafe.Pointer(unsafe.SliceData(list[2*i+1])); got != unsafe.Add(from, at) {
			t.Errorf("payload %d is a copy", i)
		}
	}
}

func TestEncoderRefuses(t *testing.T) {
	var enc rtmp.Encoder
	defer enc.Release()
	var out millrace.Chain
	for _, id := range []int{-1, 0, 1, 65600} {
		var body millrace.Chain
		body.AppendCopy([]byte("x"))
		if err := enc.Append(&out, rtmp.Message{ChunkStream: id}, &body); err == nil ||
			body.Len() > 0 || out.Len() > 0 {
			t.Errorf("chunk stream %d: %v, %d bytes left, %d made", id, err, body.Len(), out.Len())
		}
	}
	var body millrace.Chain
	body.AppendCopy(make([]byte, 1<<24))
	var limit *rtmp.LimitError
	if err := enc.Append(&out, rtmp.Message{ChunkStream: 6}, &body); !errors.As(err, &limit) ||
		body.Len() > 0 || out.Len() > 0 {
		t.Errorf("16 MiB: %v, %d bytes left, %d made", err, body.Len(), out.Len())
	}
	for _, n := range []int{-1, 0, 1 << 24} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("SetChunkSize(%d) does not panic", n)
				}
			}()
			enc.SetChunkSize(&out, n)
		}()
	}
}
