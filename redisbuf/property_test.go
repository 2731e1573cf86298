package redisbuf

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// describe returns a value of size bytes that identifies itself: by its key, writer, number, size
// and a checksum, followed by a pattern.
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

// described reports whether p is a complete value of key made by describe.
func described(key string, p []byte) bool {
	return len(p) >= 32 &&
		bytes.Equal(p, describe(key, int(binary.BigEndian.Uint64(p[8:])),
			int(binary.BigEndian.Uint64(p[16:])), len(p)))
}

// outcomes counts the results of calls.
type outcomes struct{ sets, values, misses, failures atomic.Int64 }

// enough reports whether there were enough of each kind that a fault would have shown.
func (o *outcomes) enough() bool {
	return o.sets.Load() >= 100 && o.values.Load() >= 100 && o.failures.Load() >= 50
}

// anyCall makes a random call. It fails the test if the call reads a value that was not set as a
// whole for that key, or returns an error that no fault of a connection explains.
func anyCall(ctx context.Context, t *testing.T, c *Client, worker, number int, o *outcomes) {
	key := fmt.Sprint("property/", rand.N(3))
	if rand.N(2) == 0 {
		err := sets[rand.N(len(sets))].call(ctx, c, key,
			describe(key, worker, number, rand.N(1<<rand.N(19))))
		if err == nil {
			o.sets.Add(1)
		} else {
			o.failed(t, err)
		}
		return
	}
	g := gets[rand.N(len(gets))]
	got, err := g.call(ctx, c, key, 1<<20)
	switch {
	case err == redis.Nil, err == nil && strings.HasPrefix(g.name, "GetRange") && len(got) == 0:
		o.misses.Add(1)
	case err != nil:
		o.failed(t, err)
	case !described(key, got):
		t.Errorf("%s: a torn value of %d bytes, or that of another key", g.name, len(got))
	default:
		o.values.Add(1)
	}
}

func (o *outcomes) failed(t *testing.T, err error) {
	switch {
	case isA[*ProtocolError](err), isServerError(err):
		t.Error(err)
	case isA[*ValueChangedError](err): // the test has changed the value
		o.misses.Add(1)
	default:
		o.failures.Add(1)
	}
}

// chaos disturbs the connections that p forwards.
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
		p.Set(redistest.HoldReply(n))
	case 4:
		p.Set(redistest.SwallowReply(n))
	case 5:
		p.Set(redistest.HoldRequest(n))
	case 6:
		p.Set()
	}
}

// While connections are cut, held and reset, each call returns a value that was set as a whole, or
// an error.
func TestPropertyNoTornValues(t *testing.T) {
	s := redistest.Shared(t)
	p := s.Proxy(t)
	opt := optionsOf(p.Endpoint())
	opt.ReadTimeout, opt.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	opt.MinRetryBackoff, opt.MaxRetryBackoff = time.Millisecond, 5*time.Millisecond
	c, _ := clientOf(t, opt, MaxConns(4), MaxInFlight(1<<20))
	must(t, rdbOf(t, s.Endpoint()).Del(context.Background(), "property/0", "property/1",
		"property/2").Err())
	var stop atomic.Bool
	var all sync.WaitGroup
	var o outcomes
	for worker := range 4 {
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				ctx, cancel := context.WithTimeout(context.Background(),
					time.Duration(rand.N(200)+1)*time.Millisecond)
				if rand.N(3) == 0 {
					ctx = context.Background()
				}
				anyCall(ctx, t, c, worker, i, &o)
				cancel()
			}
		})
	}
	for begun := time.Now(); !o.enough() && time.Since(begun) < testTime; {
		chaos(p)
		time.Sleep(time.Duration(rand.N(20)) * time.Millisecond)
	}
	p.Set()
	p.Cut()
	stop.Store(true)
	all.Wait()
	if !o.enough() {
		t.Errorf("%d sets, %d values, %d misses and %d failures are too few to find anything",
			o.sets.Load(), o.values.Load(), o.misses.Load(), o.failures.Load())
	}
	must(t, c.SetFromBuffer(bounded(t), "property/0", []byte("after")))
	got, err := gets[0].call(bounded(t), c, "property/0", 5)
	if err != nil || !bytes.Equal(got, []byte("after")) {
		t.Error(got, err)
	}
}
