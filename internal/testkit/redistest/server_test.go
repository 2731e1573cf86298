package redistest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// dial returns a connection that is closed when the test ends.
func dial(t *testing.T, e Endpoint) *conn {
	t.Helper()
	c, err := e.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// timedOut reports whether an operation has failed because of its context's deadline.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func TestKillRestartPause(t *testing.T) {
	s := Start(t)
	s.Do(t, "SET", "k", "value")
	c := dial(t, s.Endpoint())
	s.Kill()
	s.Kill() // has no effect
	if _, err := c.do(t.Context(), "PING"); err == nil || timedOut(err) {
		t.Errorf("a killed server: %v", err)
	}
	s.Restart(t)
	if got := s.Do(t, "GET", "k"); got != nil {
		t.Errorf("after a restart: %v", got)
	}
	s.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.do(ctx, "PING"); !timedOut(err) {
		t.Errorf("a paused server: %v", err)
	}
	s.Resume(t)
	s.Do(t, "PING")
	s.Pause(t)
	s.stop() // even if it is paused
	if _, err := s.Endpoint().dial(t.Context()); err == nil {
		t.Error("a stopped server listens")
	}
}

// If a server cannot start, its caller does not wait, and the error says why: an invalid
// configuration, or another process uses the port.
func TestServerThatGivesUp(t *testing.T) {
	running := Start(t)
	for says, s := range map[string]*Server{
		"no-such-directive": {conf: config{lines: []string{"no-such-directive yes"}},
			port: nettest.FreePort(t)},
		"in use": {port: running.port},
	} {
		s.path, s.dir = running.path, nettest.PlainDir(t)
		if err := errors.Join(s.open(s.dir), s.configure()); err != nil {
			t.Fatal(err)
		}
		if err := s.launch(); !errors.Is(err, errGaveUp) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
		s.out.Close()
	}
}
