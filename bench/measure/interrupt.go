package measure

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilStopped returns a context that ends when the program gets an interrupt from the keyboard,
// SIGTERM, as kill and timeout(1) send, or SIGHUP, when its terminal is closed, unless nohup is in
// effect. Programs then stop their servers and remove their files. A second signal has no effect:
// timeout(1) sends two, one to the program and one to its process group.
func UntilStopped() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}
