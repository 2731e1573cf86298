package chunk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

// TestFileServerDeadline: a body ends at the deadline of a middleware, also if nobody takes it, and then never looks whole.
func TestFileServerDeadline(t *testing.T) {
	root, _ := makeTree(t, nil)
	content := bytes.Repeat(letters, 64) // more than sockets hold
	must(t, root.WriteFile("a.bin", content, 0o644))
	h := newFiles(t, root)
	for _, c := range []struct {
		name             string
		tls, two, packed bool
	}{
		{"1", false, false, false},
		{"1, encoded", false, false, true},
		{"1, TLS", true, false, false},
		{"2", true, true, false},
		{"2, encoded", true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			passed, done := make(chan struct{}), make(chan struct{})
			url, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(done)
				ctx, cancel := context.WithTimeout(r.Context(), soon)
				defer cancel()
				context.AfterFunc(ctx, func() { close(passed) })
				if c.packed {
					w.Header().Set("Content-Encoding", "gzip")
					z, _ := gzip.NewWriterLevel(w, gzip.NoCompression)
					w = &packer{w, z}
				}
				h.ServeHTTP(w, r.WithContext(ctx))
			}), c.tls, c.two)
			res, err := client.Get(url + "/a.bin")
			if err != nil {
				<-done
				return // ended before the header was sent
			}
			defer res.Body.Close()
			<-passed // and not done: a connection of TLS that nobody reads takes 5 s to close
			defer func() { <-done }()
			time.Sleep(soon) // what ends the transfer hears of the deadline at the same time, on another goroutine
			if n, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Errorf("%d bytes of %d, and no error", n, len(content))
			}
		})
	}
}

// TestFileServerDeadlineAhead: one that has not come when all is sent changes nothing, nor does a client that has closed its
// half of the connection.
func TestFileServerDeadlineAhead(t *testing.T) {
	root, _ := makeTree(t, tree)
	h := newFiles(t, root)
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	}), false, false)
	want, _ := serve(t, reference(root, ""), false, false)
	request := "GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\nGET /plain.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	if got, expected := converse(t, url, request), converse(t, want, request); got != expected {
		t.Errorf("%.300q\nwant\n%.300q", got, expected)
	}
}
