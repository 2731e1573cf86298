// Command millrace is a live streaming and file server:
//
//   - `millrace serve` relays streams from publishers to viewers, serves files and stores blobs.
//   - `millrace load` puts load on a server and measures what the viewers receive.
//   - `millrace doctor` reports the limits of the machine that are too low for serving.
//   - `millrace token` signs and inspects the tokens (JWT) of publishers and viewers.
//
// This package only connects other packages: server/internal/server has the server and its flags,
// internal/load the load, and server/internal/doctor the checks of the machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup makes processes ignore SIGHUP
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	// The first signal requests an orderly shutdown. A second signal ends the process at once, even
	// if SIGINT was ignored at the start, as for background processes of a shell.
	context.AfterFunc(ctx, func() {
		second := make(chan os.Signal, 1)
		signal.Notify(second, os.Interrupt, syscall.SIGTERM)
		stop()
		if s, ok := (<-second).(syscall.Signal); ok {
			os.Exit(128 + int(s))
		}
	})
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "millrace:", err)
		if strings.HasPrefix(err.Error(), unknownCommand) {
			fmt.Fprintln(os.Stderr, "millrace --help lists them")
		}
		os.Exit(exitStatus(err))
	}
}
