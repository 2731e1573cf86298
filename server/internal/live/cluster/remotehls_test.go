package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A fakeOwners is a cluster whose owners a test sets.
type fakeOwners struct {
	mu      sync.Mutex
	owner   Owner
	former  Owner
	err     error
	changed chan struct{}
}

func (o *fakeOwners) set(node string, epoch uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owner, o.err = Owner{Node: node, Epoch: epoch}, err
	if o.changed != nil {
		close(o.changed)
	}
	o.changed = make(chan struct{})
}

func (o *fakeOwners) Owner(context.Context, string) (Owner, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owner, o.err
}

func (o *fakeOwners) awaitOwner(ctx context.Context, name string) (Owner, error) {
	for {
		o.mu.Lock()
		changed := o.changed
		o.mu.Unlock()
		if owner, err := o.Owner(ctx, name); err == nil {
			return owner, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return o.Owner(ctx, name)
		}
	}
}

func (o *fakeOwners) formerOwner(string) (Owner, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.former, o.former.Node != ""
}

func (o *fakeOwners) forget(string, uint64) {}

func (o *fakeOwners) forgetFormer(_ string, epoch uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.former.Epoch == epoch {
		o.former = Owner{}
	}
}

// newTestRemote returns a RemoteHLS whose players wait ownerWait for an owner. store may be nil.
func newTestRemote(t *testing.T, o ownerSource, store *Segments) *RemoteHLS {
	t.Helper()
	return &RemoteHLS{owners: o, self: "http://self:1", objects: newTestObjects(t, 1<<20, 1<<20),
		store: store, Wait: ownerWait}
}

// ask returns the status and the text of a response.
func (h *RemoteHLS) ask(t *testing.T, path string) (int, string) {
	t.Helper()
	q := HLSRequest{Stream: "cam"}
	var query string
	if q.Object, query, q.Blocks = strings.Cut(path, "?"); q.Blocks {
		q.Query = "?" + query
	}
	out, err := h.Get(t.Context(), &q)
	defer out.Body.Release()
	var refused *refuse.Refusal
	switch {
	case errors.Is(err, ErrNoOwner):
		return http.StatusNotFound, err.Error()
	case errors.As(err, &refused):
		return refused.Status, refused.Reason
	case err != nil:
		t.Errorf("requesting %s failed: %v", path, err)
	}
	return out.Status, string(out.Body.Bytes())
}

// fill pretends that n more bytes are being fetched.
func (o *Objects) fill(n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats.Bytes += n
}

func say(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// A cached playlist is not used for a later ownership of the same node, which has another playlist.
func TestPlaylistOfALaterOwnership(t *testing.T) {
	var text atomic.Value
	node := owner(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		say(http.StatusOK, text.Load().(string))(w, r)
	})
	owners := &fakeOwners{}
	h := newTestRemote(t, owners, nil)
	for _, step := range []struct {
		epoch       uint64
		text, wants string
	}{{1, "first", "first"}, {1, "second", "first"}, {2, "third", "third"}} {
		owners.set(node, step.epoch, nil)
		text.Store(step.text)
		if status, got := h.ask(t, "media.m3u8?_HLS_msn=7"); status != http.StatusOK ||
			got != step.wants {
			t.Errorf("epoch %d: %d %q, want %q", step.epoch, status, got, step.wants)
		}
	}
}

// If an owner fails in any way, players wait for the next one. If there is none, they are told to
// try again.
func TestHLSOwnersThatFail(t *testing.T) {
	good := owner(t, say(200, "good"))
	var waits atomic.Int32
	for name, bad := range map[string]string{
		"refuses connections": "http://127.0.0.1:1",
		"is no owner":         owner(t, say(421, "")),
		"refuses the token":   owner(t, say(403, "")),
		"shuts down":          owner(t, say(503, "shuts down")),
		"cuts the answer": owner(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "abc")
		}),
		"says nothing": owner(t, func(_ http.ResponseWriter,
			r *http.Request) {
			waits.Add(1)
			<-r.Context().Done()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			o := &fakeOwners{}
			o.set(bad, 1, nil)
			h := newTestRemote(t, o, nil)
			answer := make(chan string, 2)
			for _, path := range []string{"media.m3u8?_HLS_msn=1&_HLS_part=0", "a-1.0.m4s"} {
				go func() {
					status, text := h.ask(t, path)
					answer <- fmt.Sprint(status, " ", text)
				}()
			}
			eventually(t, "a fetch", func() bool { return h.objects.Stats().Fetched >= 2 })
			if name == "says nothing" {
				eventually(t, "the requests", func() bool { return waits.Load() == 2 })
			}
			o.set(good, 2, nil)
			for range 2 {
				if got := <-answer; got != "200 good" {
					t.Error(got)
				}
			}
			if name == "says nothing" {
				return
			}
			o.set(bad, 3, nil)
			if status, text := h.ask(t, "media.m3u8"); status != 503 {
				t.Errorf("owners that fail: %d %s, want 503", status, text)
			}
		})
	}
}

