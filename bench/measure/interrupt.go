package measure

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilStopped returns a context that ends when the program receives SIGINT, SIGTERM or SIGHUP. The
// program can then stop its servers and remove its files. If SIGHUP is ignored, as under nohup, it
// stays ignored. A second signal has no effect, because timeout(1) sends each signal twice.
func UntilStopped() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}
