package download

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Wherever the connection breaks, and with whatever validator, the file is whole in the end, and no byte but what was on
// its way when it broke comes twice.
func TestCutAtEveryByte(t *testing.T) {
	content := noise(1, 40)
	for _, tt := range []struct {
		name, etag string
		modified   time.Time
	}{{"etag", `"v1"`, time.Time{}}, {"date", "", longAgo}} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{content: content, etag: tt.etag, modified: tt.modified}
			var k int
			url := start(t, &cutter{s, func() int { return k }})
			for k = 1; k <= len(content)+1; k++ {
				s.asked = nil
				f := newFetch(t, url)
				r := f.succeeds(t.Context(), content)
				if want := max(1, (len(content)+k-1)/k); r.Tries != want || r.Fetched != int64(len(content)) || !r.Checked {
					t.Errorf("cut after each %d bytes: %+v, want %d tries", k, r, want)
				}
				for i, asked := range s.requests() {
					if want := fmt.Sprintf("bytes=%d-", i*k); i > 0 && asked != want {
						t.Errorf("request %d is for %q, want %q", i, asked, want)
					}
				}
			}
		})
	}
}

// Each run goes on where the last one broke off.
func TestAcrossRuns(t *testing.T) {
	content := noise(1, 1<<20)
	s := &site{content: content, etag: `"v1"`}
	f := newFetch(t, start(t, &cutter{s, func() int { return 300_000 }}))
	f.Retries = 0
	for i := 1; i <= 3; i++ {
		f.fails(t.Context(), "given up after 1 try (--retries 0)", fmt.Sprintf("%s has %d bytes", f.Path+".part", i*300_000), "goes on")
		f.holds(".part", content[:i*300_000])
	}
	if r := f.succeeds(t.Context(), content); r.Resumed != 900_000 || r.Fetched != int64(len(content))-900_000 {
		t.Errorf("%+v", r)
	}
}

