// Package benchtest has helpers for the tests of all programs.
package benchtest

import (
	"errors"
	"testing"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/need"
)

// Main runs the tests of a package. In a child process that a test started with measure.Self, it
// runs the child's function instead.
func Main(m *testing.M) {
	measure.RunChild()
	leaktest.Main(m)
}

// Need skips the test if err wraps measure.ErrMissing. On CI, where everything must be installed,
// the test fails instead. Any other error fails the test.
func Need(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, measure.ErrMissing) {
		need.Missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}
