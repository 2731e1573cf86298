// Package systemd implements the service's side of two systemd protocols: inherited listeners and
// notifications. The protocol for inherited listeners is also used to pass the listeners of a
// process to its successor, even if systemd is not used.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Environment variables of sd_listen_fds(3) and sd_notify(3).
const (
	listenPID    = "LISTEN_PID"
	listenFDs    = "LISTEN_FDS"
	listenNames  = "LISTEN_FDNAMES"
	notifySocket = "NOTIFY_SOCKET"
)

const (
	firstFD = 3 // number of the first inherited descriptor
	// readyName is the name of the pipe on which a new process reports to the process that it
	// replaces. The pipe is the last inherited descriptor.
	readyName = "successor"
)

// Inherited contains the listeners that this process has inherited, from systemd or from the
// process that it replaces.
type Inherited struct {
	// Listeners maps names to listeners. The names come from systemd's units or from the process
	// that this process replaces. The caller owns the listeners.
	Listeners map[string]net.Listener

	ready *os.File // nil if this process does not replace another one
}

// Inherit returns the inherited listeners, if any. If this process replaces another one, Inherit
// also takes over the pipe on which Ready reports to that process. Inherit must be called only
// once.
func Inherit() (*Inherited, error) {
	in := &Inherited{Listeners: make(map[string]net.Listener)}
	// Only systemd sets LISTEN_PID. A process that starts its successor cannot set it, because it
	// does not know the process ID of the successor in advance.
	if pid := os.Getenv(listenPID); pid != "" && pid != strconv.Itoa(os.Getpid()) ||
		os.Getenv(listenFDs) == "" {
		return in, nil
	}
	n, err := strconv.Atoi(os.Getenv(listenFDs))
	names := strings.Split(os.Getenv(listenNames), ":")
	if err != nil || n != len(names) {
		return in, fmt.Errorf("%s is %q and %s is %q, want as many names", listenFDs,
			os.Getenv(listenFDs), listenNames, names)
	}
	for i, name := range names {
		f := os.NewFile(uintptr(firstFD+i), name)
		if name == readyName && i == n-1 {
			in.ready = f
			break
		}
		// FileListener duplicates the descriptor. Child processes do not inherit the duplicate.
		ln, err := net.FileListener(f)
		_ = f.Close()
		if err == nil && in.Listeners[name] != nil {
			err = errors.Join(errors.New("there are two of them"), ln.Close())
		}
		if err != nil {
			return in, fmt.Errorf("the listener %s: %w", name, err)
		}
		in.Listeners[name] = ln
	}
	return in, nil
}

// Succeeds reports whether this process is the successor of another process.
func (in *Inherited) Succeeds() bool { return in.ready != nil }

// Ready reports that this process is serving. A successor reports to the process that it replaces.
// Any other process reports to systemd.
func (in *Inherited) Ready() error {
	if in.ready == nil {
		return Notify("READY=1")
	}
	_, err := io.WriteString(in.ready, "ready")
	return errors.Join(err, in.ready.Close())
}

// Notify sends the text state to systemd, in the format of sd_notify(3). It does nothing if systemd
// has not requested notifications.
func Notify(state string) error {
	name := os.Getenv(notifySocket)
	if name == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", name)
	if err != nil {
		return err
	}
	_, err = io.WriteString(conn, state)
	return errors.Join(err, conn.Close())
}

// Succeed starts cmd as the successor of this process, passes the listeners to the successor, and
// waits until the successor is ready. If cmd exits early, or if ctx ends first, Succeed kills cmd
// and returns an error. This process keeps its listeners in any case. When Succeed has returned
// nil, this process may exit.
func Succeed(ctx context.Context, cmd *exec.Cmd, listeners map[string]net.Listener) error {
	ready, itsReady, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	defer itsReady.Close()
	names := slices.Sorted(maps.Keys(listeners))
	for _, name := range names {
		f, err := file(listeners[name])
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	cmd.ExtraFiles, names = append(cmd.ExtraFiles, itsReady), append(names, readyName)
	for _, v := range cmd.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != listenPID && name != listenFDs &&
			name != listenNames {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, listenFDs+"="+strconv.Itoa(len(names)), listenNames+
		"="+strings.Join(names, ":"))
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = itsReady.Close()
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	if _, err := io.ReadFull(ready, make([]byte, len("ready"))); err == nil {
		return nil // no Wait, because this process exits first
	}
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err != nil {
		return errors.Join(fmt.Errorf("it was not ready: %w", err), context.Cause(ctx))
	}
	return errors.New("it ended, with status 0, before it was ready")
}
