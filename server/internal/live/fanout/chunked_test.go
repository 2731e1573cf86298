package fanout

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that reads chunks gets all frames and the end of the response, wherever the connection
// stops accepting bytes.
func TestChunkedResponse(t *testing.T) {
	for _, kind := range []path{pathWritev, pathWrite} {
		for seed := range uint64(100) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				f := newFixture(Config{Stall: time.Minute})
				conn := newMemoryConn(kind)
				v := f.viewer(conn)
				v.SetChunked()
				v.Append([]byte("head."))
				f.Start(v, 0, func() { <-conn.gone })
				want := "head."
				for i := range 50 {
					conn.setRoom(rnd.IntN(30))
					data := strings.Repeat("frame.", rnd.IntN(5)+1)
					f.publish(t, data, i == 0)
					want += data
					synctest.Wait()
				}
				conn.setRoom(-1)
				f.Close(StreamEnded)
				time.Sleep(inspectEvery) // the loop ends
				synctest.Wait()
				in := bytes.NewReader(conn.got)
				got, err := io.ReadAll(httputil.NewChunkedReader(in))
				rest, _ := io.ReadAll(in)
				if string(got) != want || err != nil || len(bytes.TrimSpace(rest)) > 0 {
					t.Errorf("%v, seed %d: got %q, %v, and then %q, want %q", kind, seed, got, err,
						rest, want)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}
