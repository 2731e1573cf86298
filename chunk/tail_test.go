package chunk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

const poll = 250 * time.Millisecond // the default of PollInterval

// A logDir is a directory with the log "log", and rotated files "log.1", "log.2" and so on.
type logDir struct {
	t   *testing.T
	dir string
}

func (d logDir) path(name string) string { return filepath.Join(d.dir, name) }

// write appends to a file, which it creates if necessary.
func (d logDir) write(name, s string) {
	d.t.Helper()
	f, err := os.OpenFile(d.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(d.t, err)
	_, err = f.WriteString(s)
	must(d.t, err)
	must(d.t, f.Close())
	d.touch(name)
}

// touch sets the time of a file to a time that no other file has.
func (d logDir) touch(name string) {
	d.t.Helper()
	time.Sleep(time.Millisecond)
	must(d.t, os.Chtimes(d.path(name), time.Now(), time.Now()))
}

func (d logDir) rename(from, to string) {
	d.t.Helper()
	must(d.t, os.Rename(d.path(from), d.path(to)))
}

// shift renames log.1 to log.2, and so on.
func (d logDir) shift() {
	for i := 99; i > 0; i-- {
		if _, err := os.Stat(d.path(fmt.Sprint("log.", i))); err == nil {
			d.rename(fmt.Sprint("log.", i), fmt.Sprint("log.", i+1))
		}
	}
}

// copyTruncate copies the log to log.1 and truncates it.
func (d logDir) copyTruncate() {
	d.t.Helper()
	d.shift()
	content, err := os.ReadFile(d.path("log"))
	must(d.t, err)
	must(d.t, os.WriteFile(d.path("log.1"), content, 0o644))
	d.touch("log.1")
	must(d.t, os.Truncate(d.path("log"), 0))
}

func (d logDir) open(from chunk.Position, opts ...chunk.TailOption) *chunk.Tail {
	d.t.Helper()
	tail, err := chunk.OpenTail(d.path("log"), from, opts...)
	must(d.t, err)
	d.t.Cleanup(func() { _ = tail.Close() })
	return tail
}

func (d logDir) rotated() chunk.TailOption { return chunk.Rotated(d.path("log.*")) }

// A follower reads a Tail on a goroutine until the Tail is closed or fails.
type follower struct {
	mu  sync.Mutex
	got []byte
	err error
}

func follow(src io.Reader) *follower {
	f := new(follower)
	go func() {
		for p := make([]byte, 100); ; {
			n, err := src.Read(p)
			f.mu.Lock()
			f.got, f.err = append(f.got, p[:n]...), err
			f.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return f
}

// all waits for d and returns all that has been read.
func (f *follower) all(d time.Duration) string {
	time.Sleep(d)
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.got)
}

// inBubble runs f with an empty directory, and with a fake clock.
func inBubble(t *testing.T, f func(t *testing.T, d logDir)) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be renamed")
	}
	synctest.Test(t, func(t *testing.T) { f(t, logDir{t, t.TempDir()}) })
}

