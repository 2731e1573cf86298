//go:build unix

package sv2_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame/sv2"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// Many connections take an arena from a list after Peek. They get all messages, and hold neither an
// arena nor a block between two messages.
func TestIdleConnectionsShareArenas(t *testing.T) {
	const conns, each, most = 8, 30, 3 // at most three arenas
	var received atomic.Int64
	pool := millrace.NewPool()
	defer leaktest.Check(t, pool)
	arenas := make(chan *arena.Pool, most)
	for range most {
		arenas <- arena.NewPool(1<<12, arena.Slots(1))
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	senders := make([]io.WriteCloser, conns)
	for i := range conns {
		sender, receiver := nettest.TCPPair(t, false)
		senders[i] = sender
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		var messages []slowMessage
		for n := range each {
			payload := strings.Repeat(fmt.Sprintf("%d of %d.", n, i), rnd.IntN(1000))
			messages = append(messages, slowMessage{sv2.Header{MessageType: uint8(n),
				Length: len(payload)}, payload})
		}
		wire, _ := slowSeal(newAEAD(t), 0, messages...)
		wg.Go(func() { // in small pieces, so that frames are cut
			for wire := wire; wire != ""; {
				n := min(1+rnd.IntN(700), len(wire))
				_, _ = io.WriteString(sender, wire[:n])
				wire = wire[n:]
			}
		})
		wg.Go(func() {
			r := pool.NewReader(receiver, 4096)
			defer r.Release()
			opener := sv2.NewOpener(r, newAEAD(t))
			var got []slowMessage
			var err error
			for {
				if _, err = r.Peek(1); err != nil {
					break
				}
				buf := <-arenas
				s, h, openErr := opener.NextInto(buf)
				if openErr != nil {
					t.Error(openErr)
					arenas <- buf
					return
				}
				got = append(got, slowMessage{h, string(s.Bytes()[sv2.HeaderSize:])})
				s.Release()
				if !buf.Droppable() {
					t.Error("the arena is not free after the message")
				}
				arenas <- buf
				received.Add(1)
			}
			if len(got) != len(messages) || err != io.EOF {
				t.Errorf("%d messages, %v, want %d", len(got), err, len(messages))
				return
			}
			for j := range got {
				if got[j] != messages[j] {
					t.Errorf("connection %d, message %d: %+v", i, j, got[j].Header)
				}
			}
		})
	}
	nettest.Eventually(t, "no arena and no block is in use", func() bool {
		return received.Load() == conns*each && len(arenas) == most && pool.Stats().InUse == 0
	})
	for _, c := range senders {
		_ = c.Close()
	}
}
