package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

// Random operations are compared with a map.
func TestAgainstAMap(t *testing.T) {
	type entry struct {
		value []byte
		tag   string
	}
	onEachStore(t, func(t *testing.T, s Store) {
		rnd := rand.New(rand.NewPCG(1, 2))
		model := make(map[string]entry)
		everUsed := make(map[string]bool) // all tags so far
		w := serve(t, s)
		for i := range 200 {
			key := fmt.Sprintf("k%d/%d", rnd.IntN(4), rnd.IntN(2))
			was, there := model[key]
			var only Condition
			allowed := true
			switch rnd.IntN(5) {
			case 0:
				only, allowed = func(tag string) bool { return tag == "" }, !there
			case 1:
				only, allowed = func(tag string) bool { return tag == was.tag && tag != "" }, there
			case 2:
				only, allowed = func(string) bool { return false }, false
			}
			if err := s.Check(t.Context(), key, only); (err == nil) != allowed {
				t.Fatalf("%d: Check: %v, want %v", i, err, allowed)
			}
			switch rnd.IntN(3) {
			case 0:
				value := described(uint64(i), 16+rnd.IntN(1<<rnd.IntN(21)))
				tag, created, err := put(t, s, key, value, only)
				if !allowed {
					if err != ErrCondition {
						t.Fatalf("%d: Put: %v, want ErrCondition", i, err)
					}
					break
				}
				if err != nil || created == there || everUsed[tag] {
					t.Fatalf("%d: Put: %s, %v, %v; there was one: %v", i, tag, created, err, there)
				}
				model[key] = entry{value, tag}
				everUsed[tag] = true
			case 1:
				err := s.Delete(t.Context(), key, only)
				switch {
				case !allowed && err == ErrCondition, !there && err == ErrNotFound:
				case allowed && there && err == nil:
					delete(model, key)
				default:
					t.Fatalf("%d: Delete: %v; there was one: %v, allowed: %v", i, err, there,
						allowed)
				}
			}
			now := model[key]
			got, tag, err := w.get(t.Context(), key)
			if err != nil || tag != now.tag || !bytes.Equal(got, now.value) {
				t.Fatalf("%d: %d bytes, %s, %v; want %d, %s", i, len(got), tag, err, len(now.value),
					now.tag)
			}
			if n := len(now.value); n > 0 {
				from := rnd.IntN(n)
				to := from + rnd.IntN(n-from)
				part, _, err := w.get(t.Context(), key, "Range",
					fmt.Sprintf("bytes=%d-%d", from, to))
				if err != nil || !bytes.Equal(part, now.value[from:to+1]) {
					t.Fatalf("%d: [%d:%d] of %d: %d bytes, %v", i, from, to+1, n, len(part), err)
				}
			}
		}
	})
}

// A body that fails after any number of bytes leaves the old value, or none, and nothing else.
func TestBrokenBodiesChangeNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, s Store) {
		w := serve(t, s)
		old := []byte("old")
		mustPut(t, s, "k", old)
		why := errors.New("broken")
		value := described(1, 3<<20)
		breaks := []int{64<<10 - 1, 64 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 2<<20 + 5, 3<<20 - 1}
		for k := range 40 {
			breaks = append(breaks, k)
		}
		for _, k := range breaks {
			for _, size := range []int64{unknownSize, int64(len(value)), int64(k) + 1} {
				for _, failed := range []error{why, io.ErrUnexpectedEOF} {
					body := io.MultiReader(bytes.NewReader(value[:k]), iotest.ErrReader(failed))
					_, _, err := s.Put(t.Context(), "k", body, size, Put{Limit: limit})
					if !errors.Is(err, ErrBody) || !errors.Is(err, failed) {
						t.Fatalf("after %d of %d bytes: %v", k, size, err)
					}
				}
			}
			// The body is shorter than announced.
			_, _, err := s.Put(t.Context(), "k", bytes.NewReader(value[:k]), int64(k)+1,
				Put{Limit: limit})
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%d of %d bytes: %v", k, k+1, err)
			}
		}
		w.mustHave(t, "k", old)
		w.mustHave(t, "other", nil)
		left(t, s, 1)
	})
}

// left fails the test unless the store has the given number of values, and nothing unfinished.
func left(t *testing.T, s Store, values int) {
	t.Helper()
	switch s := s.(type) {
	case *directory:
		names, err := os.ReadDir(s.root.Name() + "/" + incoming)
		if err != nil || len(names) > 0 {
			t.Errorf("unfinished files are left: %v, %v", names, err)
		}
	case *Redis:
		if n := len(keysOf(t, s)); n != 2*values {
			t.Errorf("keys %q, want two for each value", keysOf(t, s))
		}
	}
}

