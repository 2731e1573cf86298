package hlslive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
)

// The owner's clock is ahead of the next owner's.
func TestPrecedeWithAnotherClock(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &playlistState{Target: 2 * time.Second, Part: 200 * time.Millisecond, Open: true,
		Next:     hls.Listed{Epoch: 9, MSN: 8, Number: 2, Duration: 600 * time.Millisecond},
		Segments: []hls.Listed{{Epoch: 9, MSN: 7, Duration: time.Second, Number: 2, Time: at}}}
	for _, tt := range []struct {
		comes, shown time.Duration
		past         int
	}{
		{time.Second, 1600 * time.Millisecond, 2},
		{1700 * time.Millisecond, 1700 * time.Millisecond, 2},
		{-2 * time.Second, 1600 * time.Millisecond, 2},
		{5 * time.Second, 5 * time.Second, 2},
		{-time.Minute, -time.Minute, 0},
		{time.Minute, time.Minute, 0},
	} {
		cfg := hls.Config{Epoch: 3, FirstMSN: 5, Target: time.Second, Part: 20 * time.Millisecond,
			Segment: 3 * time.Second, Segments: 3, MaxBytes: 1 << 20}
		shown := s.continueIn(&cfg, 0, at.Add(tt.comes))
		if shown.Sub(at) != tt.shown || len(cfg.Past) != tt.past || cfg.Epoch != 10 ||
			cfg.FirstMSN != 9 {
			t.Errorf("%v: shown %v later, %+v, want the earlier segments and their epoch", tt.comes,
				shown.Sub(at), cfg)
		}
		if tt.past == 0 {
			cfg.Segment = time.Second
		}
		if _, err := hls.NewWindow(cfg); err != nil {
			t.Error(err)
		}
	}
}

// The open segment began some time after the one before. What follows begins after its end.
func TestPrecedeAfterAPause(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &playlistState{Target: 2 * time.Second, Part: 200 * time.Millisecond, Open: true,
		Next: hls.Listed{Epoch: 9, MSN: 8, Number: 2, Duration: 600 * time.Millisecond,
			Discontinuity: true, Time: at.Add(3 * time.Second)},
		Segments: []hls.Listed{{Epoch: 9, MSN: 7, Duration: time.Second, Number: 2, Time: at}}}
	cfg := hls.Config{Epoch: 3, FirstMSN: 5, Target: time.Second}
	if got := s.continueIn(&cfg, 0, at.Add(2*time.Second)).Sub(at); got != 3600*time.Millisecond {
		t.Errorf("the next segment begins after %v, want 3.6s", got)
	}
}

// If segments after the stored ones are missing, the next playlist has higher numbers, and the same
// durations as long as players may follow it.
func TestPrecedeWithMissingSegments(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &playlistState{Target: 2 * time.Second, Part: 200 * time.Millisecond,
		Next:     hls.Listed{Epoch: 9, MSN: 8, Number: 2},
		Segments: []hls.Listed{{Epoch: 9, MSN: 7, Duration: time.Second, Number: 2, Time: at}}}
	for _, tt := range []struct {
		comes, target, part time.Duration
	}{
		{time.Second, 2 * time.Second, 200 * time.Millisecond},
		{time.Minute, 4 * time.Second, 300 * time.Millisecond},
	} {
		cfg := hls.Config{Epoch: 3, FirstMSN: 20, Target: 4 * time.Second,
			Part: 300 * time.Millisecond, Segment: 3 * time.Second, Segments: 3, MaxBytes: 1 << 20}
		s.continueIn(&cfg, 20, at.Add(tt.comes))
		if len(cfg.Past) != 0 || cfg.FirstMSN != 20 || cfg.FirstDiscontinuity != 3 ||
			cfg.Target != tt.target || cfg.Part != tt.part {
			t.Errorf("%v: %+v, want target %v and part %v", tt.comes, cfg, tt.target, tt.part)
		}
		if _, err := hls.NewWindow(cfg); err != nil {
			t.Error(err)
		}
	}
}

// A testStore records the names of the saved objects, and the epochs of the saved states.
type testStore struct {
	mu     sync.Mutex
	saved  []string
	epochs []uint64
	fails  error // result of LoadState
}

func (s *testStore) Save(_ string, o hls.Object, body *millrace.Chain) {
	body.Release()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = append(s.saved, o.String())
}

func (s *testStore) SaveState(_ string, epoch uint64, _ []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs = append(s.epochs, epoch)
}

func (s *testStore) LoadState(context.Context, string) ([]byte, error) { return nil, s.fails }

