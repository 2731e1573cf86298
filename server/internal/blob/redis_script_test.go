package blob

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/testkit/redisclient"
	"github.com/redis/go-redis/v9"
)

// If the reply to a write is lost, the write is executed once and reports its result.
func TestLostAnswers(t *testing.T) {
	server := redistest.Shared(t)
	proxy := server.Proxy(t)
	s := openServer(t, proxy.Endpoint(), t.Name()+":")
	other := openServer(t, server.Endpoint(), t.Name()+":")
	w := serve(t, other)
	mustPut(t, s, "warm", []byte("the scripts are known"))
	if err := s.Delete(t.Context(), "warm", nil); err != nil {
		t.Fatal(err)
	}
	absent := func(tag string) bool { return tag == "" }
	present := func(tag string) bool { return tag != "" }
	for _, only := range []Condition{nil, absent, present} {
		for _, there := range []bool{false, true} {
			if only != nil && only("") == there {
				continue // not allowed
			}
			_ = other.Delete(t.Context(), "k", nil)
			if there {
				mustPut(t, other, "k", []byte("old"))
			}
			proxy.Set(redistest.CutReply(0).On(commitScript.Hash()).Once())
			tag, created, err := put(t, s, "k", []byte("value"), only)
			if err != nil || created == there {
				t.Errorf("PUT: created %v, %v; there was one: %v", created, err, there)
			}
			got, now, err := w.get(t.Context(), "k")
			if err != nil || string(got) != "value" || now != tag {
				t.Errorf("%q, %s, %v; want %s", got, now, err, tag)
			}
		}
	}
	for _, only := range []Condition{nil, present} {
		mustPut(t, other, "k", []byte("value"))
		proxy.Set(redistest.CutReply(0).On(deleteScript.Hash()).Once())
		if err := s.Delete(t.Context(), "k", only); err != nil {
			t.Errorf("DELETE after a lost answer: %v", err)
		}
		w.mustHave(t, "k", nil)
	}
	proxy.Set(redistest.CutReply(0).On(deleteScript.Hash()).Once())
	if err := s.Delete(t.Context(), "k", nil); err != ErrNotFound {
		t.Errorf("DELETE of nothing: %v", err)
	}
	mustPut(t, other, "k", []byte("value"))
	proxy.Set(redistest.CutReply(0).On(deleteScript.Hash()))
	if err := s.Delete(t.Context(), "k", nil); !errors.Is(err, ErrUnsure) {
		t.Errorf("DELETE that is never answered: %v", err)
	}
	w.mustHave(t, "k", nil)
	proxy.Set()
}

// The second attempt of a write does not undo what another writer has written since the first.
func TestSecondTries(t *testing.T) {
	s := openServer(t, redistest.Shared(t).Endpoint(), t.Name()+":")
	w := serve(t, s)
	name := s.hashKey("k")
	version := newVersion(name)
	pending := version + ":new"
	s.rdb.Set(t.Context(), pending, "first", pendingFor)
	keys := []string{name, pending, version, outcomeKey(version)}
	for range 2 {
		if created, err := s.commit(t.Context(), keys, 5, Put{}); err != nil || !created {
			t.Fatal(created, err)
		}
		mustPut(t, s, "k", []byte("second"))
	}
	w.mustHave(t, "k", []byte("second"))

	deleted := []string{name, outcomeKey(newVersion(name))}
	for range 2 {
		if said, err := s.run(t.Context(), deleteScript, deleted, anyVersion, 1000,
			1000); err != nil || said != "deleted" {
			t.Fatal(said, err)
		}
		mustPut(t, s, "k", []byte("third"))
	}
	w.mustHave(t, "k", []byte("third"))

	lost := newVersion(name)
	_, err := s.commit(t.Context(), []string{name, lost + ":new", lost, outcomeKey(lost)}, 5, Put{})
	if !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "stayed") {
		t.Errorf("a value that was lost: %v", err)
	}
}

