//go:build !race && !invariants && linux

package relay

import (
	"bufio"
	"bytes"
	"io"
	"net/http/httputil"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/rtmp"
)

// A repeater gives the same bytes again and again.
type repeater struct {
	p  []byte
	at int
}

func (l *repeater) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), 1400)], l.p[l.at:]) // as packets come
	l.at = (l.at + n) % len(l.p)
	return n, nil
}

// In steady state a tag costs no allocation on its way from the publisher to the ring.
func TestIngestAllocatesNothing(t *testing.T) {
	p := shortStream(t)
	defer p.Close(nil)
	sc := newScript(4, 10, 3000)
	p.r = millrace.NewReader(io.MultiReader(bytes.NewReader(sc.start()), &repeater{p: bytes.Join(sc.tags, nil)}))
	dec := flv.NewDecoder(p.r)
	header, err := dec.Header()
	if err != nil {
		t.Fatal(err)
	}
	p.Begin(header)
	tags := func(n int) func() {
		return func() {
			for range n {
				if err := p.next(dec); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	tags(5000)() // until everything has its size
	if allocs := alloctest.Count(0, tags(5000)); allocs != 0 {
		t.Errorf("%v allocations in 5000 tags, want 0", allocs)
	}
}

// In steady state a tag costs no allocation on its way from a publisher's connection, whose body is chunked as encoders
// send it, to the ring.
func TestReadingAPublisherAllocatesNothing(t *testing.T) { readingAllocatesNothing(t, 0) }

// The same holds for what is pulled from another node.
func TestPullingAllocatesNothing(t *testing.T) { readingAllocatesNothing(t, 1) }

func readingAllocatesNothing(t *testing.T, epoch uint64) {
	p := shortStream(t)
	p.epoch = epoch
	defer p.Close(nil)
	publisher, conn := tcpPair(t, false)
	defer publisher.Close()
	in := p.ingest(conn)
	defer func() {
		if c, err := in.Release(); err == nil {
			_ = c.Close()
		}
	}()
	sc := newScript(4, 5, 3000)
	var round []byte
	for _, tag := range sc.tags {
		round = append(round, chunked(tag)...)
	}
	send := func(b []byte) {
		if _, err := publisher.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	p.r = millrace.NewReader(httputil.NewChunkedReader(bufio.NewReaderSize(in, bodyBuffer)))
	dec := flv.NewDecoder(p.r)
	next := func(tags int) {
		for range tags {
			if err := p.next(dec); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(chunked(sc.start()))
	header, err := dec.Header()
	if err != nil {
		t.Fatal(err)
	}
	p.Begin(header)
	next(len(sc.config))
	rounds := func() {
		for range 50 {
			send(round)
			next(len(sc.tags))
		}
	}
	rounds() // until everything has its size
	if allocs := alloctest.Count(0, rounds); allocs != 0 {
		t.Errorf("%v allocations in %d tags, want 0", allocs, 50*len(sc.tags))
	}
}

// In steady state a message costs no allocation on its way from a publisher of RTMP to the ring, in one chunk or in many.
func TestReadingRTMPAllocatesNothing(t *testing.T) {
	for _, chunk := range []int{1 << 20, 1 << 10, 128} {
		p := shortStream(t)
		sc := newScript(4, 10, 3000)
		var enc rtmp.Encoder
		var out millrace.Chain
		message := func(kind rtmp.Type, at uint32, body []byte) {
			var b millrace.Chain
			b.AppendCopy(body)
			head := rtmp.Message{Type: kind, ChunkStream: 3 + int(kind)%3, Stream: rtmp.Stream, Timestamp: at}
			if err := enc.Append(&out, head, &b); err != nil {
				t.Fatal(err)
			}
		}
		tags := func(list [][]byte) {
			for _, tag := range list {
				message(rtmp.Type(tag[0]), timeOf(tag), tag[11:len(tag)-4])
			}
		}
		cut := func() []byte {
			defer out.Release()
			return bytes.Clone(out.Bytes())
		}
		message(rtmp.TypeCommand, 0, rtmp.AppendAMF(nil, "connect", 1, rtmp.Object{{Name: "app", Value: "live"}}))
		message(rtmp.TypeCommand, 0, rtmp.AppendAMF(nil, "publish", 2, nil, "cam"))
		message(rtmp.TypeWindowSize, 0, []byte{0x7f, 0, 0, 0}) // no acknowledgements, which are one in a megabyte
		start := append(append([]byte{3}, make([]byte, 2*1536)...), cut()...)
		enc.SetChunkSize(&out, chunk)
		tags(sc.config)
		start = append(start, cut()...)
		tags(sc.tags)
		r := millrace.NewReader(io.MultiReader(bytes.NewReader(start), &repeater{p: cut()}))
		conn := rtmp.NewServerConn(r, io.Discard, 1<<20)
		if _, err := conn.Accept(); err != nil {
			t.Fatal(err)
		}
		if err := conn.Start(); err != nil {
			t.Fatal(err)
		}
		var tagsOf rtmpTags
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
		next() // until everything has its size
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
