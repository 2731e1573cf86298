//go:build (linux || darwin) && !race && !invariants

package server

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// In steady state a tag costs no allocation on its way from a publisher's connection, whose body is chunked as encoders send
// it, to the ring.
func TestAPublishersConnectionAllocatesNothing(t *testing.T) {
	st := shortStream(t)
	defer st.end()
	publisher, conn := tcpPair(t, false)
	defer publisher.Close()
	polled := newPolled(conn, leastPolled, time.Minute, st.server.draining, st.announce)
	if polled == nil {
		t.Fatal("the connection cannot be taken over")
	}
	defer polled.Close()

	sc := newScript(4, 5, 3000)
	start := chunked(sc.start())
	var round []byte // all of its tags
	for _, tag := range sc.tags {
		round = append(round, chunked(tag)...)
	}
	in := &ingest{s: st, r: millrace.NewReader(&directUplink{s: st, conn: polled, framing: newFraming(-1), idle: time.Minute})}
	defer in.release()
	dec := flv.NewDecoder(in.r)
	send := func(p []byte) {
		if _, err := publisher.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	send(start)
	if _, err := dec.Header(); err != nil {
		t.Fatal(err)
	}
	st.open(formFLV, bytes.Clone(sc.header))
	for range sc.config {
		if err := in.next(dec); err != nil {
			t.Fatal(err)
		}
	}
	turn := func() {
		send(round)
		for range sc.tags {
			if err := in.next(dec); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 50 {
		turn() // until everything has its size
	}
	if allocs := testing.AllocsPerRun(50, turn); allocs != 0 {
		t.Errorf("%v allocations in %d tags, want 0", allocs, len(sc.tags))
	}
}

// chunked returns p as a chunk of a body.
func chunked(p []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(p), p) }
