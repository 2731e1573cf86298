// Package systemd implements a service's side of systemd: inherited listeners, and notifications. A
// process passes its listeners to its successor in the same way, with or without systemd.
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

// The environment variables of sd_listen_fds(3) and sd_notify(3).
const (
	listenPID    = "LISTEN_PID"
	listenFDs    = "LISTEN_FDS"
	listenNames  = "LISTEN_FDNAMES"
	notifySocket = "NOTIFY_SOCKET"
)

const (
	firstFD = 3 // the first inherited descriptor
	// The last descriptor: a pipe on which a successor reports that it is ready.
	readyName = "successor"
)

// Inherited has the listeners and the pipe that this process inherited.
type Inherited struct {
	// By the names that the units of systemd give them; the caller owns them.
	Listeners map[string]net.Listener

	ready *os.File // nil if this process is not the successor of another one
}

// Inherit returns the inherited listeners, even if there are none. It is called once.
func Inherit() (*Inherited, error) {
	in := &Inherited{Listeners: make(map[string]net.Listener)}
	// The predecessor does not know the number of the process that it starts.
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
		// Another descriptor, which the processes of this one do not get.
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

// Succeeds reports whether this process replaces another one.
func (in *Inherited) Succeeds() bool { return in.ready != nil }

// Ready says that this process serves.
func (in *Inherited) Ready() error {
	if in.ready == nil {
		return Notify("READY=1")
	}
	_, err := io.WriteString(in.ready, "ready")
	return errors.Join(err, in.ready.Close())
}

// Notify tells systemd the state of this process, as sd_notify(3) describes it. It does nothing if
// systemd does not want to know.
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

// Succeed starts cmd, the successor of this process, which inherits the listeners, and waits until
// it is ready. If cmd ends before that, or ctx does, cmd is killed, and this process keeps its
// listeners. Afterwards the successor no longer depends on this process.
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
		return nil // it is not waited for: this process ends before it
	}
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); err != nil {
		return errors.Join(fmt.Errorf("it was not ready: %w", err), context.Cause(ctx))
	}
	return errors.New("it ended, with status 0, before it was ready")
}
