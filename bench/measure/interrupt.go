package measure

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilStopped returns a context that ends when the program gets SIGINT, SIGTERM or SIGHUP, so that
// the program can stop its servers and remove its files. If SIGHUP is ignored, as under nohup, it
// stays ignored. A second signal has no effect, because timeout(1) sends two: one to the program
// and one to its process group.
func UntilStopped() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}
