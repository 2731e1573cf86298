package download

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// leftOf prepares a download whose .part has the first 600 of these bytes, of address.
func leftOf(t *testing.T, address string, content []byte, o origin) *fetch {
	t.Helper()
	f := newFetch(t, address)
	f.Retries = 1
	at := originAt(address)
	o.URL, o.Place = at.URL, at.Place
	if err := (&part{path: f.Path}).remember(o); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Path+partSuffix, content[:600], 0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

// The bytes of another address are neither used nor thrown away unasked, and the server is not asked before that is said.
func TestAnotherAddress(t *testing.T) {
	old, content := noise(1, 1000), noise(2, 700)
	s := &site{content: content, etag: `"v1"`}
	url := start(t, s)
	tagged := origin{ETag: `"v1"`, Length: 1000}
	for _, tt := range []struct {
		name, address string
		o             origin
		says          string
	}{
		{"path", url + "2", tagged, fmt.Sprintf("file.part is of %q: --force discards it, and another FILE", url+"2")},
		{"host", "http://u:secret@example.org/file?secret", tagged, `is of "http://example.org/file": --force`},
		{"scheme", strings.Replace(url, "http", "https", 1), tagged, `is of "https://127.0.0.1:`},
		{"query, and a date", url + "?secret", origin{Modified: longAgo.Format(http.TimeFormat), Length: 1000}, "with another query"},
		{"query, and no length", url + "?secret", origin{ETag: `"v1"`, Length: unknown}, "with another query"},
		{"too long to be kept", url + strings.Repeat("x", maxPlace), tagged, "file.part is of another address: --force"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(s.requests())
			f := leftOf(t, tt.address, old, tt.o)
			info, err := os.ReadFile(f.Path + infoSuffix)
			if err != nil || bytes.Contains(info, []byte("secret")) {
				t.Errorf("%s, %v", info, err)
			}
			kept := func() {
				t.Helper()
				f.holds(partSuffix, old[:600])
				f.holds(infoSuffix, info)
			}
			f.URL = url
			_, err = Run(t.Context(), f.Config)
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "secret") ||
				strings.Contains(err.Error(), "same command") {
				t.Errorf("%v, want %q", err, tt.says)
			}
			if n := len(s.requests()); n != before {
				t.Errorf("%d requests", n-before)
			}
			kept()

			// Not even --force throws them away before the file comes.
			f.Force = true
			for status := range map[int]bool{404: true, 503: true, 206: true, 416: true} {
				s.serve = func(_ int, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true }
				f.fails(t.Context())
				kept()
			}
			s.serve = nil
			if r := f.succeeds(t.Context(), content); r.Resumed != 0 || r.Fetched != 700 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// An address that differs in its query is gone on with if the answer shows that it has the same file, and only then.
func TestARenewedAddress(t *testing.T) {
	content := noise(1, 1000)
	part := func(etag, contentRange string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Etag"] = []string{etag}
			w.Header().Set("Content-Range", contentRange)
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(content[600:])
		}
	}
	whole := func(etag string, status int, length string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Etag"] = []string{etag}
			if length != "" {
				w.Header().Set("Content-Length", length)
			}
			w.WriteHeader(status)
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(content)
		}
	}
	for _, tt := range []struct {
		name  string
		first func(http.ResponseWriter, *http.Request)
		same  bool
	}{
		{"the same part", part(`"v1"`, "bytes 600-999/1000"), true},
		{"the same whole", whole(`"v1"`, 200, "1000"), true},
		{"a part without a tag", part("", "bytes 600-999/1000"), false},
		{"a part of another tag", part(`"v2"`, "bytes 600-999/1000"), false},
		{"a part of a weak tag", part(`W/"v1"`, "bytes 600-999/1000"), false},
		{"a part of unknown whole", part(`"v1"`, "bytes 600-999/*"), false},
		{"a part of another whole", part(`"v1"`, "bytes 600-999/2000"), false},
		{"another whole", whole(`"v2"`, 200, "1000"), false},
		{"a whole without a tag", whole("", 200, "1000"), false},
		{"a whole without a length", whole(`"v1"`, 200, ""), false},
		{"nothing behind it", whole(`"v1"`, 416, ""), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{content: content, etag: `"v1"`}
			url := start(t, s)
			first := func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Range") != "bytes=600-" || r.Header.Get("If-Range") != `"v1"` {
					return false
				}
				tt.first(w, r)
				return true
			}
			s.serve = first
			f := leftOf(t, url+"?signature=1", content, origin{ETag: `"v1"`, Length: 1000})
			f.URL = url + "?signature=2"
			if tt.same {
				if r := f.succeeds(t.Context(), content); r.Resumed != 600 || r.Tries != 1 || !r.Checked {
					t.Errorf("%+v", r)
				}
				return
			}
			_, err := Run(t.Context(), f.Config)
			if err == nil || !strings.Contains(err.Error(), "with another query, and not for certain") ||
				strings.Contains(err.Error(), "same command") {
				t.Error(err)
			}
			f.holds(partSuffix, content[:600])
			f.Force = true
			f.succeeds(t.Context(), content)
		})
	}
}

