package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/media/hls"
)

// openSegments returns Segments that end with the test.
func openSegments(t *testing.T, k *Segments, err error) *Segments {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if err := k.Close(ctx); err != nil {
			t.Error(err)
		}
		if st := k.Stats(); st.Waiting != 0 {
			t.Errorf("%+v, want nothing to wait for", st)
		}
		if n := len(k.newest); n > 0 {
			t.Errorf("%d states are kept after they were saved", n)
		}
	})
	return k
}

func redisSegments(t *testing.T, s *redistest.Server, keep time.Duration) *Segments {
	t.Helper()
	// The prefix is different for each run of the test.
	prefix := filepath.Base(filepath.Dir(t.TempDir())) + ":"
	k, err := OpenRedisSegments(RedisConfig{Address: "redis://" + s.Addr(), Prefix: prefix,
		Lease: 2 * time.Second}, keep, slog.New(slog.DiscardHandler))
	return openSegments(t, k, err)
}

// testSegment returns a segment, in pieces.
func testSegment(msn uint64) (o hls.Object, body string) {
	return hls.Object{Kind: hls.KindSegment, Epoch: 1 << 50, MSN: msn},
		strings.Repeat(fmt.Sprintf("segment %d ", msn), 10_000)
}

func save(k *Segments, stream string, o hls.Object, body string) {
	var c millrace.Chain
	c.AppendCopy([]byte(body[:len(body)/2]))
	c.AppendCopy([]byte(body[len(body)/2:]))
	k.Save(stream, o, &c)
	if c.Len() != 0 {
		panic("the body is still there")
	}
}

// load returns an object, or "" if the store does not have it.
func load(t *testing.T, k *Segments, stream string, o hls.Object) string {
	t.Helper()
	var c millrace.Chain
	defer c.Release()
	ok, err := k.Load(t.Context(), stream, o, &c, 1<<20)
	if err != nil {
		t.Error(err)
	}
	if ok != (c.Len() > 0) {
		t.Errorf("%v with %d bytes", ok, c.Len())
	}
	return string(c.Bytes())
}

func state(t *testing.T, k *Segments) string {
	t.Helper()
	p, err := k.LoadState(t.Context(), "tenant/cam")
	if err != nil {
		t.Error(err)
	}
	return string(p)
}

// One node loads the segments that another one has saved.
func TestSegments(t *testing.T) {
	redis := redistest.Shared(t)
	a, b := redisSegments(t, redis, time.Minute), redisSegments(t, redis, time.Minute)
	if got := state(t, b); got != "" {
		t.Errorf("the state is %q, want none", got)
	}
	for i := range uint64(20) {
		o, body := testSegment(i)
		save(a, "tenant/cam", o, body)
	}
	init := hls.Object{Kind: hls.KindInit, Epoch: 7}
	save(a, "tenant/cam", init, "init")
	a.SaveState("tenant/cam", 1<<52, []byte("new state\nof two lines"))
	eventually(t, "all to be saved", func() bool { return a.Stats().Waiting == 0 })
	b.SaveState("tenant/cam", 1<<52-1, []byte("of the owner before"))
	eventually(t, "nothing to be saved", func() bool { return b.Stats().Waiting == 0 })
	if got := state(t, b); got != "new state\nof two lines" {
		t.Errorf("the state is %q, want the newest", got)
	}
	for i := range uint64(20) {
		if o, body := testSegment(i); load(t, b, "tenant/cam", o) != body {
			t.Errorf("segment %d has other bytes than were saved", i)
		}
	}
	if got := load(t, b, "tenant/cam", init); got != "init" {
		t.Errorf("the init segment is %q, want init", got)
	}
	o, _ := testSegment(20)
	if load(t, b, "tenant/cam", o) != "" || load(t, b, "tenant", init) != "" {
		t.Error("what was never saved is there")
	}
	var c millrace.Chain
	if ok, err := b.Load(t.Context(), "tenant/cam",
		hls.Object{Kind: hls.KindSegment, Epoch: 1 << 50}, &c, 1000); ok || err == nil ||
		c.Len() > 0 {
		t.Errorf("more than is allowed: %v, %v", ok, err)
	}
	a.SaveState("tenant/cam", 1<<52, []byte("newer state"))
	eventually(t, "newer state", func() bool { return state(t, b) == "newer state" })
	if st := a.Stats(); st.Saved != 21 || st.Lost != 0 || b.Stats().Loaded != 21 {
		t.Errorf("%+v, %+v, want 21 saved, 21 loaded and none lost", st, b.Stats())
	}
}

