package millrace_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// until polls until done reports true. Only a failing test waits for long.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