// While there is no owner, players get the objects that the last owner still has. A node that has
// nothing left, or that does not answer, is not asked again.
func TestHLSOfTheFormerOwner(t *testing.T) {
	var asked atomic.Int32
	former := func(status int, text string) string {
		return owner(t, func(w http.ResponseWriter,
			r *http.Request) {
			asked.Add(1)
			say(status, text)(w, r)
		})
	}
	paths := []string{"index.m3u8", "media.m3u8", "media.m3u8?_HLS_msn=1&_HLS_part=0", "7-1.m4s",
		"7-1.0.m4s"}
	for _, path := range paths {
		o := &fakeOwners{former: Owner{Node: former(200, "the end"), Epoch: 7}}
		o.set("", 0, ErrNoOwner)
		h := newTestRemote(t, o, nil)
		if status, text := h.ask(t, path); status != 200 || text != "the end" {
			t.Errorf("%s: %d %s, want the former owner's object", path, status, text)
		}
		for _, bad := range []string{former(421, ""), "http://127.0.0.1:1"} {
			asked.Store(0)
			o = &fakeOwners{former: Owner{Node: bad, Epoch: 7}}
			o.set("", 0, ErrNoOwner)
			h = newTestRemote(t, o, nil)
			h.Wait = 200 * time.Millisecond
			for range 2 {
				if status, text := h.ask(t, path); status != 404 {
					t.Errorf("%s: %d %s, want 404", path, status, text)
				}
			}
			if n := asked.Load(); n > 1 {
				t.Errorf("%s: a node that has nothing left was asked %d times", path, n)
			}
		}
		// A player that disconnects, and a response for which there is no room, say nothing about
		// the node.
		hanging := make(chan struct{}, 1)
		o = &fakeOwners{former: Owner{Epoch: 7,
			Node: owner(t, func(w http.ResponseWriter, r *http.Request) {
				select {
				case hanging <- struct{}{}:
					<-r.Context().Done()
				default:
					say(200, "the end")(w, r)
				}
			})}}
		o.set("", 0, ErrNoOwner)
		h = newTestRemote(t, o, nil)
		ctx, hangUp := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := h.Get(ctx, &HLSRequest{Stream: "cam", Object: "7-1.m4s"})
			left <- err
		}()
		eventually(t, "the request", func() bool { return len(hanging) == 1 })
		hangUp()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want context.Canceled", path, err)
		}
		failed := h.objects.Stats().Failed
		h.objects.fill(h.objects.max + h.objects.maxObject)
		answer := make(chan string, 1)
		go func() {
			status, text := h.ask(t, path)
			answer <- fmt.Sprint(status, " ", text)
		}()
		eventually(t, "an answer without room",
			func() bool { return h.objects.Stats().Failed > failed })
		h.objects.fill(-h.objects.max - h.objects.maxObject)
		if got := <-answer; got != "200 the end" {
			t.Errorf("%s: %s, want the former owner's object", path, got)
		}
		// The former owner does not have the part. While the next request waits, there is a new
		// owner.
		o = &fakeOwners{former: Owner{Node: former(404, "not in the window"), Epoch: 7}}
		o.set("", 0, ErrNoOwner)
		if status, text := newTestRemote(t, o, nil).ask(t, path); status != 404 ||
			text != "not in the window" {
			t.Errorf("%s: %d %s, want 404", path, status, text)
		}
		hangs := make(chan struct{})
		o = &fakeOwners{former: Owner{Epoch: 7,
			Node: owner(t, func(_ http.ResponseWriter, r *http.Request) {
				close(hangs)
				<-r.Context().Done()
			})}}
		o.set("", 0, ErrNoOwner)
		go func() {
			status, text := newTestRemote(t, o, nil).ask(t, path)
			answer <- fmt.Sprint(status, " ", text)
		}()
		<-hangs
		o.set(owner(t, say(200, "good")), 8, nil)
		if got := <-answer; got != "200 good" {
			t.Errorf("%s: %s, want the owner's object", path, got)
		}
	}
}

