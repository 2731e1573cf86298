package blob

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// A Range means the same in Redis as in a directory: net/http, given what strictRange makes of it, answers as chunk.FileServer.
func FuzzStrictRange(f *testing.F) {
	for _, header := range []string{
		"bytes=0-0", "bytes=-0", "bytes=-1", "bytes=-00,0-1", "bytes=+1-2", "bytes=1-+2", "bytes=-+2", "bytes=200-+3", "bytes=--1",
		"bytes=-", "bytes=", "bytes=,", "bytes= 1 - 2 ,, -0", "bytes=5", "bytes=a-b", "bytes=-a", "items=0-1", "bytes=100-", "bytes=2-1",
		"bytes=-99999999999999999999", "bytes=99999999999999999999-", "bytes=0-99999999999999999999",
		"bytes=" + strings.Repeat("0-0,", maxRanges-1) + "1-1", "bytes=" + strings.Repeat("0-0,", maxRanges) + "1-1",
		"bytes=" + strings.Repeat("0-0,", maxRanges) + "x", "bytes=" + strings.Repeat("-0,", 100) + "1-1",
	} {
		f.Add(header, uint8(100))
		f.Add(header, uint8(0))
	}
	dir := f.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.Fatal(err)
	}
	files := chunk.FileServer(root)
	f.Cleanup(func() { _, _ = files.Close(), root.Close() })
	f.Fuzz(func(t *testing.T, header string, size uint8) {
		name := strconv.Itoa(int(size)) + ".bin"
		value := bytes.Repeat([]byte("0123456789"), 26)[:size]
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o600); err != nil {
			t.Fatal(err)
		}
		ask := func(h http.Handler, header string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/"+name, nil)
			if header != "" {
				r.Header["Range"] = []string{header}
			}
			h.ServeHTTP(w, r)
			return w
		}
		want := ask(files, header)
		got := ask(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", want.Header().Get("Content-Type"))
			http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(value))
		}), strictRange(header, int64(size)))
		several := strings.HasPrefix(want.Header().Get("Content-Type"), "multipart")
		if got.Code != want.Code || got.Header().Get("Content-Range") != want.Header().Get("Content-Range") ||
			!several && got.Body.String() != want.Body.String() {
			t.Errorf("%q of %d bytes: %d %v %q, want %d %v %q", header, size,
				got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
		}
	})
}

func TestConditions(t *testing.T) {
	for _, tt := range []struct{ in, want http.Header }{
		{http.Header{"If-Match": {`"a"`}}, http.Header{"If-Match": {`"a"`}}},
		{http.Header{"If-Match": {`"a"`, `"b"`}, "X": {"1", "2"}}, http.Header{"If-Match": {`"a", "b"`}, "X": {"1", "2"}}},
		{http.Header{"If-None-Match": {`"a"`, `"b"`}}, http.Header{"If-None-Match": {`"a", "b"`}}},
		{http.Header{"If-Modified-Since": {"x"}, "If-Unmodified-Since": {"y"}, "Range": {"z"}}, http.Header{"Range": {"z"}}},
	} {
		before := tt.in.Clone()
		if got := conditions(tt.in); !reflect.DeepEqual(got, tt.want) || !reflect.DeepEqual(tt.in, before) {
			t.Errorf("%v: %v, want %v", before, got, tt.want)
		}
	}
}
