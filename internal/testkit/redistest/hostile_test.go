package redistest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestHostile(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		h := StartHostile(t, Say("$2\r\nhi\r\n"), Say("-ERR no\r\n"), Say("$100\r\nhalf").ThenClose(), Say("").ThenClose())
		o := h.Options()
		o.Protocol, o.MaxRetries, o.Username, o.Password, o.DB, o.ClientName = protocol, -1, "u", "p", 2, "n"
		o.PoolSize = 1
		c := closing(t, redis.NewClient(o))
		for i, says := range []string{"", "ERR no", "EOF", "", "EOF"} {
			got, err := c.Get(t.Context(), "k").Result()
			if i == 0 {
				if got != "hi" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				continue
			}
			// go-redis may have read the reset when it looked for a push, and then finds EOF.
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%d: %q, %v; want %s", i, got, err, says)
			}
		}
		if got := h.Requests(); !slices.Equal(got, slices.Repeat([]string{"get k"}, 5)) {
			t.Errorf("asked: %q", got)
		}
		if h.Accepted() != 3 {
			t.Errorf("%d connections, want 3", h.Accepted())
		}
	}
}

func TestHostileStalls(t *testing.T) {
	h := StartHostile(t)
	h.Always(Say(""))
	o := h.Options()
	o.MaxRetries, o.ContextTimeoutEnabled = -1, true
	c := closing(t, redis.NewClient(o))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := c.Set(ctx, "k", strings.Repeat("x", 1<<20), 0).Err(); !timedOut(err) {
		t.Errorf("%v", err)
	}
}
