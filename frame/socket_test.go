package frame_test

import (
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// Over a real connection, in portions of any size, while deadlines are set and removed all the
// time.
func TestOverTCP(t *testing.T) {
	in := randomStream(rand.New(rand.NewPCG(1, 7)), 300)
	want, wantErr := slowParse(in, limits{most: 1 << 20})
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			sender, conn := nettest.TCPPair(t, false)
			var peer sync.WaitGroup
			peer.Go(func() {
				defer sender.Close()
				rnd := rand.New(rand.NewPCG(1, 8))
				for rest := in; len(rest) > 0; {
					n := min(len(rest), 1+rnd.IntN(20_000))
					if _, err := io.WriteString(sender, rest[:n]); err != nil {
						t.Errorf("%d bytes unsent: %v", len(rest), err)
						return
					}
					rest = rest[n:]
				}
			})
			got, err := decodeAll(t, conn, record{}, w,
				frame.Deadlines(conn, time.Minute, time.Minute))
			sameResult(t, w.name, got, err, want, wantErr)
			peer.Wait()
		})
	}
}