// What is all there is not fetched again, only asked for: by a server that says 416, and by one that knows no ranges.
func TestThePartIsComplete(t *testing.T) {
	content := noise(1, 1000)
	for _, ranges := range []bool{true, false} {
		s := &site{content: content, etag: `"v1"`}
		f := newFetch(t, start(t, s))
		if !ranges {
			s.serve = func(_ int, _ http.ResponseWriter, r *http.Request) bool { r.Header.Del("Range"); return false }
		}
		p := &part{path: f.Path}
		if _, _, err := p.open(originAt(f.URL)); err != nil {
			t.Fatal(err)
		}
		o := originAt(f.URL)
		o.ETag, o.Length = `"v1"`, 1000
		_ = p.remember(o)
		_, _ = p.file.Write(content)
		_ = p.close()
		if r := f.succeeds(t.Context(), content); r.Resumed != 1000 || r.Tries != 1 || ranges && r.Fetched != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// A file that changes between two tries, or between two runs, is started over.
func TestTheFileChanges(t *testing.T) {
	one, two := noise(1, 1000), noise(2, 700)
	for name, runs := range map[string]int{"between tries": 1, "between runs": 2} {
		t.Run(name, func(t *testing.T) {
			s := &site{content: one, etag: `"v1"`}
			s.serve = func(n int, _ http.ResponseWriter, _ *http.Request) bool {
				if n == 2 {
					s.change(two, `"v2"`)
				}
				return false
			}
			left := 600
			f := newFetch(t, start(t, &cutter{s, func() int { defer func() { left = -1 }(); return left }}))
			if runs == 2 {
				f.Retries = 0
				f.fails(t.Context(), "has 600 bytes")
				f.Retries = 5
			}
			f.succeeds(t.Context(), two)
			f.told("not what it was")
		})
	}
}

// A file that changes all the time is given up.
func TestTheFileAlwaysChanges(t *testing.T) {
	s := &site{}
	s.serve = func(n int, _ http.ResponseWriter, _ *http.Request) bool {
		s.change(noise(byte(n), 1000), fmt.Sprintf(`"v%d"`, n))
		return false
	}
	f := newFetch(t, start(t, &cutter{s, func() int { return 600 }}))
	if r := f.fails(t.Context(), "given up"); r.Tries > 2*f.Retries {
		t.Errorf("%+v", r)
	}
}

// Servers that do not do as they say.
func TestLiars(t *testing.T) {
	content := noise(1, 1000)
	part := func(contentRange string, body []byte, h ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", contentRange)
			for i := 0; i < len(h); i += 2 {
				w.Header().Set(h[i], h[i+1])
			}
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(body)
		}
	}
	rest := content[600:]
	for _, tt := range []struct {
		name   string
		second func(http.ResponseWriter) // the answer to the request for what comes behind 600 bytes
		says   string                    // the error; "": the file is whole in the end
		told   string
	}{
		{"an earlier start", part("bytes 500-999/1000", content[500:]), "behind 600 bytes, and sends what comes behind 500", ""},
		{"a later start", part("bytes 601-999/1000", content[601:]), "what comes behind 601", ""},
		{"no Content-Range", part("", rest), "Content-Range", ""},
		{"nonsense", part("bytes 600-99999999999999999999/1000", rest), "Content-Range", ""},
		{"several parts", part("", rest, "Content-Type", "multipart/byteranges; boundary=x"), "Content-Range", ""},
		{"another length of the part", part("bytes 600-799/1000", rest), "sends 400 bytes, and says that they are 200", ""},
		{"more bytes, in chunks", part("bytes 600-999/1000", append(rest, 'x'), "Transfer-Encoding", "chunked"), "more bytes", ""},
		{"fewer bytes, in chunks", part("bytes 600-999/1000", rest[:300], "Transfer-Encoding", "chunked"), "", "unexpected EOF"},
		{"a shorter part", part("bytes 600-799/1000", rest[:200]), "", "a part only"},
		{"a part of unknown whole", part("bytes 600-999/*", rest), "", ""},
		{"another whole", part("bytes 600-999/2000", rest), "", "beginning anew"},
		{"another version", part("bytes 600-999/1000", rest, "Etag", `"v2"`), "", "beginning anew"},
		{"an encoded part", part("bytes 600-999/1000", rest, "Content-Encoding", "br"), "", "beginning anew"},
		{"416 for what there is", func(w http.ResponseWriter) { w.WriteHeader(416) }, "", "beginning anew"},
		{"416 of a shorter file", func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes */600")
			w.WriteHeader(416)
		}, "", "beginning anew"},
		{"the whole", func(w http.ResponseWriter) {
			w.Header().Set("Etag", `"v1"`)
			_, _ = w.Write(content)
		}, "", "reading again"},
		{"the whole, unnamed", func(w http.ResponseWriter) { _, _ = w.Write(content) }, "", "not what it was"},
		{"no content", func(w http.ResponseWriter) { w.WriteHeader(204) }, "204", ""},
		{"not found", func(w http.ResponseWriter) { http.Error(w, "gone\x1b[31m\nfor good", 404) }, `"gone\x1b[31m"`, ""},
		{"busy", func(w http.ResponseWriter) { http.Error(w, "later", http.StatusServiceUnavailable) }, "", "503"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{content: content, etag: `"v1"`}
			s.serve = func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n == 2 {
					tt.second(w)
				}
				return n == 2
			}
			left := 600
			f := newFetch(t, start(t, &cutter{s, func() int { defer func() { left = -1 }(); return left }}))
			if tt.says == "" {
				f.succeeds(t.Context(), content)
				f.told(tt.told)
				return
			}
			f.fails(t.Context(), tt.says, ".part has ")
			if f.err != nil && strings.Contains(f.err.Error(), "the same command") {
				t.Errorf("%v: the server would say so again", f.err)
			}
			if p, err := os.ReadFile(f.Path + ".part"); err != nil || !bytes.HasPrefix(content, p[:min(len(p), len(content))]) {
				t.Errorf("%d bytes are kept, %v", len(p), err)
			}
		})
	}
}

