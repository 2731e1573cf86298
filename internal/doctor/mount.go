package doctor

import (
	"strings"
)

// A mount is a line of /proc/self/mountinfo.
type mount struct {
	root    string // which part of the file system is there
	at      string // where
	options string // of this mount
	kind    string // of file system
	super   string // options of the file system as a whole
}

// mounts returns what is mounted, in the order that it was.
func (h *Host) mounts() ([]mount, error) {
	s, err := h.read("proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []mount
	for l := range strings.Lines(s) {
		// ID PARENT MAJOR:MINOR ROOT AT OPTIONS [TAG]... - KIND SOURCE SUPER
		before, after, ok := strings.Cut(l, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 6 || len(a) < 2 {
			continue
		}
		m := mount{root: unescape(b[3]), at: unescape(b[4]), options: b[5], kind: a[0]}
		if len(a) > 2 {
			m.super = a[2]
		}
		all = append(all, m)
	}
	return all, nil
}

// mountOf returns what the directory at path is on.
func (h *Host) mountOf(path string) (best mount, found bool, err error) {
	all, err := h.mounts()
	if err != nil {
		return mount{}, false, err
	}
	for _, m := range all {
		rest, in := strings.CutPrefix(path, strings.TrimSuffix(m.at, "/"))
		in = in && (rest == "" || rest[0] == '/')
		// Of two at one place the later hides the earlier.
		if in && (!found || len(m.at) >= len(best.at)) {
			best, found = m, true
		}
	}
	return best, found, nil
}

// has says whether an option is among those of the mount, or of its file system.
func (m mount) has(option string) bool {
	for _, list := range []string{m.options, m.super} {
		for o := range strings.SplitSeq(list, ",") {
			if o == option {
				return true
			}
		}
	}
	return false
}

// unescape undoes what the kernel does to white space and backslashes: \040 is a blank.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return '0' <= c && c <= '7' }