// TestTail checks what a waiting Read returns in each situation that the documentation names.
func TestTail(t *testing.T) {
	const first = "one\ntwo\n"
	for _, c := range []struct {
		name string
		do   func(d logDir)
		wait time.Duration
		want string // after first
	}{
		{"lines are appended", func(d logDir) { d.write("log", "three\n") }, poll, "three\n"},
		{"a line is written in two parts", func(d logDir) {
			d.write("log", "thr")
			time.Sleep(10 * poll)
			d.write("log", "ee\n")
		}, poll, "three\n"},
		{"renamed and not created yet", func(d logDir) {
			d.rename("log", "log.1")
			d.write("log.1", "three\n")
		}, 10 * poll, "three\n"},
		{"renamed, the new file is empty, the writer has the old one open", func(d logDir) {
			d.rename("log", "log.1")
			d.write("log", "")
			time.Sleep(10 * poll)
			d.write("log.1", "three\n")
		}, 2 * poll, "three\n"},
		{"renamed, another process writes to the old file a little longer", func(d logDir) {
			d.rename("log", "log.1")
			d.write("log", "five\n")
			time.Sleep(poll / 2)
			d.write("log.1", "three\n")
			time.Sleep(poll / 2)
			d.write("log.1", "four\n")
		}, 3 * poll, "three\nfour\nfive\n"},
		{"renamed within a line", func(d logDir) {
			d.write("log", "thr")
			d.rename("log", "log.1")
			d.write("log", "ee\nfour\n")
		}, 3 * poll, "three\nfour\n"},
		{"renamed and deleted", func(d logDir) {
			d.write("log", "three\n")
			d.rename("log", "log.1")
			must(d.t, os.Remove(d.path("log.1")))
			time.Sleep(10 * poll)
			d.write("log", "four\n")
		}, 3 * poll, "three\nfour\n"},
		{"replaced by a shorter file", func(d logDir) {
			d.write("new", "x\n")
			d.rename("new", "log")
		}, 3 * poll, "x\n"},
		{"replaced by a longer file", func(d logDir) {
			d.write("new", "a much longer line\n")
			d.rename("new", "log")
		}, 3 * poll, "a much longer line\n"},
		{"truncated", func(d logDir) {
			must(d.t, os.Truncate(d.path("log"), 0))
			time.Sleep(poll)
			d.write("log", "three\n")
		}, poll, "three\n"},
		{"truncated and written to beyond the old length, between two looks", func(d logDir) {
			must(d.t, os.Truncate(d.path("log"), 0))
			d.write("log", "three, longer than before\n")
		}, poll, "three, longer than before\n"},
		{"truncated to the middle of a line", func(d logDir) {
			must(d.t, os.Truncate(d.path("log"), 5))
		}, poll, "one\nt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, withRotated := range []bool{false, true} {
				inBubble(t, func(t *testing.T, d logDir) {
					d.write("log", first)
					var opts []chunk.TailOption
					if withRotated {
						opts = append(opts, d.rotated())
					}
					tail := d.open(chunk.Position{}, opts...)
					f := follow(tail)
					if got := f.all(0); got != first {
						t.Fatalf("%q, want %q", got, first)
					}
					time.Sleep(poll / 2)
					c.do(d)
					if got := f.all(c.wait); got != first+c.want {
						t.Errorf("with Rotated %v: %q, want %q and then %q", withRotated, got,
							first, c.want)
					}
					must(t, tail.Close())
					synctest.Wait()
					if f.err != os.ErrClosed {
						t.Errorf("Read = %v, want os.ErrClosed", f.err)
					}
				})
			}
		})
	}
}

// A file that does not exist is waited for.
func TestTailWaitsForTheFile(t *testing.T) {
	inBubble(t, func(t *testing.T, d logDir) {
		tail := d.open(chunk.Position{}, d.rotated())
		f := follow(tail)
		f.all(time.Hour)
		if p := tail.Position(0); p != (chunk.Position{}) {
			t.Errorf("Position %+v before the first byte", p)
		}
		d.write("log", "one\n")
		if got := f.all(poll); got != "one\n" {
			t.Errorf("%q", got)
		}
		must(t, tail.Close())
	})
}

// A symbolic link that leads to another file is a rotation.
func TestTailFollowsASymbolicLink(t *testing.T) {
	inBubble(t, func(t *testing.T, d logDir) {
		d.write("log.a", "one\n")
		must(t, os.Symlink("log.a", d.path("log")))
		for _, opts := range [][]chunk.TailOption{nil, {d.rotated()}} {
			tail := d.open(chunk.Position{}, opts...)
			f := follow(tail)
			f.all(poll)
			d.write("log.b", "two\n")
			must(t, os.Symlink("log.b", d.path("new")))
			d.rename("new", "log")
			d.write("log.a", "late\n")
			if got := f.all(4 * poll); got != "one\nlate\ntwo\n" {
				t.Errorf("%q", got)
			}
			must(t, tail.Close())
			must(t, os.Remove(d.path("log.b")))
			must(t, os.Remove(d.path("log")))
			must(t, os.WriteFile(d.path("log.a"), []byte("one\n"), 0o644))
			must(t, os.Symlink("log.a", d.path("log")))
		}
	})
}

