// Command millrace is a live streaming and file server:
//
//   - `millrace serve` relays streams from publishers to viewers, serves files and stores blobs.
//   - `millrace load` generates load for a server and measures what the viewers receive.
//   - `millrace doctor` reports which limits of the machine are too low for a server.
//   - `millrace token` signs and shows the tokens (JWT) of publishers and viewers.
//
// Package server/internal/server has the server and its flags, internal/load generates load, and
// server/internal/doctor checks the machine.
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
	if !signal.Ignored(syscall.SIGHUP) { // nohup makes a process ignore SIGHUP
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	// The first signal starts an orderly shutdown. The second signal ends the process at once, even
	// if SIGINT was ignored at the start, as in a background process of a shell.
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
