package broadcast_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// A letter is a frame that identifies itself: by its number, its length, whether it is a keyframe,
// and a hash of the rest.
const letterHeader = 8 + 4 + 1 + 8

var letterSeed = maphash.MakeSeed()

func letter(pool *millrace.Pool, number uint64, length int, key bool) (frame millrace.Chain) {
	draft := pool.Get(letterHeader + length)
	b := draft.Bytes()[:letterHeader+length]
	body := b[letterHeader:]
	for i := range body {
		body[i] = byte(int(number) + i*i)
	}
	binary.BigEndian.PutUint64(b, number)
	binary.BigEndian.PutUint32(b[8:], uint32(length))
	b[12] = 0
	if key {
		b[12] = 1
	}
	binary.BigEndian.PutUint64(b[13:], maphash.Bytes(letterSeed, body))
	ref := draft.Freeze(len(b))
	frame.Append(&ref)
	return frame
}

// A recipient checks that a cursor returns letters without a gap, except reported ones.
type recipient struct {
	next    uint64 // number of the next letter; 0 before the first
	frames  int
	missed  int
	batches int
}

func (rc *recipient) read(dst *millrace.Chain, b broadcast.Batch) error {
	rc.batches++
	rc.missed += b.Missed.Frames
	data := []byte(text(dst))[b.Preamble:]
	begins := rc.next == 0 || b.Missed.Why != broadcast.NotMissed
	if rc.next > 0 {
		rc.next += uint64(b.Missed.Frames)
	}
	for range b.Frames {
		number, length := binary.BigEndian.Uint64(data), int(binary.BigEndian.Uint32(data[8:]))
		body := data[letterHeader : letterHeader+length]
		switch {
		case maphash.Bytes(letterSeed, body) != binary.BigEndian.Uint64(data[13:]):
			return fmt.Errorf("letter %d differs", number)
		case begins && data[12] != 1:
			return fmt.Errorf("letter %d is a start and no keyframe", number)
		case rc.next > 0 && number != rc.next:
			return fmt.Errorf("letter %d, want %d", number, rc.next)
		}
		begins = false
		rc.next = number + 1
		rc.frames++
		data = data[letterHeader+length:]
	}
	if len(data) > 0 {
		return fmt.Errorf("%d bytes behind the last letter", len(data))
	}
	return nil
}

// follow reads c until the ring is closed. If leave is set, it stops earlier.
func (rc *recipient) follow(c *broadcast.Cursor, w *broadcast.Watcher, slow, leave bool) error {
	defer c.Close()
	defer w.Stop()
	var dst, held millrace.Chain
	defer func() { dst.Release(); held.Release() }()
	for more := true; ; {
		if !more {
			<-w.C
		}
		b, err := c.Take(&dst)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		more = b.More
		if err := rc.read(&dst, b); err != nil {
			return err
		}
		held.Release()
		held.Merge(&dst) // released while the next batch is read
		if slow {
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		}
		if leave && rc.batches > 20 {
			return nil
		}
	}
}

// TestPublisherAndManyReaders is for the race detector. It does not depend on timing: the numbers
// of received and missed letters must add up.
func TestPublisherAndManyReaders(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []broadcast.Option
	}{
		{"at once", []broadcast.Option{broadcast.MaxBytes(1 << 20)}},
		{"latency", []broadcast.Option{broadcast.Latency(time.Millisecond)}},
		{"tight", []broadcast.Option{broadcast.MaxBytes(30000), broadcast.MaxFrames(16)}},
		{"few pieces", []broadcast.Option{broadcast.MaxPieces(16)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pool := millrace.NewPool()
			ring := broadcast.New(test.opts...)
			var readers sync.WaitGroup
			follow := func(i int, joined bool) {
				c := ring.Cursor(broadcast.MaxLagFrames(i*8), broadcast.BatchPieces(1+i*10))
				w := ring.Watch()
				readers.Go(func() {
					var rc recipient
					if err := rc.follow(c, w, i%3 == 2, joined); err != nil {
						t.Errorf("reader %d did not get the stream: %v", i, err)
					}
					if rc.frames == 0 { // the last letter is a keyframe
						t.Errorf("reader %d got nothing", i)
					}
				})
			}
			for i := range 10 {
				follow(i, false)
			}
			const letters = 4000
			rnd := rand.New(rand.NewPCG(1, 2))
			for n := range uint64(letters) {
				key := n == letters-1 || rnd.IntN(12) == 0
				frame := letter(pool, n+1, rnd.IntN(3000), key)
				if err := ring.Publish(&frame, broadcast.Frame{Key: key}); err != nil {
					t.Error(err)
				}
				if n%500 == 0 {
					pre := letter(pool, n, 10, false)
					ring.SetPreamble(&pre)
					follow(int(n/500), true)
				}
				if n%64 == 0 {
					time.Sleep(time.Millisecond)
					ring.Stats()
				}
			}
			ring.Close()
			readers.Wait()
			if s := ring.Stats(); s.Frames != 0 || s.Cursors != 0 {
				t.Errorf("after Close: %+v, want nothing left", s)
			}
			if n := pool.Stats().InUse; n != 0 {
				t.Errorf("%d bytes of the pool are still in use", n)
			}
		})
	}
}

// The cursor, the watcher and the ring are closed, and a frame is published, all at once. A watcher
// that is not stopped is signalled.
func TestEverythingAtOnceEndsTheWait(t *testing.T) {
	for range 300 {
		ring := broadcast.New(broadcast.Latency(10 * time.Microsecond))
		c, w, stopped := ring.Cursor(), ring.Watch(), ring.Watch()
		var all sync.WaitGroup
		all.Go(func() { <-w.C })
		all.Go(stopped.Stop)
		all.Go(c.Close)
		all.Go(func() { _ = ring.Close() })
		all.Go(func() {
			p := chainOf("k")
			_ = ring.Publish(&p, broadcast.Frame{Key: true}) // fails if the ring is already closed
			ring.Flush()
		})
		all.Wait()
		w.Stop()
		check(t, ring)
	}
}
