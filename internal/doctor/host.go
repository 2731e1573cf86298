package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"
)

// mostRead bounds what is read of a file. The longest is the table of mounts: some hundred bytes for each container that
// runs on the machine.
const mostRead = 1 << 20

// mostNumber bounds the numbers that are believed. It is more memory, in bytes, than a machine has, and leaves room to
// multiply by a page's size.
const mostNumber = 1 << 50

// A Host is what can be seen of a machine, and of the place in it that this process has.
type Host struct {
	Files fs.FS  // the root directory; only /proc and /sys are read
	OS    string // as runtime.GOOS

	CPUs     int // as runtime.NumCPU
	Procs    int // as runtime.GOMAXPROCS(0)
	PageSize int64

	MemoryLimit int64 // GOMEMLIMIT; math.MaxInt64 if there is none

	OpenFiles Limit

	// Values has those of sysctl(3) by their names on this system, where they are not files.
	Values map[string]string

	Env func(name string) string

	// Directory returns the absolute path of a directory, without symbolic links, or says why this user cannot read in
	// it, or write: fs.ErrNotExist, errNotDirectory or fs.ErrPermission.
	Directory func(name string, write bool) (path string, err error)
}

var errNotDirectory = errors.New("not a directory")

// A Limit is one of setrlimit(2).
type Limit struct {
	Soft, Hard uint64
	Known      bool
}

// A Plan is what is to be served.
type Plan struct {
	Viewers int // viewers and downloads at a time

	Root  string // as --root; empty: no files are served
	Blobs string // as --blobs; empty: none are kept in a directory

	// The rest are the server's limits, with the same names.
	MaxViewers  int
	Streams     int
	KeepBytes   int64
	Unsent      int64
	SendBuffer  int64 // as --files-send-buffer
	FilesOpen   int
	BlobsOpen   int
	ColdReaders int
	Uploads     int
}

// files says whether files are sent from a disk.
func (p Plan) files() bool { return p.Root != "" || p.Blobs != "" }

// read returns what is in a file, without the white space around it.
func (h *Host) read(name string) (string, error) {
	if h.OS != "linux" {
		return "", fmt.Errorf("%s has no /%s", h.OS, name)
	}
	f, err := h.Files.Open(name)
	if err != nil {
		return "", unreadable(name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostRead))
	if err != nil {
		return "", unreadable(name, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// unreadable says why a file is not read, in the words of somebody who runs a server.
func unreadable(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &missingError{name}
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not read /%s", name)
	}
	return fmt.Errorf("/%s cannot be read", name)
}

// A missingError is that of a file that is not there.
type missingError struct{ name string }

func (e *missingError) Error() string {
	return fmt.Sprintf("there is no /%s: the kernel is without it, or a container hides it", e.name)
}
func (*missingError) Unwrap() error { return fs.ErrNotExist }

// sysctl returns the value called name, as sysctl(8) calls it.
func (h *Host) sysctl(name string) (string, error) {
	if v, ok := h.Values[name]; ok {
		return v, nil
	}
	return h.read("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
}

// number returns the value called name, which is one number.
func (h *Host) number(name string) (int64, error) {
	n, err := h.numbers(name, 1)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// numbers returns the value called name, which has n numbers.
func (h *Host) numbers(name string, count int) ([]int64, error) {
	s, err := h.sysctl(name)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(s)
	if len(fields) != count {
		return nil, fmt.Errorf("%s is not what it is on known kernels", name)
	}
	all := make([]int64, count)
	for i, f := range fields {
		if all[i], err = parseNumber(f); err != nil {
			return nil, fmt.Errorf("%s is not what it is on known kernels", name)
		}
	}
	return all, nil
}

// mostWord is longer than any name that the kernel has for a thing to choose.
const mostWord = 64

// word checks that s, which name was read from, is a name that the kernel has for a thing.
func word(name, s string) error {
	odd := func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (r < '0' || '9' < r) && !strings.ContainsRune("_-.", r)
	}
	if s == "" || len(s) > mostWord || strings.ContainsFunc(s, odd) {
		return fmt.Errorf("%s is not what it is on known kernels", name)
	}
	return nil
}

// parseNumber reads a number from 0 on. A number above mostNumber becomes mostNumber: the kernel's way to say "no
// limit" differs from file to file, and is always more.
func parseNumber(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, err
	}
	return int64(min(n, mostNumber)), nil
}

// kernel returns the version of a Linux kernel.
func (h *Host) kernel() (release string, major, minor int, err error) {
	if release, err = h.sysctl("kernel.osrelease"); err != nil {
		return "", 0, 0, err
	}
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 {
		return release, 0, 0, errors.New("kernel.osrelease is not a version")
	}
	return release, major, minor, nil
}

// table returns the numbers of a file that has one name and one number per line, such as /proc/meminfo and cpu.stat.
func (h *Host) table(name string) (map[string]int64, error) {
	s, err := h.read(name)
	if err != nil {
		return nil, err
	}
	rows := make(map[string]int64)
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if n, err := parseNumber(f[1]); err == nil {
			rows[strings.TrimSuffix(f[0], ":")] = n
		}
	}
	return rows, nil
}

// memory returns the machine's memory, and what of it could be had without swapping.
func (h *Host) memory() (total, available int64, err error) {
	if v, ok := h.Values["hw.memsize"]; ok {
		total, err = parseNumber(v)
		return total, total, err
	}
	rows, err := h.table("proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	total, available = rows["MemTotal"]<<10, rows["MemAvailable"]<<10
	if total <= 0 {
		return 0, 0, errors.New("/proc/meminfo does not say how much memory there is")
	}
	return min(total, mostNumber), min(available, total, mostNumber), nil
}

// memoryCap returns how much memory this process may have: the machine's, or its control group's.
func (h *Host) memoryCap() (most int64, group limit, err error) {
	most, _, err = h.memory()
	group, _ = h.groupMemory()
	if group.set && (err != nil || group.tightest < most) {
		return group.tightest, group, nil
	}
	return most, limit{}, err
}

// unlimited says whether GOMEMLIMIT is not set.
func (h *Host) unlimited() bool { return h.MemoryLimit == math.MaxInt64 }
