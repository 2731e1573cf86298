package redisbuf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/redistest"
)

// describe returns a value of size bytes that says which one it is: whose key's, who made it, its number, its size, and a
// checksum; the rest is a pattern of all that.
func describe(key string, worker, number, size int) []byte {
	p := make([]byte, max(size, 32))
	for i := 32; i < len(p); i++ {
		p[i] = byte(i*7 + i>>8 + number*13 + worker)
	}
	binary.BigEndian.PutUint64(p[8:], uint64(worker))
	binary.BigEndian.PutUint64(p[16:], uint64(number))
	binary.BigEndian.PutUint64(p[24:], uint64(len(p)))
	binary.BigEndian.PutUint32(p[4:], crc32.ChecksumIEEE([]byte(key)))
	binary.BigEndian.PutUint32(p, crc32.ChecksumIEEE(p[4:]))
	return p
}

// described reports whether p is such a value of key as a whole.
func described(key string, p []byte) bool {
	return len(p) >= 32 && binary.BigEndian.Uint64(p[24:]) == uint64(len(p)) &&
		binary.BigEndian.Uint32(p[4:]) == crc32.ChecksumIEEE([]byte(key)) &&
		binary.BigEndian.Uint32(p) == crc32.ChecksumIEEE(p[4:])
}

// anyCall makes a call of some kind, and fails the test if it is given what nobody has set as a whole for that key. It counts
// the values that came in many pieces.
func anyCall(ctx context.Context, t *testing.T, c *Client, worker, number int, many *atomic.Int64) error {
	key := fmt.Sprint("property/", rand.N(3))
	if rand.N(2) == 0 {
		return sets[rand.N(len(sets))].call(ctx, c.commands, key, describe(key, worker, number, rand.N(1<<rand.N(19))))
	}
	const most = 1 << 20
	var got []byte
	var err error
	g := gets[rand.N(len(gets))]
	if rand.N(2) == 0 {
		way, piece := piecewise[rand.N(len(piecewise))], 512<<rand.N(7)
		g.name = way.name + fmt.Sprintf(" in pieces of %d", piece)
		if got, err = way.call(ctx, c.commands, key, most, piece); err == nil && len(got) > 2*piece {
			many.Add(1)
		}
	} else {
		got, err = g.call(ctx, c.commands, key, most)
	}
	switch {
	case err != nil:
	case strings.HasPrefix(g.name, "GetRange") && len(got) == 0: // no key
	case !described(key, got):
		t.Errorf("%s: a torn value of %d bytes, or that of another key", g.name, len(got))
	}
	return err
}

// chaos does something to the connections that p passes on.
func chaos(p *redistest.Proxy) {
	n := int64(rand.N(1 << rand.N(20)))
	switch rand.N(7) {
	case 0:
		p.Cut()
	case 1:
		p.Set(redistest.CutReply(n))
	case 2:
		p.Set(redistest.CutRequest(n).Reset())
	case 3:
		p.Set(redistest.DelayReply(n, 300*time.Millisecond))
	case 4:
		p.Set(redistest.SwallowReply(n))
	case 5:
		p.Set(redistest.HoldRequest(n))
	case 6:
		p.Set()
	}
}

// Whatever happens to connections, a call gives a value that somebody has set as a whole, or an error.
func TestPropertyNoTornValues(t *testing.T) {
	s := redistest.Shared(t)
	p := redistest.StartProxy(t, s.Network(), s.Addr())
	o := p.Options(s)
	o.ReadTimeout, o.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	o.MinRetryBackoff, o.MaxRetryBackoff = time.Millisecond, 5*time.Millisecond
	c, _ := clientOf(t, o, Conns(4), InFlight(1<<20))
	must(t, s.Client(t).Del(context.Background(), "property/0", "property/1", "property/2").Err())
	var stop atomic.Bool
	var all sync.WaitGroup
	var good, bad, many atomic.Int64
	for worker := range 4 {
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.N(200)+1)*time.Millisecond)
				if rand.N(3) == 0 {
					ctx = context.Background()
				}
				err := anyCall(ctx, t, c, worker, i, &many)
				cancel()
				var protocol *ProtocolError
				switch {
				case err == nil, err == redis.Nil:
					good.Add(1)
				case errors.As(err, &protocol):
					t.Error(err)
				default:
					bad.Add(1)
				}
			}
		})
	}
	enough := func(d time.Duration) bool { return d > 1200*time.Millisecond && many.Load() >= 5 || d > testTime }
	for begun := time.Now(); !enough(time.Since(begun)); {
		chaos(p)
		time.Sleep(time.Duration(rand.N(20)) * time.Millisecond)
	}
	p.Set()
	p.Cut()
	stop.Store(true)
	all.Wait()
	t.Logf("%d calls did, %d failed, %d values came in many pieces", good.Load(), bad.Load(), many.Load())
	if many.Load() == 0 {
		t.Error("no value came in many pieces")
	}
	must(t, c.SetFromBuffer(bounded(t), "property/0", []byte("after")))
	got, err := gets[0].call(bounded(t), c.commands, "property/0", 5)
	if err != nil || !bytes.Equal(got, []byte("after")) {
		t.Error(got, err)
	}
}