// The result depends on all attempts, not only on the last one.
func TestTries(t *testing.T) {
	const done = "$7\r\ncreated\r\n"
	cut := redistest.Say("").ThenClose()
	say := redistest.Say
	for name, tt := range map[string]struct {
		script                    []redistest.Answer
		answer                    string // "" means an error
		unsure, unavailable, full bool
	}{
		"at once": {script: []redistest.Answer{say(done)}, answer: "created"},
		"cut": {script: []redistest.Answer{cut, cut, cut, say(done)},
			answer: "created"},
		"cut for ever": {script: []redistest.Answer{cut, cut, cut, cut}, unsure: true},
		"not known": {script: []redistest.Answer{say("-NOSCRIPT No\r\n"), say(done)},
			answer: "created"},
		"cut, and not known": {script: []redistest.Answer{cut, say("-NOSCRIPT No\r\n"),
			say(done)}, answer: "created"},
		"loading": {script: []redistest.Answer{say("-LOADING x\r\n"), say(done)},
			answer: "created"},
		"loading for ever": {script: repeat(say("-LOADING x\r\n"), scriptTries),
			unavailable: true},
		"read only": {script: repeat(say("-READONLY x\r\n"), scriptTries),
			unavailable: true},
		"cut, and loading": {script: append([]redistest.Answer{cut},
			repeat(say("-LOADING x\r\n"), scriptTries)...), unsure: true},
		"cut, and moved": {script: append([]redistest.Answer{cut},
			repeat(say("-MOVED 1 a:1\r\n"), scriptTries)...), unsure: true},
		"moved": {script: repeat(say("-MOVED 1 127.0.0.1:1\r\n"), scriptTries),
			unavailable: true},
		"asked elsewhere": {script: repeat(say("-ASK 1 127.0.0.1:1\r\n"), scriptTries),
			unavailable: true},
		"half of it has moved": {script: repeat(say("-ERR Script "+nonLocal+
			" in a cluster node\r\n"), scriptTries), unavailable: true},
		"full":          {script: []redistest.Answer{say("-OOM x\r\n")}, full: true},
		"cut, and full": {script: []redistest.Answer{cut, say("-OOM x\r\n")}, unsure: true},
		"another type":  {script: []redistest.Answer{say("-WRONGTYPE x\r\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			h := redistest.StartHostile(t, tt.script...)
			s := openServer(t, h.Endpoint(), "")
			answer, err := s.run(t.Context(), commitScript, []string{"k"}, "1")
			if answer != tt.answer || (err == nil) != (tt.answer != "") ||
				errors.Is(err, ErrUnsure) != tt.unsure ||
				errors.Is(err, ErrUnavailable) != tt.unavailable ||
				errors.Is(err, ErrFull) != tt.full {
				t.Errorf("%q, %v, want %q and the error of the case", answer, err, tt.answer)
			}
		})
	}
}

func repeat(a redistest.Answer, n int) (all []redistest.Answer) {
	for range n {
		all = append(all, a)
	}
	return all
}

// While a slot is migrated, and after that, a failed operation must be retried, and has changed
// nothing.
func TestSlotsThatMove(t *testing.T) {
	t.Parallel() // waits most of the time
	cluster := redistest.StartCluster(t, 3, 0)
	s := openRedis(t, redis.NewClusterClient(redisclient.ClusterOptions(cluster)), "")
	long, short := described(1, spoolMemory+1), described(2, 100)
	// try performs every operation, and returns how many must be retried.
	try := func() (later int) {
		w := httptest.NewRecorder()
		v, err := s.Open(t.Context(), "k")
		if err == nil {
			if _, err = v.Serve(w, httptest.NewRequest(http.MethodGet, "/", nil)); err == nil &&
				!isWhole(w.Body.Bytes()) {
				t.Errorf("%d bytes are torn", w.Body.Len())
			}
			_ = v.Close()
		}
		errs := []error{err, s.Delete(t.Context(), "k", nil)}
		for _, value := range [][]byte{short, long} {
			_, _, err := s.Put(t.Context(), "k", bytes.NewReader(value), int64(len(value)),
				Put{Limit: limit})
			errs = append(errs, err)
		}
		for i, err := range errs {
			if errors.Is(err, ErrUnavailable) {
				later++
			} else if err != nil && err != ErrNotFound {
				t.Errorf("%d: %v while slots move", i, err)
			}
		}
		return later
	}
	if try() > 0 {
		t.Fatal("slots moved before they should")
	}
	slot := redistest.Slot(s.hashKey("k"))
	m := cluster.BeginMigration(t, slot)
	try()
	m.Move(t, s.hashKey("k"))
	try()
	m.Finish(t)
	for deadline := time.Now().Add(time.Minute); try() > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not find the slot again")
		}
	}
}
