package millrace_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A packet is passed between goroutines.
type packet struct {
	chain millrace.Chain
	at, n int
}

// TestPacketsChangeHands runs a Reader on one goroutine. Other goroutines keep its packets, append
// to them in place when possible, and share, cut and release them, while the Reader continues in
// the same blocks. Over a socket, the Reader gives up its shares whenever it waits, and takes them
// again.
func TestPacketsChangeHands(t *testing.T) {
	for name, source := range map[string]func(total int) io.Reader{
		"memory": func(total int) io.Reader { return &pattern{end: total, most: 3000} },
		"socket": func(total int) io.Reader {
			client, server := nettest.TCPPair(t, false)
			go writePattern(t, server, total)
			return client
		},
	} {
		t.Run(name, func(t *testing.T) {
			const total = 4 << 20
			r := newPool(t).NewReader(source(total), 4096)
			relayPackets(t, r, total)
			r.Release()
		})
	}
}

// writePattern writes n bytes of the pattern in steps of all sizes, and sometimes yields to other
// goroutines.
func writePattern(t testing.TB, w streamConn, n int) {
	rng := rand.New(rand.NewPCG(6, 6))
	src := &pattern{end: n}
	b := make([]byte, 9000)
	for src.at < n {
		src.most = 1 + rng.IntN(1<<(1+rng.IntN(13)))
		m, _ := src.Read(b)
		if _, err := w.Write(b[:m]); err != nil {
			t.Error(err)
			return
		}
		for range rng.IntN(20) {
			runtime.Gosched()
		}
	}
	w.CloseWrite()
}

func relayPackets(t *testing.T, r *millrace.Reader, total int) {
	var workers sync.WaitGroup
	queue := make(chan *packet, 16)
	for seed := range uint64(4) {
		workers.Go(func() { handlePackets(t, queue, rand.New(rand.NewPCG(seed, 2))) })
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for at := 0; at < total; {
		p := &packet{at: at, n: min(1+rng.IntN(2000), total-at)}
		if err := r.ReadChain(&p.chain, p.n); err != nil {
			t.Error(err)
			break
		}
		at += p.n
		queue <- p
	}
	close(queue)
	workers.Wait()
}

// handlePackets does something different with each packet.
func handlePackets(t *testing.T, queue <-chan *packet, rng *rand.Rand) {
	trailer := []byte("a trailer that a holder adds")
	var held []*packet
	for p := range queue {
		switch rng.IntN(4) {
		case 0:
			p.chain.AppendCopy(trailer)
			tail := make([]byte, len(trailer))
			view := p.chain.Reader()
			view.ReadAt(tail, int64(p.n))
			if !bytes.Equal(tail, trailer) {
				t.Errorf("the trailer reads %q", tail)
			}
			var front millrace.Chain
			p.chain.CutTo(&front, p.n)
			p.chain.Release()
			p.chain = front
		case 1:
			var clone millrace.Chain
			p.chain.CloneTo(&clone)
			p.chain.Release()
			p.chain = clone
		}
		held = append(held, p)
		for len(held) > 0 && rng.IntN(2) == 0 {
			checkPattern(t, &held[0].chain, held[0].at, held[0].n)
			held[0].chain.Release()
			held = held[1:]
		}
	}
	for _, p := range held {
		checkPattern(t, &p.chain, p.at, p.n)
		p.chain.Release()
	}
}

// A waiting Reader has no share of the block after its packets. In an earlier version, the holder
// of the last packet checked whether it may append, and read the state that the Reader wrote when
// it continued.
func TestAppendCopyWhileTheReaderWaits(t *testing.T) {
	client, server := nettest.TCPPair(t, false)
	r := millrace.NewPool().NewReader(client, 4096)
	const rounds = 300
	// Sending never blocks, because blocking would order accesses, too.
	chains := make(chan *millrace.Chain, rounds)
	go func() {
		defer close(chains)
		for range rounds {
			c := new(millrace.Chain)
			if err := r.ReadChain(c, 100); err != nil {
				t.Error(err)
				return
			}
			chains <- c
		}
	}()
	src := &pattern{end: 100 * rounds, most: 100}
	b := make([]byte, 100)
	server.Write(b[:must(src.Read(b))])
	for at := 0; at < src.end; at += 100 {
		c := <-chains
		if src.at == src.end {
			checkPattern(t, c, at, 100)
			c.Release()
			break
		}
		// The appender shares no lock and no channel with the Reader, so only the block orders
		// their accesses.
		sole := millrace.Sole(c)
		var stop atomic.Bool
		var appender sync.WaitGroup
		appender.Go(func() {
			for !sole() && !stop.Load() {
				runtime.Gosched()
			}
			c.AppendCopy([]byte("x"))
		})
		for !sole() {
			runtime.Gosched()
		}
		server.Write(b[:must(src.Read(b))])
		stop.Store(true)
		appender.Wait()
		var front millrace.Chain
		c.CutTo(&front, 100)
		checkPattern(t, &front, at, 100)
		front.Release()
		c.Release()
	}
	r.Release()
}
