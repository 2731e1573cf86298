//go:build !invariants

package millrace_test

import (
	"testing"
	"unsafe"

	"github.com/millrace-io/millrace"
)

// What documentation says about sizes. (With -tags invariants a Ref has a number more, to be followed by.)
func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(millrace.Ref{}); n > 24 {
		t.Errorf("a Ref has %d bytes, more than 24", n)
	}
	if n := unsafe.Sizeof(millrace.Chain{}); n > 160 {
		t.Errorf("a Chain has %d bytes: too many to be a value", n)
	}
}
