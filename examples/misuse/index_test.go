package misuse

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/millracetest"
)

// Main fails if the tests leave a block of the default Pool, or a goroutine.
func TestMain(m *testing.M) { millracetest.Main(m) }

// The Pool overwrites released blocks, and fails the test if a block is not released.
func TestIndex(t *testing.T) {
	pool := millracetest.NewPool(t)
	index, err := Index(strings.NewReader("host: example.com\nport: 80\n"), pool)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"host": "example.com", "port": "80"} {
		if got := string(index[name]); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
