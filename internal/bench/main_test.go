package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/leaktest"
)

// The test binary is the servers, too.
func TestMain(m *testing.M) {
	if child, err := Child(); child {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// A program with the race detector waits a second before it ends, and the servers are many.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	leaktest.Main(m)
}

// tiny is an effort that shows that everything works, and nothing else.
func tiny() Effort {
	return Effort{
		Rounds: 2, Turn: 100 * time.Microsecond,
		FilesTurn: time.Millisecond, Clients: 2,
		RelayTurn: 150 * time.Millisecond, RelayRamp: 100 * time.Millisecond, Viewers: 3,
		Record: 150 * time.Millisecond, Interval: 20 * time.Millisecond,
	}
}