func TestLimit(t *testing.T) {
	onEachStore(t, func(t *testing.T, s Store) {
		w := serve(t, s)
		for _, most := range []int{0, 1, 100, 1 << 20, 1<<20 + 1, 2 << 20} {
			for _, size := range []int64{unknownSize, int64(most) + 1} {
				value := described(1, 3<<20)[:most+1]
				var large *TooLargeError
				_, _, err := s.Put(t.Context(), "k", bytes.NewReader(value), size,
					Put{Limit: int64(most)})
				if !errors.As(err, &large) || large.Limit != int64(most) {
					t.Errorf("%d bytes, said to be %d, of at most %d: %v", most+1, size, most, err)
				}
			}
			value := described(1, 3<<20)
			// Bytes after the announced size are not read.
			if _, _, err := s.Put(t.Context(), "fits", bytes.NewReader(value), int64(most),
				Put{Limit: int64(most)}); err != nil {
				t.Errorf("%d bytes, which is the limit: %v", most, err)
			}
			w.mustHave(t, "fits", value[:most])
		}
		w.mustHave(t, "k", nil)
	})
}

// A reader gets a complete value while others put and delete it.
func TestValuesAreNeverTorn(t *testing.T) {
	onEachStore(t, func(t *testing.T, s Store) {
		w := serve(t, s)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var writers, all sync.WaitGroup
		for i := range 3 {
			writers.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), 1))
				for range 20 {
					value := described(rnd.Uint64(), 16+rnd.IntN(3<<20))
					size := int64(len(value))
					if rnd.IntN(2) == 0 {
						size = unknownSize
					}
					_, _, err := s.Put(t.Context(), "k", bytes.NewReader(value), size,
						Put{Limit: limit})
					if err != nil {
						t.Errorf("Put: %v, want nil", err)
					}
				}
			})
		}
		all.Go(func() {
			for ctx.Err() == nil {
				if err := s.Delete(t.Context(), "k", nil); err != nil && err != ErrNotFound {
					t.Errorf("Delete: %v, want nil or ErrNotFound", err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		var got atomic.Int64
		for range 4 {
			all.Go(func() {
				for ctx.Err() == nil {
					value, _, err := w.get(t.Context(), "k")
					if err != nil {
						t.Errorf("Get: %v, want nil", err)
					} else if value != nil && !isWhole(value) {
						t.Errorf("a value of %d bytes is torn", len(value))
					} else if value != nil {
						got.Add(1)
					}
				}
			})
		}
		writers.Wait()
		stop()
		all.Wait()
		if got.Load() == 0 {
			t.Error("no reader got a value")
		}
	})
}

// Of several writers with If-None-Match: *, one succeeds. No update of writers with If-Match is
// lost.
func TestConditionsAreAtomic(t *testing.T) {
	onEachStore(t, func(t *testing.T, s Store) {
		var all sync.WaitGroup
		var mu sync.Mutex
		first := 0
		absent := func(tag string) bool { return tag == "" }
		for range 8 {
			all.Go(func() {
				_, created, err := put(t, s, "first", []byte("x"), absent)
				mu.Lock()
				defer mu.Unlock()
				if err == nil && created {
					first++
				} else if err != ErrCondition {
					t.Errorf("created %v, %v, want ErrCondition", created, err)
				}
			})
		}
		all.Wait()
		if first != 1 {
			t.Errorf("%d were the first", first)
		}
		mustPut(t, s, "count", nil)
		w := serve(t, s)
		for range 4 {
			all.Go(func() {
				for range 10 {
					for {
						value, tag, err := w.get(t.Context(), "count")
						if err != nil {
							t.Error(err)
							return
						}
						_, _, err = put(t, s, "count", append(value, '+'),
							func(now string) bool { return now == tag })
						if err == nil {
							break
						}
						if err != ErrCondition {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		all.Wait()
		w.mustHave(t, "count", bytes.Repeat([]byte{'+'}, 40))
	})
}

func TestParseTTL(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"": 0, "1": time.Second, "90": 90 * time.Second, "1h30m": 90 * time.Minute,
		"1ms": time.Millisecond,
		"1.5": 1500 * time.Millisecond, "89.999": 89999 * time.Millisecond,
		"0.001": time.Millisecond, "3153600000": maxTTL,
	} {
		if got, err := ParseTTL(in); err != nil || got != want {
			t.Errorf("ParseTTL(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"0", "-1", "-1s", "1us", "soon", "0.0005", "1.5.5", ".", "1h30",
		"1e3",
		"3153600000.001", "18446744073709551615", "9999999999999", "4294967295", "900000h", " 1"} {
		if got, err := ParseTTL(in); err == nil {
			t.Errorf("ParseTTL(%q) = %v, want an error", in, got)
		}
	}
	// The time in a response can be used in a request.
	for _, left := range []time.Duration{1, time.Millisecond / 3, time.Millisecond, 1234567890,
		time.Hour, maxTTL} {
		text := formatTTL(left)
		if got, err := ParseTTL(text); err != nil || (got-left).Abs() >= time.Millisecond {
			t.Errorf("%v is told as %q: %v, %v", left, text, got, err)
		}
	}
}
