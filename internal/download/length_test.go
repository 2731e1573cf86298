package download

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A server that says no length: the first answer breaks off after 500 bytes of 1000.
func TestUnknownLength(t *testing.T) {
	content := noise(1, 1000)
	type answer = func(http.ResponseWriter)
	part := func(from, to int, all string) answer {
		return func(w http.ResponseWriter) {
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%s", from, to-1, all))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[from:to])
		}
	}
	end := func(etag, contentRange string) answer {
		return func(w http.ResponseWriter) {
			for k, v := range map[string]string{"Etag": etag, "Content-Range": contentRange} {
				if v != "" {
					w.Header().Set(k, v)
				}
			}
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}
	}
	whole := func(n int, length string) answer {
		return func(w http.ResponseWriter) {
			w.Header().Set("Etag", `"v1"`)
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(content[:n])
		}
	}
	for _, tt := range []struct {
		name    string
		answers []answer // to the second request, and so on; the last one to all further ones
		asked   string   // the second Range, and so on
		checked bool
		told    string // "!word": not told
	}{
		{"parts, and then nothing behind them", []answer{part(500, 600, "*"), part(600, 1000, "*"), end(`"v1"`, "bytes */1000")},
			"bytes=500- bytes=600- bytes=1000-", true, "does not say of how much"},
		{"nothing behind them, without a length", []answer{part(500, 1000, "*"), end(`"v1"`, "")}, "bytes=500- bytes=1000-", false, ""},
		{"nothing behind them, of nobody knows what", []answer{part(500, 1000, "*"), end("", ""), whole(1000, "")},
			"bytes=500- bytes=1000- ", false, "beginning anew"},
		{"nothing behind them, of another version", []answer{part(500, 600, "*"), end(`"v2"`, "bytes */600"), whole(1000, "")},
			"bytes=500- bytes=600- ", false, "beginning anew"},
		{"parts, and then one that says of how much", []answer{part(500, 600, "*"), part(600, 700, "1000"), part(700, 1000, "*")},
			"bytes=500- bytes=600- bytes=700-", true, ""},
		{"parts, and then all of it", []answer{part(500, 600, "*"), whole(1000, "")}, "bytes=500- bytes=600-", false, "reading again"},
		{"all of it, and how much that is", []answer{whole(1000, "1000")}, "bytes=500-", true, "reading again"},
		{"all of it, of the same tag", []answer{whole(1000, "")}, "bytes=500-", false, "!not what it was"},
		{"less than there is already", []answer{whole(400, ""), whole(1000, "")}, "bytes=500- ", false, "beginning anew"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{}
			s.serve = func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n == 1 {
					whole(500, "")(w)
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
				tt.answers[min(n-2, len(tt.answers)-1)](w)
				return true
			}
			f := newFetch(t, start(t, s))
			if r := f.succeeds(t.Context(), content); r.Checked != tt.checked {
				t.Errorf("%+v", r)
			}
			if asked := strings.Join(s.requests()[1:], " "); asked != tt.asked {
				t.Errorf("asked for %q, want %q", asked, tt.asked)
			}
			if word, not := strings.CutPrefix(tt.told, "!"); !not {
				f.told(word)
			} else if strings.Contains(strings.Join(f.notes, "\n"), word) {
				t.Errorf("%q", f.notes)
			}
		})
	}
}

// A length that was told once is known for good: it bounds an answer of the same version that says none.
func TestALengthToldOnce(t *testing.T) {
	content := noise(1, 1001)
	for n, says := range map[int]string{999: "given up", 1000: "", 1001: "more bytes"} {
		s := &site{content: content[:1000], etag: `"v1"`}
		s.serve = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Etag", `"v1"`)
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(content[:n])
			return true
		}
		f := leftOf(t, start(t, s), content, origin{ETag: `"v1"`, Length: 1000})
		if says != "" {
			f.fails(t.Context(), says)
		} else if r := f.succeeds(t.Context(), content[:1000]); !r.Checked {
			t.Errorf("%+v", r)
		}
	}
}
