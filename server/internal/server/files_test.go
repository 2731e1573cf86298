package server

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// serveFiles starts a server with a root that holds files of these sizes, and returns their
// contents. change may be nil.
func serveFiles(t *testing.T, sizes map[string]int, change func(*Config)) (*fixture,
	map[string][]byte) {
	t.Helper()
	root := t.TempDir()
	content := make(map[string][]byte)
	for name, size := range sizes {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		content[name] = make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(content[name])
		if err := os.WriteFile(path, content[name], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, func(c *Config) {
		c.Root = root
		if change != nil {
			change(c)
		}
	}), content
}

// report parses the log line that says how the bytes of a file were sent.
func (f *fixture) report(path string) chunk.Report {
	f.T.Helper()
	line := regexp.MustCompile(`msg="file served" .*path=` + regexp.QuoteMeta(path) +
		` status=\d+ bytes=(\d+) sendfile=(\d+) splice=(\d+) copied=(\d+)`)
	var n [4]int64
	eventually(f.T, "the log line of "+path, func() bool {
		m := line.FindStringSubmatch(f.Log.String())
		for i := range n {
			if m != nil {
				n[i], _ = strconv.ParseInt(m[i+1], 10, 64)
			}
		}
		return m != nil
	})
	return chunk.Report{Bytes: n[0], Sendfile: n[1], Splice: n[2], Copied: n[3]}
}

// The server's wrappers around its handlers do not hide the connection: files are sent with
// sendfile.
func TestFilesGoBySendfile(t *testing.T) {
	f, content := serveFiles(t, map[string]int{"big": 5 << 20, "small": 100}, nil)
	for _, name := range []string{"big", "small"} {
		res := f.Get("/files/" + name)
		same(t, name, []byte(res.Body), content[name])
		if res.Header.Get("Etag") == "" || strings.HasPrefix(res.Header.Get("Etag"), "W/") {
			t.Errorf("%s: Etag is %q, want a strong one", name, res.Header.Get("Etag"))
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v, want nosniff", name, res.Header)
		}
	}
	if r := f.report("/files/big"); r.Bytes != 5<<20 {
		t.Errorf("the report is %+v, want 5 MiB", r)
	} else if err := r.FastPath(); err != nil && runtime.GOOS == "linux" {
		t.Error(err)
	}
	part := f.Request("GET", "/files/big", "", "Range: bytes=1048576-3145727")
	if part.Status != http.StatusPartialContent {
		t.Errorf("a part of the file: %d, want 206", part.Status)
	}
	same(t, "a part", []byte(part.Body), content["big"][1<<20:3<<20])
	if runtime.GOOS == "linux" {
		n, _ := strconv.ParseFloat(f.metric(`millrace_files_bytes_total{path="sendfile"}`), 64)
		if want := 7<<20 - 2*512.0; n != want { // net/http copies the first 512 bytes of each file
			t.Errorf("%v bytes by sendfile, want %v", n, want)
		}
	}
	for metric, want := range map[string]string{
		`millrace_files_requests_total{status="2xx"}`: "3",
		`millrace_files_downloads`:                    "0",
	} {
		if got := f.metric(metric); got != want {
			t.Errorf("%s is %s, want %s", metric, got, want)
		}
	}
}

func TestFilesStatus(t *testing.T) {
	f, _ := serveFiles(t, map[string]int{"a": 10, "dir/b": 10, "site/index.html": 10}, nil)
	listed, _ := serveFiles(t, map[string]int{"dir/b": 10},
		func(c *Config) { c.FilesListing = true })
	bare := serve(t, nil)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(f.cfg.Root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		on                   *fixture
		method, path, header string
		want                 int
		says                 string
	}{
		{f, "GET", "/files/a", "", 200, ""},
		{f, "HEAD", "/files/a", "", 200, ""},
		{f, "GET", "/files/a", "Range: bytes=4-", 206, ""},
		{f, "GET", "/files/a", "Range: bytes=10-", 416, ""},
		{f, "GET", "/files/nothing", "", 404, "404"},
		{f, "GET", "/files/dir/", "", 403, "no index.html"},
		{f, "GET", "/files/", "", 403, "403"},
		{f, "GET", "/files", "", 403, "403"},       // redirected
		{f, "GET", "/files/site", "", 200, ""},     // redirected
		{f, "GET", "/files/link", "", 404, "404"},  // outside the root
		{f, "GET", "/files/%00", "", 404, "404"},   // no file can have such a name
		{f, "POST", "/files/a", "", 405, "POST"},   //
		{f, "DELETE", "/files/a", "", 405, "HEAD"}, //
		{f, "GET", "/files/..%2f..%2fetc%2fpasswd", "", 404, ""},
		{f, "GET", "/files/%2e%2e/%2e%2e/etc/passwd", "", 404, ""},
		{listed, "GET", "/files/", "", 200, `<a href="dir/">`},
		{listed, "GET", "/files/dir", "", 200, `<a href="b">`},
		{bare, "GET", "/files/a", "", 404, "--root DIR"},
		{bare, "GET", "/files/", "", 404, "--root DIR"},
		{bare, "POST", "/files/a", "", 405, ""},
		{bare, "GET", "/api/streams", "", 200, `"files":"off"`},
		{f, "GET", "/api/streams", "", 200, `"files":"named"`},
		{listed, "GET", "/api/streams", "", 200, `"files":"listed"`},
	} {
		res := tt.on.Request(tt.method, tt.path, "", tt.header)
		if res.Status != tt.want || !strings.Contains(res.Body, tt.says) ||
			strings.Contains(res.Body, "secret") {
			t.Errorf("%s %s %s: %d %.200q, want %d with %q", tt.method, tt.path, tt.header,
				res.Status, res.Body, tt.want, tt.says)
		}
	}
	if strings.Contains(bare.Get("/metrics").Body, "millrace_files") {
		t.Error("a server without files counts them")
	}
}

func TestFilesPrecompressed(t *testing.T) {
	sizes := map[string]int{"a.txt": 20, "a.txt.gz": 10}
	for on, want := range map[bool]string{false: "", true: "gzip"} {
		f, _ := serveFiles(t, sizes, func(c *Config) { c.FilesPrecompressed = on })
		if res := f.Request("GET", "/files/a.txt", "",
			"Accept-Encoding: gzip"); res.Header.Get("Content-Encoding") != want {
			t.Errorf("precompressed %v: Content-Encoding of %v, want %q", on, res.Header, want)
		}
	}
}

// A client that stops reading in the middle of a file is disconnected, over both versions of HTTP.
// The file is closed, and other clients are not affected.
func TestAStalledDownloadIsCut(t *testing.T) {
	quick := func(c *Config) { c.StallTimeout = time.Second }
	cut := func(t *testing.T, f *fixture) {
		t.Helper()
		f.Logged("download ended", "path=/files/big", "stall-timeout")
		eventually(t, "no downloads", func() bool { return f.files.Held() == 0 })
		if n := f.metric("millrace_files_stalled_total"); n != "1" {
			t.Errorf("%s stalled downloads are counted, want 1", n)
		}
	}
	t.Run("HTTP/1", func(t *testing.T) {
		t.Parallel() // waits most of the time
		f, content := serveFiles(t, map[string]int{"big": 16 << 20}, quick)
		w := f.Ask("/files/big", 4096)
		w.Begin()
		cut(t, f)
		if n, err := io.Copy(io.Discard, w.Res.Body); err == nil || n >= 16<<20 {
			t.Errorf("the client got %d bytes, %v", n, err)
		}
		same(t, "another's", []byte(f.Get("/files/big").Body), content["big"])
	})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel() // waits most of the time
		f, _ := serveFiles(t, map[string]int{"big": 16 << 20}, quick)
		res, err := livetest.HTTP2(t, 64<<10).Get(f.URL("/files/big"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		cut(t, f)
		if n, err := io.Copy(io.Discard, res.Body); err == nil || n >= 16<<20 {
			t.Errorf("the client got %d bytes, %v", n, err)
		}
	})
}

// A client that sends requests and reads nothing is disconnected, too, although each response is so
// short that its handler never waits.
func TestClientThatNeverReadsIsCut(t *testing.T) {
	for _, path := range []string{"/files/small", "/page/app.js"} {
		f, _ := serveFiles(t, map[string]int{"small": 2000},
			func(c *Config) { c.StallTimeout = 200 * time.Millisecond })
		conn := dial(t, f.Addr, 4096)
		_ = conn.SetDeadline(time.Now().Add(testTimeout))
		requests := strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n", 100)
		var err error
		for err == nil {
			_, err = io.WriteString(conn, requests)
		}
		if os.IsTimeout(err) {
			t.Errorf("%s: the connection was not cut", path)
		}
	}
}

// The time limit of short responses does not apply to streams: publishers and viewers may take
// longer.
func TestStreamsHaveNoWriteTimeout(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	f := serve(t, func(c *Config) { c.StallTimeout = limit })
	w := f.Ask("/live/cam", 0) // waits for the stream
	time.Sleep(limit / 2)
	p := f.Publisher("cam")
	piece := bytes.Repeat([]byte("bytes"), 100)
	p.Send(piece)
	w.Begin()
	same(t, "what came at once", w.Next(len(piece)), piece)
	time.Sleep(limit * 5 / 4) // a slow machine may make it longer, which does not matter
	p.Send(piece)
	if res := p.End(); res.Status != 200 {
		t.Errorf("publishing: %d %s, want 200", res.Status, res.Body)
	}
	same(t, "the rest", w.Rest(), piece)
}

func TestDrainTimeoutCutsDownloads(t *testing.T) {
	f, _ := serveFiles(t, map[string]int{"big": 16 << 20},
		func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
	w := f.Watcher("/files/big", 4096)
	f.stop()
	if n, err := io.Copy(io.Discard, w.Res.Body); err == nil {
		t.Errorf("%d bytes and no error", n)
	}
	f.Logged("downloads are cut", "downloads=1")
}

func TestTooManyDownloads(t *testing.T) {
	f, _ := serveFiles(t, map[string]int{"big": 16 << 20, "small": 1},
		func(c *Config) { c.MaxDownloads = 1 })
	w := f.Watcher("/files/big", 4096)
	res := f.Get("/files/small")
	if res.Status != 503 || !strings.Contains(res.Body, "--max-downloads") ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s %v, want 503 that names --max-downloads, and Retry-After", res.Status,
			res.Body, res.Header)
	}
	if n := f.metric("millrace_files_refused_total"); n != "1" {
		t.Errorf("%s downloads refused, want 1", n)
	}
	_ = w.Conn.Close()
	eventually(t, "room", func() bool { return f.Get("/files/small").Status == 200 })
}

// If the directory of blobs is inside --root, blobs can be read as files, and the log warns.
func TestBlobsAmongTheFiles(t *testing.T) {
	root := t.TempDir()
	within := filepath.Join(root, "blobs")
	if err := os.Mkdir(within, 0o700); err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) { c.Root, c.Blobs = root, within })
	f.Logged("level=WARN", "--blobs lies in --root")
	for _, path := range []string{root + "x", filepath.Dir(root)} {
		if isWithin(path, root) {
			t.Errorf("%s is within %s", path, root)
		}
	}
}