func TestAPartThatWasNotAskedFor(t *testing.T) {
	f := newFetch(t, start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-4/10")
		w.WriteHeader(206)
		_, _ = io.WriteString(w, "01234")
	})))
	f.fails(t.Context(), "was asked for all of it")
	if names := f.names(); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
}

// What a failed run promises is what the next one does.
func TestProspects(t *testing.T) {
	content := noise(1, 1000)
	for _, tt := range []struct {
		name, etag, says string
		change           bool
		resumed          int64
	}{
		{name: "a version", etag: `"v1"`, says: "has 600 bytes, and the same command goes on from there", resumed: 600},
		{name: "no version", says: "has 600 bytes, and the server names no version of the file: the same command begins anew"},
		{name: "another version", etag: `"v1"`, says: "goes on from there", change: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{content: content, etag: tt.etag}
			if tt.etag == "" {
				s.serve = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("Content-Length", strconv.Itoa(len(content)))
					_, _ = w.Write(content)
					return true
				}
			}
			left := 600
			f := newFetch(t, start(t, &cutter{s, func() int { defer func() { left = -1 }(); return left }}))
			f.Retries = 0
			f.fails(t.Context(), tt.says)
			want := content
			if tt.change {
				want = noise(2, 1000)
				s.change(want, `"v2"`)
			}
			if r := f.succeeds(t.Context(), want); r.Resumed != tt.resumed || r.Fetched != 1000-tt.resumed {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A FILE that has come meanwhile is not replaced, and the same command would say so again.
func TestFileComesMeanwhile(t *testing.T) {
	content := noise(1, 1000)
	f := newFetch(t, start(t, &site{content: content, etag: `"v1"`}))
	f.Progress = func(have, _ int64) {
		if have == 1000 {
			_ = os.WriteFile(f.Path, []byte("precious"), 0o600)
		}
	}
	_, err := Run(t.Context(), f.Config)
	if err == nil || !strings.HasSuffix(err.Error(), "is there already: --force replaces it; "+f.Path+".part has 1000 bytes") {
		t.Error(err)
	}
}

// Without a validator there is no going on, and without a length no check.
func TestPoorServers(t *testing.T) {
	content := noise(1, 1000)
	for _, tt := range []struct {
		name    string
		header  http.Header
		checked bool
		told    string
		fetched int64
	}{
		{"no validator", http.Header{"Content-Length": {"1000"}}, true, "names no version", 1600},
		{"a weak tag", http.Header{"Content-Length": {"1000"}, "Etag": {`W/"v1"`}}, true, "names no version", 1600},
		{"a date of just now", http.Header{
			"Content-Length": {"1000"},
			"Date":           {longAgo.Format(http.TimeFormat)},
			"Last-Modified":  {longAgo.Format(http.TimeFormat)},
		}, true, "names no version", 1600},
		{"chunked", http.Header{"Etag": {`"v1"`}}, false, "reading again", 1600},
		{"no ranges", http.Header{"Content-Length": {"1000"}, "Etag": {`"v1"`}}, true, "reading again", 1600},
		{"encoded", http.Header{"Content-Length": {"1000"}, "Content-Encoding": {"gzip"}, "Etag": {`"v1"`}}, true, "kept so", 1600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left := 600
			f := newFetch(t, start(t, &cutter{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for k, v := range tt.header {
					w.Header()[k] = v
				}
				w.WriteHeader(200)
				_ = http.NewResponseController(w.(*cutResponse).ResponseWriter).Flush()
				_, _ = w.Write(content)
			}), func() int { defer func() { left = -1 }(); return left }}))
			if r := f.succeeds(t.Context(), content); r.Checked != tt.checked || r.Tries != 2 || r.Fetched != tt.fetched {
				t.Errorf("%+v", r)
			}
			f.told(tt.told)
		})
	}
}

