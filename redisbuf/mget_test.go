package redisbuf

import (
	"bytes"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A pipeline contains an MGet among other calls, with repeated keys. Its slots are the same as
// without a pipeline.
func TestPipelineMGet(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	one, two := randomValue(1000), randomValue(70_000)
	must(t, rdb.MSet(ctx, "pm/1", one, "pm/2", two).Err())
	must(t, rdb.Del(ctx, "pm/none", "pm/new").Err())
	p := c.Pipeline()
	for range 2 { // the pipeline can be used again
		first, second := guarded(len(one)+len(two)), guarded(len(one))
		slots, more := make([]Slot, 3), make([]Slot, 2)
		set := p.SetFromBuffer("pm/new", two)
		p.MGet([]string{"pm/2", "pm/none", "pm/1"}, first, slots)
		got := p.GetRangeToBuffer("pm/new", 0, make([]byte, 10))
		p.MGet([]string{"pm/2", "pm/1"}, second, more)
		err := p.Exec(ctx)
		var small *BufferTooSmallError
		if !errors.As(err, &small) || more[0].Err != err || small.Need != int64(len(two)) {
			t.Errorf("Exec: %v; the one that does not fit: %+v", err, more[0])
		}
		if set.Err() != nil || got.Err() != nil || got.Len() != 10 {
			t.Error(set.Err(), got.Err(), got.Len())
		}
		intact(first)
		intact(second)
		if s := slots[0]; s.Err != nil || !bytes.Equal(first[s.Start:s.End], two) {
			t.Errorf("the first slot is %+v, want two", s)
		}
		if s := slots[1]; s.Err != redis.Nil || s.Start != s.End {
			t.Errorf("of no key: %+v", s)
		}
		if s := slots[2]; s.Err != nil || !bytes.Equal(first[s.Start:s.End], one) {
			t.Errorf("the third slot is %+v, want one", s)
		}
		if s := more[1]; s.Err != nil || !bytes.Equal(second[s.Start:s.End], one) {
			t.Errorf("after the one that does not fit: %+v", s)
		}
	}
	slots := make([]Slot, 1)
	p.MGet([]string{"pm/none"}, nil, slots)
	if err := p.Exec(ctx); err != nil || slots[0].Err != redis.Nil {
		t.Errorf("of no key alone: %v, %+v", err, slots[0])
	}
	idle(t, c, 1)
}

func TestMGet(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	keys := []string{"m/1", "m/none", "m/2", "m/list", "m/3", "m/1"}
	for _, size := range []int{0, 1, 100, 100000} {
		one, two, three := randomValue(size), randomValue(size*2), randomValue(1)
		must(t, rdb.MSet(ctx, "m/1", one, "m/2", two, "m/3", three).Err())
		must(t, rdb.Del(ctx, "m/list").Err())
		must(t, rdb.LPush(ctx, "m/list", "x").Err())
		buf := guarded(4*size + 1)
		slots := make([]Slot, len(keys))
		n, err := c.MGet(ctx, keys, buf, slots)
		if n != len(buf) || !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Fatal(n, err)
		}
		for i, want := range [][]byte{one, nil, two, nil, three, one} {
			s := slots[i]
			if want == nil && s.Err == nil || want != nil &&
				(s.Err != nil || !bytes.Equal(intact(buf)[s.Start:s.End], want)) {
				t.Fatalf("size %d, slot %d: %+v", size, i, s)
			}
		}
		if size < 2 {
			continue
		}
		buf = guarded(2*size + 1) // not enough for the second value
		n, err = c.MGet(ctx, []string{"m/1", "m/2", "m/3"}, buf, slots[:3])
		if n != size+1 || !isA[*BufferTooSmallError](err) || slots[1].Err != err ||
			slots[0].Err != nil || slots[2].Err != nil {
			t.Fatal(n, err, slots[:3])
		}
	}
	n, err := c.MGet(ctx, nil, nil, nil)
	if n != 0 || err != nil {
		t.Error(n, err)
	}
	idle(t, c, 1)
	defer func() {
		if recover() == nil {
			t.Error("no panic for a wrong number of slots")
		}
	}()
	_, _ = c.MGet(ctx, keys, nil, nil)
}
