package chunk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/leaktest"
)

// Files around the length up to which they are written in one piece, from a position of their own, to responses of every
// kind: the client gets all, the file is where it has to be, and the report says why bytes were copied.
func TestCopySmallFile(t *testing.T) {
	for _, m := range wrappers {
		for _, size := range []int{1, 10_000, 32<<10 - 1, 32 << 10} {
			t.Run(fmt.Sprint(m.name, ", ", size), func(t *testing.T) {
				data := someBytes(size + 7)
				f, done := fileOf(t, data), make(chan struct{})
				url := serveWith(t, m, func(w http.ResponseWriter, r *http.Request) {
					defer close(done)
					_, _ = f.Seek(7, io.SeekStart)
					report, err := chunk.Copy(r.Context(), w, f)
					if err != nil || report.Bytes != int64(size) {
						t.Errorf("%+v, %v", report, err)
					}
					if at, _ := f.Seek(0, io.SeekCurrent); at != int64(len(data)) {
						t.Errorf("the file is at %d of %d", at, len(data))
					}
					checkSmall(t, m, report, size+7)
				})
				resp, body := fetch(t, "GET", url)
				<-done
				if !bytes.Equal(body, data[7:]) {
					t.Errorf("%s, %d bytes", resp.Status, len(body))
				}
				if zips := strings.HasPrefix(m.name, "zips"); !zips && resp.ContentLength != int64(size) {
					t.Errorf("Content-Length %d", resp.ContentLength)
				}
			})
		}
	}
}

func checkSmall(t *testing.T, m wrapper, report chunk.Report, length int) {
	if report.Small > report.Copied || report.Small > 0 && (m.slow || length >= 32<<10) {
		t.Errorf("%+v of a file of %d bytes", report, length)
	}
	hidden := m.slow || runtime.GOOS != "linux" && report.Small == 0
	if err := report.FastPath(); (err != nil) != (hidden && report.Bytes > 3<<10) {
		t.Errorf("%+v: %v", report, err)
	}
}

// A part of a file is Small if it is copied for that, and not if it had to be. A longer one is sent.
func TestCopySmallPartOfAFile(t *testing.T) {
	f := fileOf(t, someBytes(10_000))
	for _, m := range wrappers {
		for _, size := range []int64{1, 3 << 10, 3<<10 + 1} {
			t.Run(fmt.Sprint(m.name, ", ", size), func(t *testing.T) {
				reports := make(chan chunk.Report, 1)
				url := serveWith(t, m, func(w http.ResponseWriter, r *http.Request) {
					report, err := chunk.Copy(r.Context(), w, io.NewSectionReader(f, 5, size))
					if err != nil || report.Bytes != size {
						t.Errorf("%+v, %v", report, err)
					}
					reports <- report
				})
				fetch(t, "GET", url)
				small := size
				if m.slow || size > 3<<10 {
					small = 0
				}
				if report := <-reports; report.Small != small {
					t.Errorf("%+v", report)
				}
			})
		}
	}
}

// A file that is not as long as it was said to be is left to others, untouched, if it is longer, and otherwise copied as
// it is.
func TestCopySmallFileOfAnotherLength(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool)
	for said, copied := range map[int64]bool{0: false, 1: false, 992: false, 993: true, 1000: true, 20_000: true, 32 << 10: false} {
		f := fileOf(t, someBytes(1000))
		_, _ = f.Seek(7, io.SeekStart)
		w := httptest.NewRecorder()
		got, err := chunk.SmallToResponse(w, f, said)
		if err != nil || got != copied || copied != (w.Body.Len() == 993) {
			t.Errorf("said to be %d: %t, %v, %d bytes", said, got, err, w.Body.Len())
		}
		want := int64(7)
		if copied {
			want = 1000
		}
		if at, _ := f.Seek(0, io.SeekCurrent); at != want {
			t.Errorf("said to be %d: the file is at %d, not %d", said, at, want)
		}
	}
}

// What is not sent because it could not be, without a length, is not Small; and what there is nothing of is no error.
func TestCopySmallFileThatCouldNotBeSent(t *testing.T) {
	f, done := fileOf(t, someBytes(10_000)), make(chan struct{})
	url := serveWith(t, wrappers[0], func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		w.WriteHeader(http.StatusOK)
		report, err := chunk.Copy(r.Context(), w, f)
		if err != nil || report != (chunk.Report{Bytes: 10_000, Copied: 10_000}) || report.FastPath() == nil {
			t.Errorf("%+v, %v", report, err)
		}
		if ok, err := chunk.SmallToResponse(w, f, 10_000); !ok || err != nil {
			t.Errorf("at the end of the file: %t, %v", ok, err)
		}
	})
	if _, body := fetch(t, "GET", url); len(body) != 10_000 {
		t.Errorf("%d bytes", len(body))
	}
	<-done
}

// A responseThatTakes is one that fails when it has taken some bytes.
type responseThatTakes struct {
	http.ResponseWriter
	left   int
	panics bool
}

func (r *responseThatTakes) Write(p []byte) (int, error) {
	n := min(len(p), r.left)
	r.left -= n
	if n < len(p) {
		if r.panics {
			panic("no more")
		}
		return n, errors.New("no more")
	}
	return n, nil
}

// What a response did not take is read again by the next one.
func TestCopySmallFileToResponseThatFails(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool)
	data := someBytes(10_000)
	for _, c := range []struct {
		w  http.ResponseWriter
		at int64
	}{
		{&responseThatTakes{httptest.NewRecorder(), 4000, false}, 4000},
		{&responseThatTakes{httptest.NewRecorder(), 0, false}, 0},
		{&responseThatTakes{httptest.NewRecorder(), 4000, true}, 0}, // nobody knows what it took
		{withLength(httptest.NewRecorder(), 6000), 6000},
	} {
		f := fileOf(t, data)
		func() {
			defer func() { _ = recover() }()
			report, err := chunk.Copy(t.Context(), c.w, f)
			if err == nil || report.Bytes != c.at {
				t.Errorf("%+v, %v, and it took %d", report, err, c.at)
			}
		}()
		if at, _ := f.Seek(0, io.SeekCurrent); at != c.at {
			t.Errorf("the file is at %d, and %d were taken", at, c.at)
		}
		rest := new(bytes.Buffer)
		if _, err := chunk.Copy(t.Context(), rest, f); err != nil || !bytes.Equal(rest.Bytes(), data[c.at:]) {
			t.Errorf("the rest is %d bytes, %v", rest.Len(), err)
		}
	}
}

func withLength(w http.ResponseWriter, n int) http.ResponseWriter {
	w.Header().Set("Content-Length", strconv.Itoa(n))
	return w
}