func TestEmptyFile(t *testing.T) {
	f := newFetch(t, start(t, &site{etag: `"v1"`}))
	if r := f.succeeds(t.Context(), nil); !r.Checked {
		t.Errorf("%+v", r)
	}
}

func TestRedirects(t *testing.T) {
	content := noise(1, 1000)
	mux := http.NewServeMux()
	mux.Handle("/there", &site{content: content, etag: `"v1"`})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="../../elsewhere"`)
		http.Redirect(w, r, "/there", http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/odd", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	url := start(t, &cutter{mux, func() int { return 600 }})
	newFetch(t, url).succeeds(t.Context(), content)
	for path, says := range map[string]string{"/loop": "more than 10 times", "/odd": `"file" URL`} {
		f := newFetch(t, strings.TrimSuffix(url, "/file")+path)
		if r := f.fails(t.Context(), says); r.Tries != 1 {
			t.Errorf("%s: %+v", path, r)
		}
	}
	client, closeIdle := newClient()
	defer closeIdle()
	from, _ := http.NewRequest("GET", "https://example.org/", nil)
	to, _ := http.NewRequest("GET", "http://example.org/", nil)
	if err := client.CheckRedirect(to, []*http.Request{from}); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("from https to http: %v", err)
	}
}

func TestMistakes(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"no http or https URL": func(c *Config) { c.URL = "ftp://example.org/" },
		"cannot be read":       func(c *Config) { c.URL = "http://u:secret@[::1/" },
		`"/etc/passwd" is no`:  func(c *Config) { c.URL = "/etc/passwd" },
		"--retries":            func(c *Config) { c.Retries = -1 },
		"--stall-timeout":      func(c *Config) { c.StallTimeout = 0 },
		"nowhere":              func(c *Config) { c.Path = "" },
	} {
		f := newFetch(t, "http://127.0.0.1:1/")
		change(&f.Config)
		if _, err := Run(t.Context(), f.Config); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// Standard output gets every byte once, or an error.
func TestStandardOutput(t *testing.T) {
	content := noise(1, 1000)
	for _, tt := range []struct {
		name   string
		ranges bool
		second string // the entity tag of the second answer
		says   string
	}{
		{"goes on", true, `"v1"`, ""},
		{"is skipped", false, `"v1"`, ""},
		{"has changed", true, `"v2"`, "stays written; 600 bytes were written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site{content: content, etag: `"v1"`}
			s.serve = func(n int, _ http.ResponseWriter, r *http.Request) bool {
				if !tt.ranges {
					r.Header.Del("Range")
				}
				if n == 2 {
					s.change(content, tt.second)
				}
				return false
			}
			left := 600
			f := newFetch(t, start(t, &cutter{s, func() int { defer func() { left = -1 }(); return left }}))
			var out bytes.Buffer
			f.Path, f.Stdout = "", &out
			_, err := Run(t.Context(), f.Config)
			if tt.says == "" && (err != nil || !bytes.Equal(out.Bytes(), content)) {
				t.Errorf("%d bytes, %v", out.Len(), err)
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || !bytes.Equal(out.Bytes(), content[:600])) {
				t.Errorf("%d bytes, %v", out.Len(), err)
			}
		})
	}
}

// An interruption keeps what there is.
func TestInterrupted(t *testing.T) {
	content := noise(1, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	s := &site{content: content, etag: `"v1"`}
	s.serve = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n > 1 {
			return false
		}
		w.Header().Set("Etag", `"v1"`)
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(content[:600])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
	f := newFetch(t, start(t, s))
	f.Progress = func(have, _ int64) {
		if have == 600 {
			cancel()
		}
	}
	f.fails(ctx, "interrupted; ", "has 600 bytes, and the same command goes on")
	f.holds(".part", content[:600])
	f.Progress = nil
	if r := f.succeeds(t.Context(), content); r.Resumed != 600 {
		t.Errorf("%+v", r)
	}
}
