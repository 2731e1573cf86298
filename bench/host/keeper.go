//go:build linux

package host

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Keeper changes parameters of the kernel, and puts them back.
//
// It has a second process for that, which is this program again. It reads the parameters before anything is changed, and
// writes them back when its standard input ends: because Close is called, or because this process is gone, be it by a panic
// on any goroutine, by a broken pipe, or by SIGKILL. It is in a session of its own, where no Ctrl-C and no timeout(1)
// reaches it.
type Keeper struct {
	dir   directory
	names []string
	cmd   *exec.Cmd
	input io.Closer
}

// keeperVar tells the program that it is the second process, and of what.
const keeperVar = "MILLRACE_BENCH_HOST"

// A keeping is what is in keeperVar.
type keeping struct {
	Dir   string   `json:"dir"`
	Names []string `json:"names"`
}

// ready is what the second process says when it knows the parameters.
const ready = "ready"

// Keep returns a Keeper of these parameters below dir, which is [ProcSys] but in tests. Close puts them back.
func Keep(dir string, names ...string) (*Keeper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	order, err := json.Marshal(keeping{dir, names})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), keeperVar+"="+string(order))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	k := &Keeper{dir: directory(dir), names: names, cmd: cmd, input: input}
	if line, _ := bufio.NewReader(said).ReadString('\n'); strings.TrimSpace(line) != ready {
		return nil, errors.Join(fmt.Errorf("host: the parameters stay as they are: %s", strings.TrimSpace(line)), k.Close())
	}
	return k, nil
}

// Set changes one of the parameters that are kept.
func (k *Keeper) Set(name, value string) error {
	if !slices.Contains(k.names, name) {
		return fmt.Errorf("host: %s is not kept", name)
	}
	if err := k.dir.write(name, value); err != nil {
		return err
	}
	if now, err := k.dir.read(name); err != nil || now != value {
		return errors.Join(fmt.Errorf("host: %s is %q after %q was written", name, now, value), err)
	}
	return nil
}

// Close returns when the parameters are what they were. The second process says on standard error that they are.
func (k *Keeper) Close() error {
	k.input.Close()
	return k.cmd.Wait()
}

// Main must be called before anything else by every program that measures. In a Keeper's second process it does not return.
func Main() {
	var o keeping
	if json.Unmarshal([]byte(os.Getenv(keeperVar)), &o) != nil {
		return
	}
	// It ends soon after the first process, by itself. Until then nothing ends it, nor keeps it from its work.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	if err := o.run(os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (o keeping) run(in io.Reader, out, log io.Writer) error {
	d := directory(o.Dir)
	all := make([]former, len(o.Names))
	for i, name := range o.Names {
		held, err := lock(d.path(name))
		if err == nil {
			defer held.Close()
			all[i].name = name
			all[i].value, err = d.read(name)
		}
		if err != nil {
			fmt.Fprintln(out, err)
			return nil
		}
	}
	fmt.Fprintln(out, ready)
	io.Copy(io.Discard, in)
	if err := putBack(d, all); err != nil {
		return err
	}
	fmt.Fprintf(log, "put back: %s\n", list(all))
	return nil
}

// lock keeps a second run from taking the values that a first one has set for those of the machine.
func lock(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return f, nil
	case unix.EWOULDBLOCK:
		f.Close()
		return nil, fmt.Errorf("another run has changed %s: wait until it has ended", path)
	default:
		f.Close()
		return nil, os.NewSyscallError("flock", err)
	}
}

// list is the parameters as sysctl -w takes them, but for those that are 0 because the other of the two counts.
func list(all []former) string {
	var s []string
	for _, f := range all {
		if f.value != "0" {
			s = append(s, f.name+"="+f.value)
		}
	}
	return strings.Join(s, " ")
}
