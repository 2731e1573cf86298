package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Every way to read shows every subscriber the same packets.
func TestReadersShowTheSameBytes(t *testing.T) {
	const packets = 300
	want := make([]byte, packets*packetSize)
	if _, err := io.ReadFull(newSource(), want); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name        string
		way         readWay
		subscribers int
	}{
		{"borrow", borrow, 1}, {"peek", peek, 1},
		{"share 1", shareTo(1), 1}, {"own 1", readOwn(1), 1},
		{"share", shareTo(subscribers), subscribers}, {"own", readOwn(subscribers), subscribers},
	} {
		got := make([]bytes.Buffer, tt.subscribers)
		read, release := tt.way(newSource(), &look{audit: func(who int, p []byte) { got[who].Write(p) }})
		if err := read(packets); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if release != nil {
			release()
		}
		for i := range got {
			if !bytes.Equal(got[i].Bytes(), want) {
				t.Errorf("%s: subscriber %d sees other bytes", tt.name, i)
			}
		}
	}
}

func TestStringsAreTheSame(t *testing.T) {
	for _, c := range stackbufContests() {
		lastString, lastLen = "", -1
		for i, who := range c.contenders {
			before, beforeLen := lastString, lastLen
			do(t, who, 1)
			if i > 0 && (lastString != before || lastLen != beforeLen) {
				t.Errorf("%s: %s comes to something else", c.what, who.name)
			}
		}
		if lastString == "" && lastLen <= 0 {
			t.Errorf("%s comes to nothing", c.what)
		}
	}
}

func do(t *testing.T, c contender, n int) {
	t.Helper()
	task, err := c.open(t.Context())
	if err == nil {
		err = task.do(n)
	}
	if err != nil {
		t.Fatal(err)
	}
	if task.close != nil {
		task.close()
	}
}

func TestFramesAreTheSame(t *testing.T) {
	const frames = 5 * framesHeld
	for _, size := range []int{32, 1 << 10, longestFrame} {
		for name, way := range map[string]func(int, *look) func(int){
			"arena": arenaFrames, "make": madeFrames, "sync.Pool": pooledFrames,
		} {
			seen := 0
			run := way(size, &look{audit: func(_ int, p []byte) {
				if !bytes.Equal(p, payload(seen, size)) {
					t.Errorf("%s: frame %d of %d bytes is another", name, seen, size)
				}
				seen++
			}})
			run(framesHeld / 2) // held frames outlive a call
			run(frames - framesHeld/2)
			if seen != frames-framesHeld {
				t.Errorf("%s: %d frames were let go", name, seen)
			}
		}
	}
}

func needRedis(t *testing.T) *redisServer {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not installed: run scripts/deps")
		}
		t.Skip("redis-server is not installed: run scripts/deps")
	}
	s, err := startRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// Every client reads the value that is there, and sets the one that it has.
func TestValuesAreTheSame(t *testing.T) {
	s := needRedis(t)
	for _, size := range valueSizes {
		v := newValue(s.socket, size.size)
		if err := v.store(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen := 0
		v.audit = func(p []byte) {
			if seen++; !bytes.Equal(p, v.p) {
				t.Errorf("%s: another value is read", size.name)
			}
		}
		contests := valueContests(size.key, size.name, v)
		for i, who := range contests[0].contenders {
			if do(t, who, 2); seen != 2*(i+1) {
				t.Errorf("%s saw %d values", who.name, seen)
			}
		}
		for _, who := range contests[1].contenders {
			rdb := v.goRedis()
			if err := rdb.Del(t.Context(), setKey).Err(); err != nil {
				t.Fatal(err)
			}
			do(t, who, 1)
			if p, err := rdb.Get(t.Context(), setKey).Bytes(); err != nil || !bytes.Equal(p, v.p) {
				t.Errorf("%s sets something else: %v", who.name, err)
			}
			_ = rdb.Close()
		}
	}
}

// Every handler sends the file, and says no where there is none.
func TestFilesAreTheSame(t *testing.T) {
	dir := t.TempDir()
	const name, size = "file", 300_001
	if err := makeFile(filepath.Join(dir, name), size); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	servers, stop, err := startFileServers(Config{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range servers {
		var mu sync.Mutex
		var got bytes.Buffer
		d, err := openDownloads(t.Context(), p.addr, name, size, 1, func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			got.Write(b)
		})
		if err != nil {
			t.Errorf("%s: %v", fileHandlers[i].name, err)
			continue
		}
		d.close()
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s sends other bytes", fileHandlers[i].name)
		}
		_, err = openDownloads(t.Context(), p.addr, "nothing", size, 1, nil)
		if err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("%s: a file that is not there: %v", fileHandlers[i].name, err)
		}
		if _, err := openDownloads(t.Context(), p.addr, name, size+1, 1, nil); err == nil {
			t.Errorf("%s: a file that is too short passes", fileHandlers[i].name)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Without redis-server the suite says what to install: an error by name, and not among all.
func TestRedisIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r, err := Run(t.Context(), Config{Suites: []string{"redis"}, Effort: tiny()})
	if err == nil || !missing(err) || !strings.Contains(err.Error(), "apt install redis-server") {
		t.Errorf("by name: %v", err)
	}
	if len(r.Suites) != 1 || r.Suites[0].State != Skipped || !strings.Contains(r.Suites[0].Why, "redis-server") {
		t.Errorf("%+v", r.Suites)
	}
	s := &session{report: new(Report), effort: tiny()}
	for _, c := range suites() {
		if c.name == "redis" {
			if err := s.runSuite(t.Context(), c); !missing(err) {
				t.Error(err)
			}
		}
	}
}

// Connections that are closed in the middle of a download end it, and nothing hangs.
func TestDownloadsEndWithTheContext(t *testing.T) {
	dir := t.TempDir()
	if err := makeFile(filepath.Join(dir, "file"), 1<<20); err != nil {
		t.Fatal(err)
	}
	p, err := Config{}.startProcess(order{Handler: "millrace", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDownloads(t.Context(), p.addr, "file", 1<<20, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.fetch(ctx, 1<<40); err == nil {
		t.Error("a download has gone on")
	}
	d.close()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func ExampleFigure_Verdict() {
	f := Figure{Better: Lower, Measured: measured("ours", Series{10, 12, 11})}
	f.against(measured("rival", Series{20, 30, 22}))
	fmt.Println(f.Ratio, f.Verdict())
	// Output: 2.00 (2.00 to 2.50) ahead
}