// An error from opening the next file is ignored for five seconds. After Read has returned it, Read
// may be called again.
func TestTailReportsAnUnreadableFile(t *testing.T) {
	inBubble(t, func(t *testing.T, d logDir) {
		d.write("log", "one\n")
		tail := d.open(chunk.Position{})
		f := follow(tail)
		f.all(0)
		d.rename("log", "log.1")
		must(t, os.Mkdir(d.path("log"), 0o755)) // the tests may run as root, who may read all files
		f.all(4 * time.Second)
		if f.err != nil {
			t.Fatal(f.err)
		}
		d.write("log.1", "two\n")
		if got := f.all(2 * time.Second); got != "one\ntwo\n" ||
			!strings.Contains(fmt.Sprint(f.err), "not a regular file") {
			t.Errorf("%q, %v", got, f.err)
		}
		must(t, os.Remove(d.path("log")))
		d.write("log", "three\n")
		f = follow(tail)
		if got := f.all(3 * poll); got != "three\n" {
			t.Errorf("%q", got)
		}
		must(t, tail.Close())
	})
}

func TestOpenTailErrors(t *testing.T) {
	dir := t.TempDir()
	d := logDir{t, dir}
	d.write("log", "one\ntwo\n")
	must(t, os.Mkdir(d.path("dir"), 0o755))
	tail := d.open(chunk.Position{})
	_, err := io.ReadFull(tail, make([]byte, 8))
	must(t, err)
	p := tail.Position(4)
	must(t, tail.Close())
	for _, c := range []struct {
		what, name string
		from       chunk.Position
		want       error // nil: any
	}{
		{"a directory", "dir", chunk.Position{}, nil},
		{"below a file", "log/x", chunk.Position{}, nil},
		{"missing, at a Position", "other", p, chunk.ErrNoPosition},
		{"offset behind the end", "log", chunk.Position{Offset: 9}, chunk.ErrNoPosition},
		{"offset behind the end", "log", chunk.Position{Offset: 9, Head: p.Head, Sum: p.Sum},
			chunk.ErrNoPosition},
		{"other bytes", "log", chunk.Position{Offset: 4, Head: 8, Sum: "x"}, chunk.ErrNoPosition},
		{"other length", "log", chunk.Position{Offset: 4, Head: 7, Sum: p.Sum},
			chunk.ErrNoPosition},
		{"negative offset", "log", chunk.Position{Offset: -1}, nil},
		{"negative head", "log", chunk.Position{Head: -1}, nil},
		{"large head", "log", chunk.Position{Head: 1 << 30}, nil},
	} {
		if tail, err := chunk.OpenTail(d.path(c.name), c.from); err == nil {
			t.Errorf("%s: no error", c.what)
			_ = tail.Close()
		} else if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	// An offset without a head is not checked, to begin at the end of a file.
	for _, from := range []chunk.Position{p, {Offset: 4}} {
		tail := d.open(from)
		got := make([]byte, 4)
		_, err := io.ReadFull(tail, got)
		if err != nil || string(got) != "two\n" {
			t.Errorf("%+v: %q, %v", from, got, err)
		}
		must(t, tail.Close())
	}
}

func TestTailMisusePanics(t *testing.T) {
	mustPanic(t, "chunk: PollInterval(0s) is not positive", func() { chunk.PollInterval(0) })
	mustPanic(t, `chunk: Rotated("["): syntax error in pattern`, func() { chunk.Rotated("[") })
	inBubble(t, func(t *testing.T, d logDir) {
		d.write("log", "one\n")
		tail := d.open(chunk.Position{})
		f := follow(tail)
		f.all(0)
		d.rename("log", "log.1")
		d.write("log", "two\n")
		f.all(3 * poll)
		mustPanic(t, "chunk: Position(-1) is not between 0 and 8", func() { tail.Position(-1) })
		mustPanic(t, "chunk: Position(9) is not between 0 and 8", func() { tail.Position(9) })
		tail.Position(8)
		tail.Position(5) // in the same file
		mustPanic(t, "chunk: Position(3) is not between 4 and 8", func() { tail.Position(3) })
		must(t, tail.Close())
		if err := tail.Close(); err != os.ErrClosed {
			t.Errorf("second Close = %v", err)
		}
		if err := tail.SetReadDeadline(time.Now()); err != os.ErrClosed {
			t.Errorf("SetReadDeadline after Close = %v", err)
		}
		if p := tail.Position(8); p.Offset != 4 {
			t.Errorf("Position after Close = %+v", p)
		}
	})
}

func TestTailDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, d logDir) {
		d.write("log", "one\n")
		tail := d.open(chunk.Position{})
		if n, err := tail.Read(nil); n != 0 || err != nil {
			t.Errorf("empty Read = %d, %v", n, err)
		}
		must(t, tail.SetReadDeadline(time.Now()))
		p := make([]byte, 10)
		if _, err := tail.Read(p); err != os.ErrDeadlineExceeded {
			t.Errorf("Read after the deadline = %v", err)
		}
		start := time.Now()
		must(t, tail.SetReadDeadline(start.Add(poll/10)))
		_, err := io.ReadFull(tail, p)
		if err != os.ErrDeadlineExceeded || time.Since(start) != poll/10 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		must(t, tail.SetReadDeadline(time.Time{}))
		f := follow(tail)
		f.all(poll / 2)
		must(t, tail.SetReadDeadline(time.Now())) // ends a Read that waits
		synctest.Wait()
		if f.err != os.ErrDeadlineExceeded {
			t.Errorf("Read = %v", f.err)
		}
	})
}