// Saved objects expire.
func TestSegmentsExpire(t *testing.T) {
	o, body := testSegment(1)
	k := redisSegments(t, redistest.Shared(t), 100*time.Millisecond)
	save(k, "tenant/cam", o, body)
	k.SaveState("tenant/cam", 1, []byte("state"))
	eventually(t, "the end", func() bool {
		return k.Stats().Waiting == 0 && load(t, k, "tenant/cam", o) == "" && state(t, k) == ""
	})
}

// Nodes of two versions share the data in Redis: this state was written by an earlier version, and
// that version can read the current state.
func TestStateInRedis(t *testing.T) {
	k := redisSegments(t, redistest.Shared(t), time.Minute)
	s := k.store.(*redisStore)
	const key = "{tenant/cam}hls"
	if err := s.rdb.HSet(t.Context(), s.prefix+key, "epoch", 7, "facts",
		"earlier").Err(); err != nil {
		t.Fatal(err)
	}
	if got := state(t, k); got != "earlier" {
		t.Errorf("the state is %q", got)
	}
	k.SaveState("tenant/cam", 8, []byte("later"))
	eventually(t, "the state", func() bool {
		got, err := s.rdb.HGetAll(t.Context(), s.prefix+key).Result()
		return err == nil && len(got) == 2 && got["epoch"] == "8" && got["facts"] == "later"
	})
}

// An unreachable or blocked store never delays a stream. Losses are counted, and memory is limited.
func TestSegmentsWithoutRedis(t *testing.T) {
	s := redistest.Start(t)
	k := redisSegments(t, s, time.Minute)
	o, body := testSegment(1)
	save(k, "tenant/cam", o, body)
	eventually(t, "the first one", func() bool { return k.Stats().Saved == 1 })
	s.Pause(t)
	const many = 4 * saverQueue * savers
	for i := range uint64(many) {
		o.MSN = i
		save(k, fmt.Sprint("tenant/cam", i%10), o, body[:1000])
	}
	if st := k.Stats(); st.Waiting > 1000*(saverQueue+1)*savers || st.Lost < many/2 {
		t.Errorf("%+v, want a short queue and the rest lost", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if state, err := k.LoadState(ctx, "tenant/cam"); err == nil {
		t.Errorf("without Redis the state is %q, want an error", state)
	}
	s.Resume(t)
	nettest.Eventually(t, "all that waited", func() bool { return k.Stats().Waiting == 0 })
	before := k.Stats().Saved
	save(k, "tenant/cam", o, body)
	eventually(t, "the last one", func() bool { return k.Stats().Saved == before+1 })
	if load(t, k, "tenant/cam", o) != body {
		t.Error("the last one is not there")
	}
}

// Save and Close are called at the same time.
func TestSegmentsClose(t *testing.T) {
	slow := &slowStore{goOn: make(chan struct{})}
	close(slow.goOn)
	k := newSegments(slow, slog.New(slog.DiscardHandler))
	o, body := testSegment(1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			save(k, "tenant/cam", o, body[:100])
		}
	}()
	if err := k.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-done
	if st := k.Stats(); st.Waiting != 0 || st.Saved+st.Lost != 1000 {
		t.Errorf("%+v, want 1000 segments saved or lost, and none waiting", st)
	}
}

// A slowStore records saves. Each save waits for the test.
type slowStore struct {
	store
	goOn chan struct{}
	done []string
}

func (s *slowStore) note(what string) error {
	<-s.goOn
	s.done = append(s.done, what)
	return nil
}

func (s *slowStore) set(_ context.Context, stream, object string, _ *millrace.Chain) error {
	return s.note(stream + " " + object)
}

func (s *slowStore) setState(_ context.Context, stream string, _ uint64, state []byte) error {
	return s.note(stream + " " + string(state))
}

func (s *slowStore) close() error { return nil }

// If several states of a stream are waiting, only the newest is saved, after the objects that it
// names.
func TestNewestState(t *testing.T) {
	s := &slowStore{goOn: make(chan struct{})}
	k := newSegments(s, slog.New(slog.DiscardHandler))
	for i := range uint64(3) {
		o, _ := testSegment(i)
		save(k, "cam", o, "body")
		k.SaveState("cam", 7, fmt.Appendf(nil, "state %d", i))
	}
	close(s.goOn)
	if err := k.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var want []string
	for i := range uint64(3) {
		o, _ := testSegment(i)
		want = append(want, "cam "+o.String())
	}
	if want = append(want, "cam state 2"); !slices.Equal(s.done, want) {
		t.Errorf("%q, want %q", s.done, want)
	}
	if st := k.Stats(); st.Waiting != 0 || st.Lost != 0 || len(k.newest) != 0 {
		t.Errorf("%+v, %d states waiting, want none lost and none waiting", st, len(k.newest))
	}
}
