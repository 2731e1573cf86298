package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// Many calls are sent in few writes, and the replies are matched in order.
func TestPipelineOfMany(t *testing.T) {
	c, _ := shared(t)
	ctx := bounded(t)
	const n = 2000
	p := c.Pipeline()
	bufs := make([][]byte, n)
	results := make([]*Result, n)
	for i := range n {
		bufs[i] = make([]byte, 200)
		p.SetFromBuffer(fmt.Sprint("many/", i), bytes.Repeat([]byte{byte(i)}, i%200))
		results[i] = p.GetToBuffer(fmt.Sprint("many/", i), bufs[i])
	}
	must(t, p.Exec(ctx))
	for i, r := range results {
		if want := bytes.Repeat([]byte{byte(i)}, i%200); !bytes.Equal(bufs[i][:r.Len()], want) {
			t.Fatalf("%d: %q, want its own value", i, bufs[i][:r.Len()])
		}
	}
}

// An error of one call does not affect the others.
func TestPipelineErrorsAreOfOneCall(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	huge := randomValue(3 << 20)
	must(t, rdb.Set(ctx, "pe/huge", huge, 0).Err())
	must(t, rdb.Set(ctx, "pe/v", "value", 0).Err())
	must(t, rdb.Del(ctx, "pe/list").Err())
	must(t, rdb.LPush(ctx, "pe/list", "x").Err())
	p := c.Pipeline()
	var chain millrace.Chain
	defer chain.Release()
	small := p.GetToBuffer("pe/huge", make([]byte, 10))
	large := p.GetChain("pe/huge", &chain, 10)
	wrong := p.GetToBuffer("pe/list", make([]byte, 10))
	offset := p.GetRangeToBuffer("pe/v", -1, make([]byte, 1))
	absent := p.SetFromBuffer("pe/v", []byte("x"), IfAbsent())
	both := p.SetFromBuffer("pe/v", []byte("x"), IfAbsent(), IfPresent())
	set := p.SetFromBuffer("pe/w", []byte("w"))
	buf := make([]byte, 10)
	right := p.GetToBuffer("pe/v", buf)
	err := p.Exec(ctx)
	var tooSmall *BufferTooSmallError
	if !errors.As(err, &tooSmall) || small.Err() != err || tooSmall.Need != 3<<20 {
		t.Error(small.Err(), err)
	}
	if !isA[*ValueTooLargeError](large.Err()) || !redis.HasErrorPrefix(wrong.Err(), "WRONGTYPE") {
		t.Error(large.Err(), wrong.Err())
	}
	if offset.Err() != errOffset {
		t.Error(offset.Err())
	}
	if absent.Err() != redis.Nil || both.Err() != errTwoConditions {
		t.Error(absent.Err(), both.Err())
	}
	if set.Err() != nil || right.Err() != nil || string(buf[:right.Len()]) != "value" {
		t.Error(set.Err(), right.Err())
	}
	idle(t, c, 1)
}

// A batch never requests more than MaxInFlight allows.
func TestPipelineBatches(t *testing.T) {
	c, rdb := shared(t, MaxInFlight(4<<20))
	ctx := bounded(t)
	value := randomValue(1 << 20)
	must(t, rdb.Set(ctx, "pf", value, 0).Err())
	g := &group{client: c}
	p := c.Pipeline()
	got := make([]millrace.Chain, 20)
	for i := range got {
		g.calls = append(g.calls, p.GetChain("pf", &got[i], 1<<30))
		defer got[i].Release()
	}
	if n, weight := g.nextBatch(g.calls); n != 3 || weight != 3*(1<<20+2) {
		t.Errorf("%d values of unknown length, which counts as 1 MiB, are asked for at a time", n)
	}
	must(t, p.Exec(ctx))
	for i := range got {
		if !bytes.Equal(got[i].Bytes(), value) {
			t.Fatal(i)
		}
	}
}

