//go:build linux && !race && !invariants

package chunk_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// piece is what a Copy that is small copies.
const piece = 4 << 10

// A copyRun has do copy a piece, again and again.
type copyRun func(do func(dst io.Writer, src io.Reader) error) error

// smallCopies are the ends that a Copy allocates nothing between, the ends themselves and the data left aside.
var smallCopies = []struct {
	name    string
	watched float64 // allocations where the context has to be watched from the start, because a Read or Write may hang
	open    func(t *testing.T) copyRun
}{
	{"file to file", 0, func(t *testing.T) copyRun {
		src, dst := fileOf(t, someBytes(piece)), newFileOnly(t)
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = src.Seek(0, io.SeekStart)
			return do(dst, src)
		}
	}},
	{"limited file to file", 0, func(t *testing.T) copyRun {
		src, dst := fileOf(t, someBytes(2*piece)), newFileOnly(t)
		l := &io.LimitedReader{R: src}
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = src.Seek(0, io.SeekStart)
			l.N = piece
			return do(dst, l)
		}
	}},
	{"section to file", 0, func(t *testing.T) copyRun {
		s, dst := io.NewSectionReader(fileOf(t, someBytes(2*piece)), 100, piece), newFileOnly(t)
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = s.Seek(0, io.SeekStart)
			return do(dst, s)
		}
	}},
	{"file to TCP", 0, func(t *testing.T) copyRun {
		src, dst := fileOf(t, someBytes(piece)), newDrain(t)
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = src.Seek(0, io.SeekStart)
			return do(dst, src)
		}
	}},
	{"limited file to TCP", 0, func(t *testing.T) copyRun {
		src, dst := fileOf(t, someBytes(2*piece)), newDrain(t)
		l := &io.LimitedReader{R: src}
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = src.Seek(0, io.SeekStart)
			l.N = piece
			return do(dst, l)
		}
	}},
	{"section to TCP", 0, func(t *testing.T) copyRun {
		s, dst := io.NewSectionReader(fileOf(t, someBytes(2*piece)), 100, piece), newDrain(t)
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = s.Seek(0, io.SeekStart)
			return do(dst, s)
		}
	}},
	{"section to a Unix socket", 0, func(t *testing.T) copyRun {
		s := io.NewSectionReader(fileOf(t, someBytes(2*piece)), 100, piece)
		w, r := unixEnds(t)
		drain(t, w, r)
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = s.Seek(0, io.SeekStart)
			return do(w, s)
		}
	}},
	{"TCP to TCP", 0, func(t *testing.T) copyRun {
		feeder, src := tcpEnds(t)
		dst, data := newDrain(t), someBytes(piece)
		l := &io.LimitedReader{R: src}
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = feeder.Write(data)
			l.N = piece
			return do(dst, l)
		}
	}},
	{"TCP to file", 0, func(t *testing.T) copyRun {
		feeder, src := tcpEnds(t)
		dst, data := newFileOnly(t), someBytes(piece)
		l := &io.LimitedReader{R: src}
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = feeder.Write(data)
			l.N = piece
			return do(dst, l)
		}
	}},
	{"pipe to TCP", 2, func(t *testing.T) copyRun {
		src, feeder := pipeEnds(t)
		dst, data := newDrain(t), someBytes(piece)
		l := &io.LimitedReader{R: src}
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = feeder.Write(data)
			l.N = piece
			return do(dst, l)
		}
	}},
	{"reader to writer", 0, func(t *testing.T) copyRun {
		r := bytes.NewReader(someBytes(piece))
		src, dst := struct{ io.Reader }{r}, struct{ io.Writer }{io.Discard}
		var from io.Reader = src
		var to io.Writer = dst
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = r.Seek(0, io.SeekStart)
			return do(to, from)
		}
	}},
	{"reader to TCP", 2, func(t *testing.T) copyRun {
		r := bytes.NewReader(someBytes(piece))
		var src io.Reader = struct{ io.Reader }{r}
		dst := newDrain(t)
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = r.Seek(0, io.SeekStart)
			return do(dst, src)
		}
	}},
	{"file to writer", 2, func(t *testing.T) copyRun {
		src := fileOf(t, someBytes(piece))
		var dst io.Writer = struct{ io.Writer }{io.Discard}
		return func(do func(io.Writer, io.Reader) error) error {
			_, _ = src.Seek(0, io.SeekStart)
			return do(dst, src)
		}
	}},
}

func newFileOnly(t *testing.T) io.Writer {
	f, _ := newFile(t, 0)
	return f
}

// newDrain returns a connection from which everything is read.
func newDrain(t *testing.T) *net.TCPConn {
	w, r := tcpEnds(t)
	go func() {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	}()
	return w
}

// A Copy allocates nothing itself, however much it moves. A context that can end costs nothing either as long as nothing
// that could be woken may have to be waited for.
func TestAllocationsPerCopy(t *testing.T) {
	ending, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, test := range smallCopies {
		for _, c := range []struct {
			name string
			ctx  context.Context
			most float64
		}{{"", context.Background(), 0}, {", watched", ending, test.watched}} {
			run := test.open(t)
			do := func(dst io.Writer, src io.Reader) error {
				report, err := chunk.Copy(c.ctx, dst, src)
				if err == nil && report.Bytes != piece {
					t.Errorf("%+v", report)
				}
				return err
			}
			n := testing.AllocsPerRun(200, func() {
				if err := run(do); err != nil {
					t.Error(err)
				}
			})
			if n > c.most {
				t.Errorf("%s%s: %v allocations, want %v", test.name, c.name, n, c.most)
			}
		}
	}
}

// Nor does one to a response with a length, apart from watching the request's context. One allocation is net's, in the
// connection's ReadFrom, which a file that Copy writes does not come to.
func TestAllocationsPerCopyToAResponse(t *testing.T) {
	for _, test := range []struct{ size, most int }{{piece / 2, 0}, {piece, 1}} {
		t.Run(fmt.Sprint(test.size), func(t *testing.T) {
			f := fileOf(t, someBytes(test.size))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				checkResponseAllocations(t, w, r.Context(), f, test.size, test.most)
			}))
			defer server.Close()
			res, err := http.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, buf := struct{ io.Reader }{res.Body}, make([]byte, 64<<10)
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, buf); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkResponseAllocations copies all of f to w again and again. Each may allocate so often, and twice more where a context
// is watched.
func checkResponseAllocations(t *testing.T, w http.ResponseWriter, ctx context.Context, f *os.File, size, most int) {
	const times = 100
	w.Header().Set("Content-Length", strconv.Itoa(2*(times+1)*size)) // AllocsPerRun runs it once more
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	for _, c := range []struct {
		ctx  context.Context
		most int
	}{{context.WithoutCancel(ctx), most}, {ctx, most + 2}} {
		n := testing.AllocsPerRun(times, func() {
			_, _ = f.Seek(0, io.SeekStart)
			if report, err := chunk.Copy(c.ctx, w, f); err != nil || report.Bytes != int64(size) {
				t.Errorf("%+v, %v", report, err)
			}
		})
		if n > float64(c.most) {
			t.Errorf("%v allocations, want %v", n, c.most)
		}
	}
}
