package redistest

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// roundTrip sets and gets a key.
func roundTrip(t *testing.T, c redis.UniversalClient, key string) {
	t.Helper()
	if err := c.Set(t.Context(), key, "value of "+key, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(t.Context(), key).Result(); err != nil || got != "value of "+key {
		t.Fatalf("GET %s: %q, %v", key, got, err)
	}
}

// timedOut reports whether an operation has run into its context's deadline.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func TestServer(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []Option
	}{
		{"plain", nil},
		{"password", []Option{Password("secret")}},
		{"Unix socket", []Option{UnixSocket(), Password("secret")}},
		{"TLS", []Option{TLS(), Password("secret")}},
		{"own lines", []Option{Config("maxmemory 100mb", "databases 3")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, tt.opts...)
			roundTrip(t, s.Client(t), "k")
			if s.Do(t, "GET", "k") != "value of k" {
				t.Error("Do does not see what a client has set")
			}
			if !strings.Contains(s.output(0), "eady to accept connections") {
				t.Errorf("the log: %s", s.output(0))
			}
		})
	}
}

func TestConfigWins(t *testing.T) {
	s := Start(t, Config("maxmemory 100mb"))
	if got := s.Client(t).ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "104857600" {
		t.Errorf("maxmemory %s", got)
	}
}

// What a server is to refuse it refuses.
func TestServerRefuses(t *testing.T) {
	s := Start(t, Password("secret"), Config("user alice on >wonder ~blob:* +get +hello +client"))
	for _, tt := range []struct {
		name           string
		user, password string
		says           string
	}{
		{"wrong password", "", "x", "WRONGPASS"},
		{"no password", "", "", "NOAUTH"},
		{"a user's rules", "alice", "wonder", "NOPERM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := s.Options()
			o.Username, o.Password = tt.user, tt.password
			if err := setOnce(t, o); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// setOnce sets a key by a client of its own, without a second try.
func setOnce(t *testing.T, o *redis.Options) error {
	o.MaxRetries = -1
	return closing(t, redis.NewClient(o)).Set(t.Context(), "k", "v", 0).Err()
}

func TestKillRestartPause(t *testing.T) {
	s := Start(t)
	o := s.Options()
	o.MaxRetries, o.ReadTimeout, o.ContextTimeoutEnabled = -1, time.Minute, true
	c := closing(t, redis.NewClient(o))
	roundTrip(t, c, "k")
	first := s.pid()
	s.Kill()
	s.Kill() // does nothing
	if err := probe(first); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the killed process: %v", err)
	}
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	if s.pid() == first {
		t.Error("the same process")
	}
	if err := c.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET after a restart: %v", err)
	}
	s.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx).Err(); !timedOut(err) {
		t.Errorf("a paused server: %v", err)
	}
	s.Resume(t)
	roundTrip(t, c, "k")
	s.Pause(t)
	s.stop() // a paused one, too
	if _, err := net.Dial(s.network(), s.Addr()); err == nil {
		t.Error("a stopped server listens")
	}
}

// A server that is not going to run is not waited for, and the error says why: its configuration is wrong, or another
// process has its port.
func TestServerThatGivesUp(t *testing.T) {
	running := Start(t)
	for says, s := range map[string]*Server{
		"no-such-directive": {conf: config{lines: []string{"no-such-directive yes"}}, port: freePort(t)},
		"in use":            {port: running.port},
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

func TestShared(t *testing.T) {
	s := Shared(t)
	if s != Shared(t) {
		t.Error("two of them")
	}
	roundTrip(t, s.Client(t), t.Name())
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("its directory: %v", err)
	}
}
