package chunk_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// The client gets the status that the handler sets, and the header fields that a middleware adds.
func TestStatusBehindWrappers(t *testing.T) {
	root, _ := makeTree(t, map[string]string{"a.bin": string(someBytes(300_000))})
	served := make(chan chunk.Report, 1)
	files := chunk.FileServer(root, chunk.OnServed(func(_ *http.Request, sent chunk.Report, _ int) {
		served <- sent
	}))
	copies := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNonAuthoritativeInfo)
		if _, err := chunk.Copy(r.Context(), w, fileOf(t, someBytes(300_000))); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		name    string
		handler http.Handler
		ranges  string
		status  int
		span    string // Content-Range
	}{
		{"Copy", copies, "", 203, ""},
		{"whole", files, "", 200, ""},
		{"part", files, "bytes=5-100000", 206, "bytes 5-100000/300000"},
		{"parts", files, "bytes=0-10,50000-90000", 206, ""},
		{"no part", files, "bytes=300000-", 416, "bytes */300000"},
	} {
		for _, m := range wrappers {
			if m.name == "hooks" && test.status == 416 {
				continue // the middleware requires that the body is copied through it
			}
			t.Run(m.name+", "+test.name, func(t *testing.T) {
				url := serveWith(t, m, test.handler.ServeHTTP)
				resp, body := fetch(t, "GET", url+"/a.bin", "Range", test.ranges, "Accept-Encoding",
					"gzip")
				if span := resp.Header.Get("Content-Range"); resp.StatusCode != test.status ||
					span != test.span {
					t.Errorf("%s, %q, want %d and %q", resp.Status, span, test.status, test.span)
				}
				if kept := strings.HasPrefix(m.name,
					"keeps"); kept != (resp.Header.Get("X-Kept") == "yes") {
					t.Errorf("the header %q kept or lost what the handler had set", resp.Header)
				}
				if test.name != "Copy" {
					sent := <-served
					whole := test.name == "whole" || test.name == "part"
					if whole && (sent.FastPath() == nil) == m.slow && runtime.GOOS == "linux" {
						t.Errorf("%+v, behind one that must see the body: %v", sent, m.slow)
					}
				}
				if resp.ContentLength >= 0 && int64(len(body)) != resp.ContentLength {
					t.Errorf("%d bytes of %d", len(body), resp.ContentLength)
				}
			})
		}
	}
}
