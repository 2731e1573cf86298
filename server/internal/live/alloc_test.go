//go:build !race && !invariants && linux

package live_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http/httputil"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live"
)

// In steady state a tag costs no allocation between the publisher and the ring.
func TestIngestAllocatesNothing(t *testing.T) {
	p := shortStream(t)
	defer p.Close(nil)
	sc := newScript(4, 10, 3000)
	dec := flv.NewDecoder(p.SetReader(
		millrace.NewReader(io.MultiReader(bytes.NewReader(sc.start()),
			&sourcetest.Loop{Bytes: string(bytes.Join(sc.tags, nil))}))))
	header, err := dec.Header()
	if err != nil {
		t.Fatal(err)
	}
	p.Begin(header)
	tags := func(n int) func() {
		return func() {
			for range n {
				if err := p.Next(dec); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	tags(5000)() // until all buffers have their size
	if allocs := alloctest.Count(0, tags(5000)); allocs != 0 {
		t.Errorf("%v allocations in 5000 tags, want 0", allocs)
	}
}

// In steady state a tag costs no allocation between a publisher's chunked connection and the ring.
func TestReadingAPublisherAllocatesNothing(t *testing.T) { readingAllocatesNothing(t, 0) }

// The same holds for a pull from another node.
func TestPullingAllocatesNothing(t *testing.T) { readingAllocatesNothing(t, 1) }

func readingAllocatesNothing(t *testing.T, epoch uint64) {
	p := shortStream(t)
	p.SetEpoch(epoch)
	defer p.Close(nil)
	publisher, conn := tcpPair(t, false)
	defer publisher.Close()
	in := p.Ingest(conn)
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
	body := httputil.NewChunkedReader(bufio.NewReaderSize(in, live.BodyBuffer))
	dec := flv.NewDecoder(p.SetReader(millrace.NewReader(body)))
	next := func(tags int) {
		for range tags {
			if err := p.Next(dec); err != nil {
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
	rounds() // until all buffers have their size
	if allocs := alloctest.Count(0, rounds); allocs != 0 {
		t.Errorf("%v allocations in %d tags, want 0", allocs, 50*len(sc.tags))
	}
}
