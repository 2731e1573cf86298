package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/server/internal/bytesize"
	"github.com/millrace-io/millrace/server/internal/conn/systemd"
	"github.com/millrace-io/millrace/server/internal/doctor"
	"github.com/millrace-io/millrace/server/internal/server"
	"github.com/spf13/pflag"
)

// successorTime is the time limit for a restart. First, this process waits for access to the
// directory of recordings. Then it starts a new process, and waits until the new process serves.
const successorTime = time.Minute

// An instance is a running server. It handles signals.
type instance struct {
	*server.Server
	log *slog.Logger
	// cfg has the options that are in use. An option that cannot be reloaded keeps its first value.
	cfg       *serveConfig
	listeners map[string]net.Listener
	end       context.CancelCauseFunc

	endsOnHangup bool // whether SIGHUP ends the server if the terminal was closed
}

func serve(ctx context.Context, cfg *serveConfig) error {
	inherited, err := systemd.Inherit()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := &instance{log: cfg.Log, cfg: cfg, end: end,
		endsOnHangup: !signal.Ignored(syscall.SIGHUP) && hasTerminal()}
	signal.Ignore(syscall.SIGPIPE) // the server must continue if the reader of its log ends
	signals := make(chan os.Signal, 1)
	signal.Reset(syscall.SIGHUP) // SIGHUP ends all other commands, see main
	signal.Notify(signals, append(replaceSignals, syscall.SIGHUP)...)
	defer signal.Stop(signals)

	cfg.Ready = func(l server.Listeners) {
		r.listeners = l.Named()
		r.notify(inherited.Ready())
		go r.obey(ctx, signals)
	}
	of := cfg.Config
	of.Successor = inherited.Succeeds()
	most := doctor.MemoryCap()
	of.MemoryBytes = memoryBudget(of.MemoryBytes, most)
	if most > 0 && of.MemoryBytes > most {
		cfg.Log.Warn(
			"--memory is more than this process may have: it may be killed before memory is freed",
			"memory", bytesize.Format(of.MemoryBytes), "limit", bytesize.Format(most))
	}
	if of.MemoryBytes > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(of.MemoryBytes)
	}
	if r.Server, err = server.New(of); err != nil {
		return err
	}
	return r.Run(ctx, inherited.Listeners)
}

// memoryBudget returns the memory budget of a process in bytes, or 0 if there is no budget.
//
// The argument configured is the budget that the user has set, or 0. The argument available is the
// memory that the process may use, or 0 if it is unknown. If configured is 0, the budget is half of
// the available memory, but at least server.MinMemory. If both are 0, there is no budget.
func memoryBudget(configured, available int64) int64 {
	if configured > 0 || available == 0 {
		return configured
	}
	return max(available/2, server.MinMemory)
}

func (r *instance) obey(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			if context.Cause(ctx) != server.ErrReplaced {
				r.notify(systemd.Notify("STOPPING=1"))
			}
			return
		case sig := <-signals:
			switch {
			case sig != syscall.SIGHUP:
				r.replace(ctx)
			case r.endsOnHangup && !hasTerminal():
				r.end(nil)
			default:
				r.reload()
			}
		}
	}
}

// reload reads the configuration again, and applies it if it is valid.
func (r *instance) reload() {
	r.notify(systemd.Notify("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(monotonic(), 10)))
	defer func() { r.notify(systemd.Notify("READY=1")) }()
	next, err := r.cfg.reread()
	if err != nil {
		r.log.Error("the configuration cannot be used: the one before is in force", "reason", err)
		return
	}
	r.Reload(&next.Config)
	changed, fixed := []string{}, []string{}
	next.flags.VisitAll(func(f *pflag.Flag) {
		now := r.cfg.flags.Lookup(f.Name)
		switch {
		case now.Value.String() == f.Value.String():
		case slices.Contains(server.Reloadable, f.Name):
			changed = append(changed, f.Name)
			_ = now.Value.Set(f.Value.String()) // cannot fail, because f already has the value
		default:
			fixed = append(fixed, f.Name)
		}
	})
	r.log.Info("the configuration was read again", "changed", changed)
	if len(fixed) > 0 {
		r.log.Warn("these have changed as well, and need a restart", "flags", fixed)
	}
}

// replace starts a new process with the same command, and ends this process when the new one
// serves. It first waits for the directory of recordings. Otherwise the new process could get it
// first.
func (r *instance) replace(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, successorTime, errors.New("it takes too long"))
	defer cancel()
	// Start the program by its path, because the file may contain a new version.
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := r.AwaitRecords(ctx)
	if err == nil {
		err = systemd.Succeed(ctx, cmd, r.listeners)
	}
	if err != nil {
		r.log.Error("no other process can replace this one", "reason", err)
		return
	}
	r.notify(systemd.Notify("MAINPID=" + strconv.Itoa(cmd.Process.Pid)))
	r.log.Info("another process replaces this one", "pid", cmd.Process.Pid)
	r.end(server.ErrReplaced)
}

func (r *instance) notify(err error) {
	if err != nil {
		r.log.Warn("systemd cannot be notified", "reason", err)
	}
}

// hasTerminal reports whether the process has a controlling terminal that is open.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}