// An owner that has lost Redis cannot store its segments, and after a while it is no longer known
// as the owner. Players get its playlist, and not the old one in the store. If it does not answer,
// they get the one in the store.
func TestHLSOfAnOwnerWithoutRedis(t *testing.T) {
	store := redisSegments(t, redistest.Shared(t), time.Minute)
	store.SaveState("cam", 7, []byte(`{"Target":2000000000,"Part":200000000,`+
		`"Segments":[{"Epoch":7,"MSN":4,"Duration":2000000000}],"Next":{"Epoch":7,"MSN":5},`+
		`"Master":"#EXTM3U\n"}`))
	eventually(t, "the store", func() bool { return store.Stats().Waiting == 0 })
	for name, node := range map[string]string{
		"new":     owner(t, say(200, "new")),
		"#EXTM3U": owner(t, say(404, "it has ended")),
		"#EXT":    "http://127.0.0.1:1",
		"#":       owner(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
	} {
		o := &fakeOwners{former: Owner{Node: node, Epoch: 7}}
		o.set("", 0, ErrNoOwner)
		h := newTestRemote(t, o, store)
		if status, text := h.ask(t, "media.m3u8"); status != 200 || !strings.HasPrefix(text, name) {
			t.Errorf("%d %s, want a playlist that begins with %q", status, text, name)
		}
	}
}

// While there is no owner, players get objects from the store.
func TestHLSWithoutOwner(t *testing.T) {
	o := &fakeOwners{}
	o.set("", 0, ErrNoOwner)
	h := newTestRemote(t, o, redisSegments(t, redistest.Shared(t), time.Minute))
	object := hls.Object{Kind: hls.KindSegment, Epoch: 7, MSN: 4}
	for path, want := range map[string]int{"index.m3u8": 404, object.String(): 404,
		"7-5.0.m4s": 404} {
		if status, text := h.ask(t, path); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}
	var c millrace.Chain
	c.AppendCopy([]byte("segment 4"))
	h.store.Save("cam", object, &c)
	facts := `{"Target":2000000000,"Part":200000000,"Segments":[{"Epoch":7,"MSN":4,"Duration":2000000000}],"Next":{"Epoch":7,"MSN":5},` +
		`"Master":"#EXTM3U\n","Ended":false}`
	h.store.SaveState("cam", 7, []byte(facts))
	eventually(t, "the store", func() bool { return h.store.Stats().Waiting == 0 })
	for path, want := range map[string]string{
		"index.m3u8": "200 #EXTM3U\n", object.String(): "200 segment 4", "7-5.0.m4s": "404 ",
		"media.m3u8": "200 #EXTM3U\n#EXT-X-VERSION", "media.m3u8?_HLS_msn=5&_HLS_part=0": "503 ",
		"media.m3u8?_HLS_msn=5": "503 ",
	} {
		if status, text := h.ask(t, path); !strings.HasPrefix(fmt.Sprint(status, " ", text), want) {
			t.Errorf("%s: %d %s, want %s", path, status, text, want)
		}
	}
	h.store.SaveState("cam", 7, []byte(strings.Replace(facts, `"Ended":false`, `"Ended":true`, 1)))
	eventually(t, "the end of the stream", func() bool {
		status, text := h.ask(t, "media.m3u8?_HLS_msn=5&_HLS_part=0")
		return status == 200 && strings.HasSuffix(text, "#EXT-X-ENDLIST\n")
	})
	// A new owner does not have the segments of the former one.
	o.set(owner(t, say(404, "not in the window")), 8, nil)
	if status, text := h.ask(t, object.String()); status != 200 || text != "segment 4" {
		t.Errorf("%d %s, want the segment from the store", status, text)
	}
	if status, text := h.ask(t, "7-9.m4s"); status != 404 || text != "not in the window" {
		t.Errorf("%d %s, want 404", status, text)
	}
	o.set("http://self:1", 9, nil)
	q := HLSRequest{Stream: "cam", Object: "media.m3u8"}
	if _, err := h.Get(t.Context(), &q); err != ErrHere {
		t.Error(err)
	}
	o.set("", 0, context.DeadlineExceeded) // the directory is unreachable
	if status, text := h.ask(t, "7-9.m4s"); status != 503 {
		t.Errorf("%d %s, want 503", status, text)
	}
}
