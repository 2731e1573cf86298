// Command millrace is a live streaming and file server:
//
//   - `millrace serve` relays streams from publishers to viewers, serves files and keeps blobs.
//   - `millrace load` puts a load on a server and measures what arrives.
//   - `millrace doctor` reports which limits of the machine are too low for serving.
//   - `millrace token` signs and inspects tokens (JWT) of publishers and viewers.
//
// This package is wiring: the server and its flags are in server/internal/server, the load in
// internal/load, the checks of the machine in server/internal/doctor.
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
	if !signal.Ignored(syscall.SIGHUP) { // ignored under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	// The first signal asks for an orderly end. A second one ends the process at once, also if the
	// shell that started it in the background has it ignore SIGINT.
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
