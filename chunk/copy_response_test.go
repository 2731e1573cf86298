package chunk_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// exchange sends raw requests on one connection, and returns all bytes of the responses.
func exchange(t *testing.T, url, requests string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	must(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, requests); err != nil {
		t.Fatal(err)
	}
	raw, _ := io.ReadAll(conn)
	return string(raw)
}

func request(line string, header ...string) string {
	return line + "\r\nHost: x\r\n" + strings.Join(append(header, "\r\n"), "\r\n")
}

// Responses without a body, and responses whose length differs from the file's.
func TestCopyToUnusualResponses(t *testing.T) {
	data := someBytes(100_000)
	last := request("GET /ok HTTP/1.1", "Connection: close")
	for _, test := range []struct {
		name   string
		first  string
		before func(w http.ResponseWriter)
		limit  int64 // limit of the source, or 0
		want   error
		taken  int64 // bytes read from the file
		body   int   // length that the client sees
		kept   bool  // the connection stays open
	}{
		{"exact length", request("GET / HTTP/1.1"), nil, 0, nil, 100_000, 100_000, true},
		{"a part", request("GET / HTTP/1.1"), nil, 70_000, nil, 70_000, 70_000, true},
		{"small", request("GET / HTTP/1.1"), nil, 1000, nil, 1000, 1000, true},
		{"HEAD", request("HEAD / HTTP/1.1"), nil, 0, nil, 100_000, 0, true},
		{"HTTP/1.0", request("GET / HTTP/1.0"), nil, 0, nil, 100_000, 100_000, false},
		{"304", request("GET / HTTP/1.1"), func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotModified)
		}, 0, http.ErrBodyNotAllowed, 0, 0, true},
		{"204", request("GET / HTTP/1.1"), func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNoContent)
		}, 0, http.ErrBodyNotAllowed, 0, 0, true},
		{"shorter than the file", request("GET / HTTP/1.1"), func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "5000")
		}, 0, http.ErrContentLength, 5000, 5000, true},
		{"longer than the file", request("GET / HTTP/1.1"), func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "200000")
		}, 0, nil, 100_000, 100_000, false},
		{"no number", request("GET / HTTP/1.1"), func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "many")
		}, 0, nil, 100_000, -1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := fileOf(t, data)
			url := serveWith(t, wrappers[0], func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/ok" {
					_, _ = io.WriteString(w, "the next one")
					return
				}
				if test.before != nil {
					test.before(w)
				}
				var src io.Reader = f
				if test.limit > 0 {
					src = io.LimitReader(f, test.limit)
				}
				report, err := chunk.Copy(context.Background(), w, src)
				if err != test.want || report.Bytes != test.taken {
					t.Errorf("Copy = %+v, %v, want %v and %d bytes", report, err, test.want,
						test.taken)
				}
				if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != test.taken {
					t.Errorf("the file is at %d, %v", at, err)
				}
			})
			raw := exchange(t, url, test.first+last)
			_, body, _ := strings.Cut(raw, "\r\n\r\n")
			if kept := strings.HasSuffix(raw, "the next one"); kept != test.kept {
				t.Errorf("the connection was kept: %t", kept)
			}
			if test.body >= 0 {
				if next := strings.Index(body, "HTTP/1.1 200"); test.kept && next >= 0 {
					body = body[:next]
				}
				if body != string(data[:test.body]) {
					t.Errorf("%d other bytes", len(body))
				}
			}
		})
	}
}

// Copy reads no more bytes from a connection than the response may have, except for one byte that
// shows that there are more.
func TestCopyStreamThatIsTooLongToResponse(t *testing.T) {
	data := someBytes(100_000)
	for _, src := range copySources {
		if src.kind != "stream" || runtime.GOOS != "linux" {
			continue
		}
		t.Run(src.name, func(t *testing.T) {
			in := src.open(t, data)
			done := make(chan struct{})
			url := serveWith(t, wrappers[0], func(w http.ResponseWriter, _ *http.Request) {
				defer close(done)
				w.Header().Set("Content-Length", "60000")
				report, err := chunk.Copy(context.Background(), w, in)
				if err != http.ErrContentLength || report.Bytes != 60_000 {
					t.Errorf("Copy = %+v, %v, want http.ErrContentLength and 60,000 bytes", report,
						err)
				}
			})
			if _, body := fetch(t, "GET", url); !bytes.Equal(body, data[:60_000]) {
				t.Errorf("%d other bytes", len(body))
			}
			<-done
			rest, err := io.ReadAll(in)
			if err != nil || len(rest) > 0 && !bytes.Equal(rest, data[60_001:]) {
				t.Errorf("%d bytes were left, %v", len(rest), err)
			}
		})
	}
}

func TestCopyToHijackedResponse(t *testing.T) {
	data := someBytes(100_000)
	f := fileOf(t, data)
	url := serveWith(t, wrappers[0], func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if report, err := chunk.Copy(context.Background(), w, f); err != http.ErrHijacked ||
			report.Bytes != 0 {
			t.Errorf("Copy = %+v, %v, want http.ErrHijacked and no bytes", report, err)
		}
		if at, _ := f.Seek(0, io.SeekCurrent); at != 0 {
			t.Errorf("the file is at %d", at)
		}
		if _, err := chunk.Copy(context.Background(), conn, f); err != nil {
			t.Error(err)
		}
	})
	if raw := exchange(t, url, request("GET / HTTP/1.1")); raw != string(data) {
		t.Errorf("%d other bytes", len(raw))
	}
}
