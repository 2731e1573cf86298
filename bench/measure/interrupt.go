package measure

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilStopped returns a context that ends when the program is asked to stop: from the keyboard, by
// kill or timeout(1), or because its terminal is gone, unless nohup has it outlive the terminal.
// Programs then stop their servers and remove their files. A second signal does nothing: timeout(1)
// sends two, one to the program and one to its process group.
func UntilStopped() (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}
