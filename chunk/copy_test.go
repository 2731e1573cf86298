package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// Every source is copied to every target: the bytes are the same, and are counted in the right
// field.
func TestCopyPairs(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	for _, size := range []int{0, 1, 100_000, 1<<20 + 7} {
		data := someBytes(size)
		for _, src := range copySources {
			for _, dst := range copyTargets {
				if dst.slow && size > 200_000 {
					continue
				}
				t.Run(fmt.Sprintf("%s to %s, %d bytes", src.name, dst.name, size),
					func(t *testing.T) {
						r := src.open(t, data)
						w, got := dst.open(t)
						report, err := chunk.Copy(context.Background(), w, r)
						if err != nil {
							t.Error(err)
						}
						want := chunk.Report{Bytes: int64(size)}
						*way(&want, src, dst) = int64(size)
						if report != want {
							t.Errorf("report %+v, want %+v", report, want)
						}
						if b := got(); !bytes.Equal(b, data) {
							t.Errorf("%d other bytes arrived", len(b))
						}
					})
			}
		}
	}
}

// A stream continues after a limit, because no byte after the limit was read.
func TestCopyTakesNoMoreThanTheLimit(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	data := someBytes(300_000)
	for _, n := range []int{1, 16 << 10, 16<<10 + 1, 100_001} {
		for _, src := range copySources {
			if src.kind != "stream" && src.kind != "pipe" || src.name == "limited TCP" {
				continue
			}
			for _, dst := range copyTargets {
				t.Run(fmt.Sprintf("%d of %s to %s", n, src.name, dst.name), func(t *testing.T) {
					r := src.open(t, data)
					w, got := dst.open(t)
					limited := &io.LimitedReader{R: r, N: int64(n)}
					report, err := chunk.Copy(context.Background(), w, limited)
					must(t, err)
					if limited.N != 0 || report.Bytes != int64(n) {
						t.Errorf("%d bytes left of the limit, %+v", limited.N, report)
					}
					if !bytes.Equal(got(), data[:n]) {
						t.Error("other bytes arrived")
					}
					if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, data[n:]) {
						t.Errorf("%d other bytes were left, %v", len(rest), err)
					}
				})
			}
		}
	}
}

// Files in /proc have no size and no copy_file_range.
func TestCopyOfAFileWithoutASize(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	want, err := os.ReadFile("/proc/self/limits")
	must(t, err)
	for _, dst := range copyTargets {
		t.Run(dst.name, func(t *testing.T) {
			f, err := os.Open("/proc/self/limits")
			must(t, err)
			defer f.Close()
			w, got := dst.open(t)
			report, err := chunk.Copy(context.Background(), w, f)
			if err != nil || report.Bytes != int64(len(want)) {
				t.Errorf("Copy = %+v, %v, want %d bytes", report, err, len(want))
			}
			if !bytes.Equal(got(), want) {
				t.Error("other bytes arrived")
			}
		})
	}
}

// A blocking pipe, such as the standard input of a program, cannot be waited for.
func TestCopyFromABlockingPipe(t *testing.T) {
	data := someBytes(200_000)
	for _, dst := range copyTargets {
		t.Run(dst.name, func(t *testing.T) {
			r, w := pipeEnds(t)
			_ = r.Fd() // switches it to blocking mode
			feed(t, w, data)
			target, got := dst.open(t)
			if _, err := chunk.Copy(context.Background(), target, r); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got(), data) {
				t.Error("other bytes arrived")
			}
		})
	}
}

func TestCopyPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	data := someBytes(200_000)
	t.Run("source", func(t *testing.T) {
		for _, dst := range copyTargets {
			w, got := dst.open(t)
			src := struct{ io.Reader }{io.MultiReader(bytes.NewReader(data),
				iotest.ErrReader(broken))}
			report, err := chunk.Copy(context.Background(), w, src)
			if err != broken || report.Bytes != int64(len(data)) || !bytes.Equal(got(), data) {
				t.Errorf("%s: %+v, %v, want the error, and all bytes before it", dst.name, report,
					err)
			}
		}
	})
	t.Run("target", func(t *testing.T) {
		for _, src := range copySources {
			for name, test := range map[string]struct {
				w    io.Writer
				want error
			}{
				"fails": {writesBy(func(p []byte) (int, error) { return min(7, len(p)), broken }),
					broken},
				"stops": {writesBy(func(p []byte) (int, error) { return min(7, len(p)), nil }),
					io.ErrShortWrite},
				"counts": {writesBy(func(p []byte) (int, error) { return len(p) + 1, nil }), nil},
			} {
				if src.name == "memory" {
					continue // bytes.Reader writes directly, without Copy's buffer
				}
				report, err := chunk.Copy(context.Background(), test.w, src.open(t, data))
				if err == nil || test.want != nil && err != test.want {
					t.Errorf("%s, target that %s: %v", src.name, name, err)
				}
				if want := int64(7); name != "counts" && report.Bytes != want || name == "counts" &&
					report.Bytes != 0 {
					t.Errorf("%s, target that %s: %+v", src.name, name, report)
				}
			}
		}
	})
	t.Run("closed", func(t *testing.T) {
		for _, src := range copySources {
			w, r := tcpEnds(t)
			_ = r.SetLinger(0)
			_ = r.Close()
			_, _ = w.Read(make([]byte, 1)) // wait for the reset
			report, err := chunk.Copy(context.Background(), w, src.open(t, data))
			if err == nil {
				t.Errorf("%s: %+v to a connection that was reset", src.name, report)
			}
		}
	})
}

// If an end is closed, the error says so, whichever way was tried.
func TestCopyBetweenClosedEnds(t *testing.T) {
	data := someBytes(200_000)
	for _, src := range copySources {
		for _, dst := range copyTargets {
			for _, closed := range []string{"source", "target"} {
				w, _ := dst.open(t)
				r := src.open(t, data)
				end := any(w)
				if closed == "source" {
					end = innermost(r)
				}
				c, ok := end.(io.Closer)
				if !ok {
					continue
				}
				t.Run(src.name+" to "+dst.name+", "+closed, func(t *testing.T) {
					_ = c.Close()
					want := os.ErrClosed
					switch end.(type) {
					case *os.File:
					case net.Conn:
						want = net.ErrClosed
					}
					report, err := chunk.Copy(context.Background(), w, r)
					if !errors.Is(err, want) || report.Bytes > 0 {
						t.Errorf("Copy = %+v, %v, want %v and no bytes", report, err, want)
					}
				})
			}
		}
	}
}

// innermost returns the reader below all wrappers of src.
func innermost(src io.Reader) any {
	if l, ok := src.(*io.LimitedReader); ok {
		return l.R
	}
	return src
}

type writesBy func(p []byte) (int, error)

func (f writesBy) Write(p []byte) (int, error) { return f(p) }

func TestCopyReleasesItsBlockWhenAnEndPanics(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	for name, ends := range map[string]struct {
		w io.Writer
		r io.Reader
	}{
		"source": {io.Discard, reads(func([]byte) (int, error) { panic("as it should") })},
		"target": {writesBy(func([]byte) (int, error) { panic("as it should") }),
			reads(func(p []byte) (int, error) { return 1, nil })},
	} {
		func() {
			defer func() {
				if v := recover(); v != "as it should" {
					t.Errorf("%s: recovered %v, want the panic of the end", name, v)
				}
			}()
			_, _ = chunk.Copy(context.Background(), struct{ io.Writer }{ends.w}, ends.r)
		}()
	}
}
