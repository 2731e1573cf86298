package measure

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

func TestUntilStopped(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) {
			continue // the tests were started with nohup
		}
		ctx, stop := UntilStopped()
		defer stop()
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%v does not end it", s)
		}
	}
}