func (s *testStore) last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.epochs) == 0 {
		return 0
	}
	return s.epochs[len(s.epochs)-1]
}

// An owner without an epoch may be refused, so its playlist is not stored. Otherwise the epoch of
// the ownership decides which of two playlists is later.
func TestStateOfAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, store := &testOwner{}, &testStore{}
		w := newWindowTest(t, store, owner)
		for range 4 {
			w.send(video)
		}
		synctest.Wait()
		if got := store.last(); got != 0 {
			t.Errorf("the state of a node that may be refused is stored with epoch %d", got)
		}
		owner.epoch.Store(12)
		for range 4 {
			w.send(video)
		}
		synctest.Wait()
		if got := store.last(); got != 12 {
			t.Errorf("the state is stored with epoch %d, want 12", got)
		}
		w.Disown()
		w.close()
		if got := store.last(); got != 12 {
			t.Errorf("the last state is stored with epoch %d, want 12", got)
		}
	})
}

// If the stored state cannot be loaded, players that have the earlier playlist are told of a
// discontinuity.
func TestStateThatCannotBeLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWindowTest(t, &testStore{fails: errors.New("the store does not answer")}, nil)
		for range 4 {
			w.send(video)
		}
		synctest.Wait()
		const first = 1 + unknownDiscontinuities
		if got := w.NextStart().Discontinuity; got < 2 || got > first {
			t.Errorf("the next playlist has discontinuity %d, want 2 to %d", got, first)
		}
		w.close()
	})
}

// The store gets each segment, and each init segment before the first segment that needs it, once.
func TestSavedObjects(t *testing.T) {
	window, err := hls.NewWindow(hls.Config{Epoch: 1, Target: 2 * time.Second,
		Part: time.Second, Segment: time.Second, Segments: 10, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer window.Release()
	store := &testStore{}
	s := saver{store: store, stream: "cam"}
	var want []string
	segment := 0
	for init := range 4 {
		var c millrace.Chain
		c.AppendCopy([]byte("init"))
		window.Init(&c)
		for i := range 2 {
			c.AppendCopy([]byte("fragment"))
			window.Add(hls.Fragment{Duration: time.Second, Key: true}, &c)
			window.Flush()
			s.save(window, 1, 1, &playlistState{Segments: window.Listed()})
			if i == 0 {
				want = append(want,
					hls.Object{Kind: hls.KindInit, Epoch: 1, MSN: uint64(init)}.String())
			}
			want = append(want,
				hls.Object{Kind: hls.KindSegment, Epoch: 1, MSN: uint64(segment)}.String())
			segment++
		}
	}
	if !slices.Equal(store.saved, want) {
		t.Errorf("saved:\n%v, want\n%v", store.saved, want)
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// Nodes of two versions exchange the state of a playlist. State saved by an earlier version can be
// read, and the saved form does not change. For new fields, a new golden file is added, and the old
// ones stay.
func TestStateFormat(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	want := &playlistState{
		Target: 2 * time.Second, Part: 282 * time.Millisecond,
		Segments: []hls.Listed{
			{Epoch: 7, MSN: 40, Init: 1, Duration: 1900 * time.Millisecond, Time: at, Number: 3},
			{Epoch: 7, MSN: 41, Init: 2, Duration: 2 * time.Second,
				Time: at.Add(1900 * time.Millisecond), Discontinuity: true, Number: 4},
			{Epoch: 7, MSN: 42, Duration: 282 * time.Millisecond,
				Time: at.Add(3900 * time.Millisecond), Number: 4, Gap: true},
		},
		Next: hls.Listed{Epoch: 7, MSN: 43, Init: 2, Duration: 564 * time.Millisecond,
			Time: at.Add(4182 * time.Millisecond), Number: 4},
		Open: true, Master: "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nmedia.m3u8\n",
		Media: MediaName,
	}
	const golden = "testdata/state-1.json"
	text, err := json.MarshalIndent(want, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, text) {
		t.Errorf("it is saved as\n%s", text)
	}
	state, err := parseState(kept)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := json.MarshalIndent(state, "", "\t"); !bytes.Equal(append(again, '\n'), kept) {
		t.Errorf("it is understood as\n%s", again)
	}
	master, media, err := Stored(kept)
	if err != nil || string(master.Text) != want.Master ||
		strings.Count(string(media.Text), "#EXTINF") != 3 {
		t.Errorf("its playlists: %v\n%s\n%s", err, master.Text, media.Text)
	}
}