// What is there of a renewed address stays while the server cannot be asked, and is then the new address's.
func TestARenewedAddressOfABusyServer(t *testing.T) {
	content, other := noise(1, 1000), noise(2, 1000)
	s := &site{content: content, etag: `"v1"`}
	busy := func(_ int, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
	s.serve = busy
	left := 100
	url := start(t, &cutter{s, func() int { return left }})
	f := leftOf(t, url, content, origin{ETag: `"v1"`, Length: 1000})
	f.URL, f.Retries = url+"?signature=2", 0
	f.fails(t.Context(), "503", ".part has 600 bytes")
	if strings.Contains(f.err.Error(), "the same command") {
		t.Error(f.err, "and nobody has said yet that it is the same file")
	}
	f.holds(partSuffix, content[:600])
	s.serve = nil
	f.fails(t.Context(), "has 700 bytes", "the same command goes on")
	s.change(other, `"v2"`)
	left = -1
	f.succeeds(t.Context(), other)
	f.told("not what it was")
}

// What an answer shows to be useless stays nevertheless until the file comes.
func TestUselessBytesStayUntilTheFileComes(t *testing.T) {
	content := noise(1, 1000)
	for name, useless := range map[string]func(http.ResponseWriter){
		"416": func(w http.ResponseWriter) { w.WriteHeader(416) },
		"206": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 600-999/1000")
			w.Header().Set("Etag", `"v2"`)
			w.WriteHeader(206)
			_, _ = w.Write(content[600:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{content: content, etag: `"v2"`}
			s.serve = func(n int, w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Range") != "" {
					useless(w)
				} else {
					w.WriteHeader(http.StatusBadGateway)
				}
				return true
			}
			f := leftOf(t, start(t, s), noise(2, 1000), origin{ETag: `"v1"`, Length: 1000})
			f.fails(t.Context(), "502")
			f.holds(partSuffix, noise(2, 1000)[:600])
			s.serve = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Range") != "" {
					useless(w)
					return true
				}
				return false
			}
			f.notes = nil
			f.succeeds(t.Context(), content)
			if n := strings.Count(strings.Join(f.notes, "\n"), "beginning anew"); n != 1 {
				t.Errorf("%q", f.notes)
			}
		})
	}
}

func TestPlaceOf(t *testing.T) {
	for address, want := range map[string]string{
		"http://user:secret@Example.ORG:8080/a%2Fb/c?secret=1#secret": "http://example.org:8080/a%2Fb/c",
		"https://example.org":                   "https://example.org",
		"http://example.org/\x7f":               "",
		"http://h/" + strings.Repeat("x", 2039): "http://h/" + strings.Repeat("x", 2039),
		"http://h/" + strings.Repeat("x", 2040): "",
	} {
		if got := placeOf(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

// The longest origin that can be written can be read again.
func TestTheLongestInfo(t *testing.T) {
	f := newFetch(t, "http://h/"+strings.Repeat("&", 2039))
	o := originAt(f.URL)
	o.ETag, o.Length = `"`+strings.Repeat("<", maxValidator-2)+`"`, 1<<61
	o.Modified, o.Encoding = strings.Repeat("<", maxValidator), strings.Repeat("<", maxValidator)
	p := &part{path: f.Path}
	if err := p.remember(o); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Path+partSuffix, []byte("bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	have, known, err := p.open(originAt(f.URL))
	if err != nil || have != 5 || known != o {
		t.Fatalf("%d bytes of %+v, %v", have, known, err)
	}
	if at, err := p.file.Seek(0, io.SeekCurrent); err != nil || at != 5 {
		t.Errorf("at %d, %v", at, err)
	}
	_ = p.close()
}
