package observe

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// maxProcFile bounds what is read of a file in /proc. The longest, net/snmp, has 2 KB.
const maxProcFile = 64 << 10

// readBounded reads the first limit bytes of a file.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// An snmp reads the retransmissions of a network namespace.
type snmp struct {
	path string
	has  bool
	last uint64
}

func (n *snmp) enable() error {
	_, err := n.count()
	n.has = err == nil
	return err
}

func (n *snmp) read(s *KernelSample) {
	if !n.has {
		return
	}
	if now, err := n.count(); err == nil {
		s.Retransmits = since(&n.last, now)
	}
}

func (n *snmp) count() (uint64, error) {
	file, err := readBounded(n.path, maxProcFile)
	if err != nil {
		return 0, err
	}
	return parseSNMP(file)
}

// parseSNMP returns RetransSegs from two lines that begin with "Tcp:", the first of names, the second of values.
func parseSNMP(file []byte) (uint64, error) {
	var names [][]byte
	for line := range bytes.Lines(file) {
		line, ok := bytes.CutPrefix(line, []byte("Tcp:"))
		if !ok {
			continue
		}
		fields := bytes.Fields(line)
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if string(name) == "RetransSegs" && i < len(fields) {
				return strconv.ParseUint(string(fields[i]), 10, 64)
			}
		}
	}
	return 0, errors.New("no RetransSegs")
}

// A schedstat reads how long this process's threads waited for a CPU. /proc/self/schedstat would be of the first thread alone.
//
// len(seen) ≤ maxThreads, as is len(spare).
type schedstat struct {
	directory   string // the threads'
	has         bool
	started     bool // there was a reading
	seen, spare map[string]runs
}

// Runs are how often a thread was given a CPU, and how long it had waited for it, since it began.
type runs struct{ waited, slices uint64 }

func (q *schedstat) enable() error {
	names, err := q.threads()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := q.runs(name); err == nil {
			q.has = true
			q.seen, q.spare = make(map[string]runs), make(map[string]runs)
			return nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return errors.New("no thread has a schedstat")
}

// read loses what a thread that has ended did after the last reading. There is no way to learn it.
func (q *schedstat) read(s *KernelSample) {
	if !q.has {
		return
	}
	names, err := q.threads()
	if err != nil {
		return
	}
	clear(q.spare)
	var all runs
	for _, name := range names {
		now, err := q.runs(name)
		if err != nil {
			continue // it has ended
		}
		if before, known := q.seen[name]; known || q.started {
			all.waited += grown(before.waited, now.waited)
			all.slices += grown(before.slices, now.slices)
		}
		q.spare[name] = now
	}
	q.seen, q.spare = q.spare, q.seen
	q.started = true
	s.RunQueue.Count = int64(all.slices)
	if all.slices > 0 {
		s.RunQueue.Mean = time.Duration(all.waited / all.slices)
	}
}

// grown is how far a counter went; from 0 on if a new thread has the number of an old one.
func grown(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

func (q *schedstat) threads() ([]string, error) {
	d, err := os.Open(q.directory)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxThreads)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

func (q *schedstat) runs(thread string) (runs, error) {
	file, err := readBounded(filepath.Join(q.directory, thread, "schedstat"), maxProcFile)
	if err != nil {
		return runs{}, err
	}
	return parseSchedstat(file)
}

// parseSchedstat reads "ran waited slices", the first two in nanoseconds.
func parseSchedstat(file []byte) (runs, error) {
	fields := bytes.Fields(file)
	if len(fields) < 3 {
		return runs{}, errors.New("schedstat with fewer than three fields")
	}
	waited, err1 := strconv.ParseUint(string(fields[1]), 10, 64)
	slices, err2 := strconv.ParseUint(string(fields[2]), 10, 64)
	return runs{waited, slices}, errors.Join(err1, err2)
}

func (n *snmp) notes() []string      { return nil }
func (n *snmp) close() error         { return nil }
func (q *schedstat) notes() []string { return nil }
func (q *schedstat) close() error    { return nil }
