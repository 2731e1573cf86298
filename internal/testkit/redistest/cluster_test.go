package redistest

import (
	"fmt"
	"testing"
)

// get returns the value of a key, or the server's error.
func get(t *testing.T, s *Server, key string) string {
	t.Helper()
	v, err := s.do(t.Context(), "GET", key)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(v)
}

func TestMigration(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 2, 0)
	const slot = 100
	keys := []string{KeyIn(slot, "a"), KeyIn(slot, "b"), KeyIn(slot, "c")}
	for _, key := range keys {
		c.Owner(t, key).Do(t, "SET", key, "value")
	}
	m := c.BeginMigration(t, slot)
	ask := fmt.Sprintf("ASK %d %s", slot, m.to.Addr())
	movedTo := fmt.Sprintf("MOVED %d %s", slot, m.to.Addr())
	movedFrom := fmt.Sprintf("MOVED %d %s", slot, m.from.Addr())
	check := func(when string, from, to [3]string) {
		t.Helper()
		for i, key := range keys {
			if a, b := get(t, m.from, key), get(t, m.to, key); a != from[i] || b != to[i] {
				t.Errorf("%s: %s: %q and %q, want %q and %q", when, key, a, b, from[i], to[i])
			}
		}
	}
	check("begun", [3]string{"value", "value", "value"}, [3]string{movedFrom, movedFrom, movedFrom})
	m.Move(t, keys[1])
	check("one moved", [3]string{"value", ask, "value"}, [3]string{movedFrom, movedFrom, movedFrom})
	to := dial(t, m.to.Endpoint())
	_, _ = to.do(t.Context(), "ASKING")
	if got, err := to.do(t.Context(), "GET", keys[1]); got != "value" {
		t.Errorf("after ASKING: %v, %v", got, err)
	}
	m.Finish(t)
	check("finished", [3]string{movedTo, movedTo, movedTo}, [3]string{"value", "value", "value"})
}
