package rtmp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/load"
)

func TestAppendAMF(t *testing.T) {
	got := appendAMF(nil, "play", 3.0, nil, object{{"app", "live"}})
	want := "\x02\x00\x04play" + "\x00\x40\x08\x00\x00\x00\x00\x00\x00" + "\x05" +
		"\x03\x00\x03app\x02\x00\x04live\x00\x00\x09"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestChunksRoundTrip sends interleaved messages of two chunk streams, with timestamps below and
// above 24 bits.
func TestChunksRoundTrip(t *testing.T) {
	var wire bytes.Buffer
	w := newWriter(&wire)
	w.stream = 1
	type message struct {
		kind byte
		ts   uint32
		size int
	}
	var want []message
	for i, ts := range []uint32{0, 33, 66, extended - 1, extended, extended + 1, 1 << 30, 1<<32 - 1,
		5, 6} {
		for _, m := range []message{{load.Video, ts, 100 + 5000*i}, {load.Audio, ts, 37}} {
			cs := map[byte]int{load.Video: csVideo, load.Audio: csAudio}[m.kind]
			if err := w.message(cs, m.kind, w.stream, m.ts,
				bytes.Repeat([]byte{byte(i + 1)}, m.size)); err != nil {
				t.Fatal(err)
			}
			want = append(want, m)
		}
		if i == 3 {
			if err := w.setChunkSize(ChunkSize); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, src := range map[string]io.Reader{
		"whole":        bytes.NewReader(wire.Bytes()),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(wire.Bytes())),
	} {
		r := newReader(millrace.NewReader(src), newWriter(io.Discard))
		for i, m := range want {
			var a load.Arrival
			if err := r.nextMedia(&a); err != nil {
				t.Fatalf("%s: reading message %d: %v", name, i, err)
			}
			if got := (message{a.Kind, a.Timestamp, a.Size}); got != m {
				t.Errorf("%s: message %d is %+v, want %+v", name, i, got, m)
			}
			if len(a.Head) != m.size || a.Head[0] != byte(i/2+1) {
				t.Errorf("%s: message %d begins with %x", name, i, a.Head[:1])
			}
		}
		var a load.Arrival
		if err := r.nextMedia(&a); err != io.EOF {
			t.Errorf("%s: error %v at the end, want EOF", name, err)
		}
		r.r.Release()
	}
}

func TestReaderAnswersPingsAndAcknowledges(t *testing.T) {
	var in, out bytes.Buffer
	server := newWriter(&in)
	server.stream = 1
	server.control(typeWindowAckSize, 1000)
	server.event(eventPingRequest, 42)
	server.message(csVideo, load.Video, 1, 0, make([]byte, 5000))
	client := newReader(millrace.NewReader(&in), newWriter(&out))
	defer client.r.Release()
	var a load.Arrival
	if err := client.nextMedia(&a); err != nil {
		t.Fatal(err)
	}
	back := newReader(millrace.NewReader(&out), newWriter(io.Discard))
	defer back.r.Release()
	ping, err := back.next()
	if err != nil || ping.kind != typeUserControl ||
		!bytes.Equal(ping.body, []byte{0, eventPingResponse, 0, 0, 0, 42}) {
		t.Errorf("answer to the ping: %+v, %v", ping, err)
	}
	ack, err := back.next()
	if err != nil || ack.kind != typeAck || client.acked < 5000 {
		t.Errorf("the acknowledgement: %+v, %v, want one for the bytes sent", ack, err)
	}
}

func TestHandshake(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	done := make(chan error, 1)
	go func() {
		defer server.Close()
		c := make([]byte, 1537)
		if _, err := io.ReadFull(server, c); err != nil {
			done <- err
			return
		}
		s := append([]byte{3}, bytes.Repeat([]byte{7}, 1536)...)
		s = append(s, c[1:]...)
		wrote := make(chan error, 1)
		go func() {
			_, err := server.Write(s)
			wrote <- err
		}()
		c2 := make([]byte, 1536)
		_, err := io.ReadFull(server, c2)
		if err == nil && c2[100] != 7 {
			err = errProtocol
		}
		if werr := <-wrote; err == nil {
			err = werr
		}
		done <- err
	}()
	if err := handshake(client, client); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestConnectIsRefused(t *testing.T) {
	if _, err := (&Server{Addr: "127.0.0.1:1"}).Watch(t.Context(), "x"); !errors.Is(err,
		syscall.ECONNREFUSED) {
		t.Errorf("error %v, want a refused connection", err)
	}
}
