package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const snmpFile = `Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin MaxConn InSegs RetransSegs InErrs
Tcp: 1 200 -1 180646304 553533 0
Udp: InDatagrams
Udp: 1
`

func TestParseSNMP(t *testing.T) {
	for _, test := range []struct {
		name, file string
		want       uint64
		ok         bool
	}{
		{"a kernel's", snmpFile, 553533, true},
		{"no TCP", "Ip: Forwarding\nIp: 1\n", 0, false},
		{"names alone", "Tcp: RetransSegs\n", 0, false},
		{"too few values", "Tcp: A RetransSegs\nTcp: 1\n", 0, false},
		{"another kernel", "Tcp: A B\nTcp: 1 2\n", 0, false},
		{"no number", "Tcp: RetransSegs\nTcp: -1\n", 0, false},
		{"empty", "", 0, false},
	} {
		got, err := parseSNMP([]byte(test.file))
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("%s: %d, %v", test.name, got, err)
		}
	}
}

func FuzzParseSNMP(f *testing.F) {
	f.Add([]byte(snmpFile))
	f.Add([]byte("Tcp:\nTcp:\nTcp: RetransSegs\n"))
	f.Fuzz(func(t *testing.T, file []byte) { parseSNMP(file) })
}

func TestParseSchedstat(t *testing.T) {
	for _, test := range []struct {
		file string
		want runs
		ok   bool
	}{
		{"5 2894079 17\n", runs{2894079, 17}, true},
		{"5 1 2 and more", runs{1, 2}, true},
		{"5 1", runs{}, false},
		{"5 x 2", runs{0, 2}, false},
		{"", runs{}, false},
	} {
		got, err := parseSchedstat([]byte(test.file))
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("%q: %+v, %v", test.file, got, err)
		}
	}
}

func FuzzParseSchedstat(f *testing.F) {
	f.Add([]byte("5 2894079 17\n"))
	f.Fuzz(func(t *testing.T, file []byte) { parseSchedstat(file) })
}

// A tasks is a directory like /proc/self/task.
type tasks struct {
	t         *testing.T
	directory string
}

func (d tasks) set(thread, waited, slices int) {
	d.t.Helper()
	path := filepath.Join(d.directory, fmt.Sprint(thread))
	if err := os.MkdirAll(path, 0o700); err != nil {
		d.t.Fatal(err)
	}
	text := fmt.Sprintf("99 %d %d\n", waited, slices)
	if err := os.WriteFile(filepath.Join(path, "schedstat"), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d tasks) end(thread int) {
	d.t.Helper()
	if err := os.RemoveAll(filepath.Join(d.directory, fmt.Sprint(thread))); err != nil {
		d.t.Fatal(err)
	}
}

func TestSchedstat(t *testing.T) {
	d := tasks{t, t.TempDir()}
	q := &schedstat{directory: d.directory}
	check := func(what string, waits int64, mean time.Duration) {
		t.Helper()
		var s KernelSample
		q.read(&s)
		if want := (Spread{Count: waits, Mean: mean}); s.RunQueue != want {
			t.Errorf("%s: %+v, want %+v", what, s.RunQueue, want)
		}
	}
	check("not enabled", 0, 0)
	d.set(1, 1000, 10)
	d.set(2, 500, 5)
	if err := q.enable(); err != nil {
		t.Fatal(err)
	}
	check("what was before is not counted", 0, 0)
	check("nothing happened", 0, 0)
	d.set(1, 1600, 12)
	d.set(2, 900, 7)
	check("two threads", 4, 250)
	d.set(3, 30, 3)
	check("a new thread counts from its beginning", 3, 10)
	d.end(2)
	d.set(1, 1700, 13)
	check("one has ended", 1, 100)
	d.set(3, 8, 1)
	check("another thread with its number", 1, 8)
	d.set(1, 0, 0)
	d.end(1)
	d.end(3)
	check("none is left", 0, 0)
}

func TestSchedstatIsMissing(t *testing.T) {
	d := tasks{t, t.TempDir()}
	if err := (&schedstat{directory: d.directory + "/none"}).enable(); err == nil {
		t.Error("enabled without a directory")
	}
	q := &schedstat{directory: d.directory}
	if err := q.enable(); err == nil {
		t.Error("enabled without a thread")
	}
	d.set(1, 1, 1)
	if err := os.WriteFile(filepath.Join(d.directory, "1/schedstat"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := q.enable(); err == nil {
		t.Error("enabled with a file that makes no sense")
	}
}

func TestSNMP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snmp")
	n := &snmp{path: path}
	if err := n.enable(); err == nil {
		t.Error("enabled without a file")
	}
	if err := os.WriteFile(path, []byte(snmpFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.enable(); err != nil {
		t.Fatal(err)
	}
	var s KernelSample
	n.read(&s)
	if err := os.WriteFile(path, []byte("Tcp: RetransSegs\nTcp: 553540\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n.read(&s); s.Retransmits != 7 {
		t.Errorf("%d retransmits, want 7", s.Retransmits)
	}
	os.Remove(path)
	s = KernelSample{}
	if n.read(&s); s.Retransmits != 0 {
		t.Errorf("%d retransmits without a file", s.Retransmits)
	}
}