// A Reader of a Tail returns whole lines as they arrive, ends with its context, and loses nothing.
func TestReaderOfATail(t *testing.T) {
	inBubble(t, func(t *testing.T, d logDir) {
		d.write("log", "one\ntwo\nthr")
		tail := d.open(chunk.Position{})
		r := chunk.NewReader(tail, chunk.At(chunk.Lines()))
		if got := next(t, r); got != "one\ntwo\n" {
			t.Errorf("%q", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if _, err := r.Next(ctx); err != context.DeadlineExceeded ||
			time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		synctest.Wait()
		if r.Running() {
			t.Error("the goroutine is running after the end of the context")
		}
		if p := tail.Position(r.Offset()); p.Offset != 8 {
			t.Errorf("Position %+v", p)
		}
		d.write("log", "ee\n")
		if got := next(t, r); got != "three\n" {
			t.Errorf("%q", got)
		}
		start = time.Now()
		must(t, r.Close())
		if time.Since(start) != 0 || r.Running() {
			t.Errorf("Close took %v, running %v", time.Since(start), r.Running())
		}
	})
}

// With Rotated, nothing is skipped if the log is rotated several times while the program does not
// read, or does not run.
func TestTailCatchesUp(t *testing.T) {
	for _, restart := range []bool{false, true} {
		inBubble(t, func(t *testing.T, d logDir) {
			d.write("log", "0\n")
			tail := d.open(chunk.Position{}, d.rotated())
			_, err := io.ReadFull(tail, make([]byte, 2))
			must(t, err)
			want := ""
			for i := range 12 {
				time.Sleep(time.Second)
				line := fmt.Sprint(i, " a\n")
				d.write("log", line)
				want += line
				if i%3 == 1 {
					d.copyTruncate()
				} else {
					d.shift()
					d.rename("log", "log.1")
				}
			}
			d.write("log", "end\n")
			if restart {
				p := tail.Position(2)
				must(t, tail.Close())
				tail = d.open(p, d.rotated())
			}
			f := follow(tail)
			if got := f.all(time.Minute); got != want+"end\n" {
				t.Errorf("restart %v: %q, want %q", restart, got, want+"end\n")
			}
			must(t, tail.Close())
		})
	}
}

// If all files begin with the same header line and a Position is directly after the header, the
// Tail continues in the oldest file that matches. So it may repeat lines, but loses none.
func TestOpenTailAfterACommonHeader(t *testing.T) {
	const header = "#Fields: date time s-ip cs-method\n"
	inBubble(t, func(t *testing.T, d logDir) {
		d.write("log", header)
		tail := d.open(chunk.Position{}, d.rotated())
		_, err := io.ReadFull(tail, make([]byte, len(header)))
		must(t, err)
		p := tail.Position(int64(len(header)))
		must(t, tail.Close())
		want := ""
		for _, lines := range []string{"A\nB\n", "C\n"} {
			d.write("log", lines)
			want += lines + header
			d.shift()
			d.rename("log", "log.1")
			d.write("log", header)
		}
		d.write("log", "D\n")
		tail = d.open(p, d.rotated())
		f := follow(tail)
		if got := f.all(10 * poll); got != want+"D\n" {
			t.Errorf("%q, want %q", got, want+"D\n")
		}
		p = tail.Position(int64(len(want) + 2)) // the files differ before this Position
		must(t, tail.Close())
		d.write("log", "E\n")
		f = follow(d.open(p, d.rotated()))
		if got := f.all(10 * poll); got != "E\n" {
			t.Errorf("after the restart: %q", got)
		}
	})
}

// TestTailAgainstOracle rotates, truncates and restarts at random. Every line must arrive exactly
// once, in order. Every fourth round is without Rotated: only by renaming, without restarts, and
// the reader has read everything before each rotation.
func TestTailAgainstOracle(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for seed := range uint64(rounds) {
		inBubble(t, func(t *testing.T, d logDir) { tailRound(t, d, seed) })
	}
}

func tailRound(t *testing.T, d logDir, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	var want, got bytes.Buffer
	renameOnly := seed%4 == 3
	opts := []chunk.TailOption{d.rotated()}
	if renameOnly {
		opts = nil
	}
	line := 0
	write := func(name string) {
		for range 1 + rnd.IntN(4) {
			s := fmt.Sprintf("%d %s\n", line, strings.Repeat("x", rnd.IntN(1<<rnd.IntN(11))))
			line++
			if rnd.IntN(8) == 0 {
				s = s[:len(s)-1] // the next line continues this one
			}
			want.WriteString(s)
			d.write(name, s)
		}
		time.Sleep(time.Millisecond)
	}
	write("log")

	var tail *chunk.Tail
	var r *chunk.Reader
	stored := []byte("{}")
	save := func(n int64) {
		var err error
		stored, err = json.Marshal(tail.Position(n))
		must(t, err)
	}
	start := func() {
		var p chunk.Position
		must(t, json.Unmarshal(stored, &p))
		tail = d.open(p, opts...)
		save(0)
		r = chunk.NewReader(tail, chunk.At(chunk.Lines()), chunk.Size(1+rnd.IntN(2000)))
	}
	stop := func() {
		must(t, r.Close())
		must(t, tail.Close())
	}
	// read reads up to n chunks, until no more arrive.
	read := func(n int) {
		for range n {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			c, err := r.Next(ctx)
			cancel()
			if err != nil {
				if err != context.DeadlineExceeded {
					t.Errorf("Next: %v", err)
				}
				return
			}
			got.Write(c.Bytes())
			c.Release()
			save(r.Offset())
		}
	}
	start()
	read(1)
	for range 40 {
		op := rnd.IntN(9)
		if renameOnly && (op == 4 || op == 5) {
			op = 3
		}
		if renameOnly && op == 3 {
			read(1 << 20)
		}
		switch op {
		case 0, 1, 2:
			write("log")
		case 3:
			d.shift()
			d.rename("log", "log.1")
			if rnd.IntN(2) == 0 {
				write("log.1") // the writer still has the old file open
			}
			d.write("log", "")
			if rnd.IntN(2) == 0 {
				write("log.1")
			}
			time.Sleep(time.Duration(rnd.IntN(3)) * poll)
			write("log")
		case 4:
			d.copyTruncate()
			time.Sleep(time.Duration(rnd.IntN(3)) * poll)
			write("log")
		case 5:
			stop()
			start()
		default:
			read(rnd.IntN(8))
		}
		time.Sleep(time.Duration(rnd.IntN(3)) * poll / 2)
	}
	write("log")
	want.WriteString("end\n")
	d.write("log", "end\n")
	read(1 << 20)
	stop()
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		i := 0
		for i < min(got.Len(), want.Len()) && got.Bytes()[i] == want.Bytes()[i] {
			i++
		}
		t.Errorf("seed %d: %d bytes, want %d; different from byte %d: %.60q, want %.60q", seed,
			got.Len(), want.Len(), i, got.Bytes()[i:], want.Bytes()[i:])
	}
}

// Devices, and files that the kernel generates, do not grow.
func TestOpenTailRefusesDevices(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		t.Skip("no device file to open")
	}
	for _, name := range []string{os.DevNull, "/proc/self/status"} {
		tail, err := chunk.OpenTail(name, chunk.Position{})
		if pathErr := (*fs.PathError)(nil); err != nil && !errors.As(err, &pathErr) {
			t.Errorf("%s: %v, want a PathError", name, err)
		} else if err == nil { // there is no /proc
			if _, err := os.Stat(name); err == nil {
				t.Errorf("%s: no error", name)
			}
			must(t, tail.Close())
		}
	}
}
