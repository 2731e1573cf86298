package httpflv

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
	"github.com/millrace-io/millrace/internal/load"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// echo keeps the published stream, answers with its length, and sends it to viewers.
func echo(t *testing.T, spoil func([]byte) []byte) Server {
	var mu sync.Mutex
	var kept []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/live/x":
			http.NotFound(w, r)
		case r.Method == http.MethodPost:
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			kept = body
			mu.Unlock()
			io.WriteString(w, "thanks")
		default:
			mu.Lock()
			defer mu.Unlock()
			w.Write(spoil(kept))
		}
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(client.CloseIdleConnections)
	return Server{URL: srv.URL}
}

func TestPublishAndWatch(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func([]byte) []byte
		err   error
	}{
		"whole":            {bytes.Clone, io.EOF},
		"another header":   {func(b []byte) []byte { b[0] = 'f'; return b }, ErrFormat},
		"another tag size": {func(b []byte) []byte { b[len(b)-1]++; return b }, ErrFormat},
		"cut inside a tag": {func(b []byte) []byte { return b[:len(b)-1] }, io.ErrUnexpectedEOF},
		"cut inside a head": {func(b []byte) []byte { return append(b, 9, 0) },
			io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			s := echo(t, test.spoil)
			p, err := s.Publish(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			synth := load.NewSynth(0, 1_000_000, time.Second)
			var sent []load.Tag
			for range 30 {
				tag := synth.Next(time.Now())
				tag.Payload = bytes.Clone(tag.Payload)
				tag.Timestamp |= 5 << 24 // FLV stores the highest byte separately
				sent = append(sent, tag)
				if err := p.WriteTag(tag); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Close(); err != nil || string(p.(*Publication).Answer) != "thanks" {
				t.Fatalf("the answer is %q, %v, want thanks", p.(*Publication).Answer, err)
			}
			v, err := s.Watch(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			n := 0
			for a := (load.Arrival{}); ; n++ {
				if err = v.Next(&a); err != nil {
					break
				}
				if n < len(sent) && (a.Kind != sent[n].Kind || a.Timestamp != sent[n].Timestamp ||
					!bytes.Equal(a.Head, sent[n].Payload)) {
					t.Errorf("tag %d differs from the one that was sent", n)
				}
			}
			if !errors.Is(err, test.err) || test.err == io.EOF && n != len(sent) {
				t.Errorf("%v after %d tags, want %v", err, n, test.err)
			}
		})
	}
}

func TestRefusalsAndBreakingOff(t *testing.T) {
	s := echo(t, bytes.Clone)
	refused := new(load.RefusedError)
	if _, err := s.Publish(t.Context(), "other"); !errors.As(err, &refused) {
		t.Errorf("publishing: %v, want a refusal", err)
	}
	if _, err := s.Watch(t.Context(), "other"); !errors.As(err, &refused) {
		t.Errorf("watching: %v, want a refusal", err)
	}
	p, err := s.Publish(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WriteTag(load.Tag{Kind: load.Video, Payload: make([]byte, 100)}); err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	if err := p.(*Publication).BreakOff(why); !errors.Is(err, why) {
		t.Errorf("breaking off: %v", err)
	}
}