// Wherever a pipeline's connection is cut, each call returns its own value or an error, and no SET
// is executed twice.
func TestPipelineCut(t *testing.T) {
	s := redistest.Shared(t)
	proxy := s.Proxy(t)
	o := optionsOf(proxy.Endpoint())
	o.Protocol = 2
	o.MinRetryBackoff, o.MaxRetryBackoff = time.Millisecond, time.Millisecond
	c, _ := clientOf(t, o)
	direct := rdbOf(t, s.Endpoint())
	ctx := bounded(t)
	values := make([][]byte, 5)
	for i := range values {
		values[i] = randomValue(50 + i)
		must(t, direct.Set(ctx, fmt.Sprint("pc/", i), values[i], 0).Err())
	}
	for _, reply := range []bool{true, false} {
		for n := int64(0); n < 450; n += 7 {
			rule := redistest.CutRequest(n + 1)
			if reply {
				rule = redistest.CutReply(n)
			}
			proxy.Set(rule.Once())
			p := c.Pipeline()
			var chain millrace.Chain
			bufs := make([][]byte, len(values))
			results := make([]*Result, len(values))
			for i := range values {
				bufs[i] = guarded(100)
				results[i] = p.GetToBuffer(fmt.Sprint("pc/", i), bufs[i])
			}
			chained := p.GetChain("pc/1", &chain, 1000)
			set := p.SetFromBuffer("pc/set", []byte("v"))
			_ = p.Exec(ctx)
			for i, r := range results {
				if r.Err() != nil || !bytes.Equal(intact(bufs[i])[:r.Len()], values[i]) {
					t.Fatalf("cut at %d: call %d: %v", n, i, r.Err())
				}
			}
			if chained.Err() != nil || !bytes.Equal(chain.Bytes(), values[1]) {
				t.Fatalf("cut at %d: %v, %d bytes in the chain", n, chained.Err(), chain.Len())
			}
			chain.Release()
			if set.Err() != nil && !isA[*SentError](set.Err()) {
				t.Fatalf("cut at %d: %v", n, set.Err())
			}
		}
	}
}

// If a server is gone, not every call of a pipeline waits for it.
func TestPipelineWithoutAServer(t *testing.T) {
	onPipes(t, func(*redis.Options) {}, nil, func(t *testing.T, c *Client, s *pipeRedis) {
		get5(t, c)
		s.set(func() { s.refuse = errors.New("refused") })
		s.hangUp()
		pipe := c.Pipeline()
		for range 1000 {
			pipe.GetToBuffer("gone", make([]byte, 10))
		}
		if err := pipe.Exec(t.Context()); err == nil {
			t.Error("no error")
		}
		if n := c.Stats().Dials; n > 20 {
			t.Errorf("%d dials, want 20 at most", n)
		}
	})
}

// A Result has no value before Exec, and a Pipeline keeps nothing after it.
func TestPipelineKeepsNothing(t *testing.T) {
	c, _ := shared(t)
	ctx := bounded(t)
	p := c.Pipeline()
	for _, exec := range []bool{true, false} {
		freed := make(chan struct{})
		var set, get *Result
		func() {
			buf := make([]byte, 1<<16)
			runtime.AddCleanup(&buf[0], func(freed chan struct{}) { close(freed) }, freed)
			set, get = p.SetFromBuffer("kept", buf), p.GetToBuffer("kept", buf)
			if set.Err() != errNotExecuted || get.Err() != errNotExecuted || get.Len() != 0 {
				t.Error(set.Err(), get.Err())
			}
			if exec {
				must(t, p.Exec(ctx))
			} else {
				p.reset()
			}
		}()
		if exec && (set.Err() != nil || get.Err() != nil || get.Len() != 1<<16) || !exec &&
			get.Err() != errNotExecuted {
			t.Error(set.Err(), get.Err(), get.Len())
		}
		for gone := false; !gone; {
			runtime.GC()
			select {
			case <-freed:
				gone = true
			case <-ctx.Done():
				t.Fatal("the buffer is kept")
			case <-time.After(time.Millisecond):
			}
		}
	}
	runtime.KeepAlive(p)
}

func TestPipelineCancelled(t *testing.T) {
	c, p := proxied(t)
	_, direct := shared(t)
	ctx := bounded(t)
	must(t, direct.Del(ctx, "cancelled").Err())
	p.Set(redistest.HoldReply(0).On("GET"))
	inner, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		// The call must be executed, without a reply.
		for direct.Exists(ctx, "cancelled").Val() == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	pipe := c.Pipeline()
	get := pipe.GetToBuffer("cancelled", nil)
	set := pipe.SetFromBuffer("cancelled", []byte("v"))
	if err := pipe.Exec(inner); err != context.Canceled || get.Err() != err {
		t.Error(err, get.Err())
	}
	if err := set.Err(); !isA[*SentError](err) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	pipe.GetToBuffer("cancelled", nil)
	if err := pipe.Exec(inner); err != context.Canceled {
		t.Error(err)
	}
}
