//go:build linux

package host

import (
	"fmt"
	"strconv"
	"strings"
)

// A Setting is how much may be written and not yet be on the disk, in percent of memory.
type Setting struct {
	Ratio      int // from here on writers go no faster than the disk
	Background int // from here on the kernel writes to the disk
}

// ParseSetting reads one as 30/10.
func ParseSetting(s string) (Setting, error) {
	ratio, background, ok := strings.Cut(s, "/")
	if !ok {
		return Setting{}, fmt.Errorf("setting %q: want RATIO/BACKGROUND in percent, such as 30/10", s)
	}
	var p Setting
	for value, to := range map[string]*int{ratio: &p.Ratio, background: &p.Background} {
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 1 || n > 100 {
			return Setting{}, fmt.Errorf("setting %q: %q is no percentage from 1 to 100", s, value)
		}
		*to = n
	}
	if p.Background >= p.Ratio {
		return Setting{}, fmt.Errorf("setting %q: the second is to be the lower one; the kernel would take half of the first", s)
	}
	return p, nil
}

func (s Setting) String() string { return fmt.Sprintf("%d/%d", s.Ratio, s.Background) }

// limits are what a setting comes to.
type limits struct{ dirty, background int64 }

// of is what the setting comes to in bytes with this much memory.
func (s Setting) of(memory int64) limits {
	return limits{memory / 100 * int64(s.Ratio), memory / 100 * int64(s.Background)}
}

// slows is how much is dirty when the kernel begins to slow writers down: half way between its two limits, not at the
// higher one. From there on it does so ever more.
func (l limits) slows() int64 { return (l.dirty + l.background) / 2 }

// set has the setting count: as it is, or as the bytes that it would be with this much memory.
func (s Setting) set(k *Keeper, memory int64) error {
	values := []former{
		{"vm.dirty_ratio", strconv.Itoa(s.Ratio)}, {"vm.dirty_background_ratio", strconv.Itoa(s.Background)},
	}
	if memory > 0 {
		l := s.of(memory)
		values = []former{
			{"vm.dirty_bytes", strconv.FormatInt(l.dirty, 10)},
			{"vm.dirty_background_bytes", strconv.FormatInt(l.background, 10)},
		}
	}
	for _, v := range values {
		if err := k.Set(v.name, v.value); err != nil {
			return err
		}
	}
	return nil
}

// present is what the limits are now, and how they are set.
func present(p parameters, memory int64) (l limits, name string, err error) {
	dirty, a, err := presentLimit(p, "vm.dirty", memory)
	if err != nil {
		return limits{}, "", err
	}
	background, b, err := presentLimit(p, "vm.dirty_background", memory)
	return limits{dirty, background}, a + "/" + b, err
}

func presentLimit(p parameters, limit string, memory int64) (bytes int64, name string, err error) {
	if bytes, err = number(p, limit+"_bytes"); err != nil || bytes > 0 {
		return bytes, mebibytes(bytes) + " MiB", err
	}
	percent, err := number(p, limit+"_ratio")
	return memory / 100 * percent, strconv.FormatInt(percent, 10), err
}

func number(p parameters, name string) (int64, error) {
	s, err := p.read(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("host: %s is %q", name, s)
	}
	return n, nil
}

func mebibytes(n int64) string { return strconv.FormatInt((n+1<<19)>>20, 10) }
