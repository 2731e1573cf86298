package cluster

import (
	"testing"
	"time"
)

// wait is for what happens soon on an idle machine.
const wait = 30 * time.Second

// eventually waits until f reports true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}
