package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/redistest"
)

// What is put is got, whatever its length and however it comes.
func TestBlobs(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		received := 0
		for _, size := range []int{0, 1, 4000, 128<<10 - 1, 128 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 11<<20 + 7} {
			value := random(size)
			for _, chunked := range []bool{false, true} {
				key := fmt.Sprintf("sizes/%d/%v", size, chunked)
				req, err := http.NewRequest("PUT", f.url("/blobs/"+key), strings.NewReader(string(value)))
				if err != nil {
					t.Fatal(err)
				}
				if chunked {
					req.Body, req.ContentLength = io.NopCloser(strings.NewReader(string(value))), -1
				}
				res := f.do(req)
				tag := res.header.Get("Etag")
				if res.status != 201 || len(tag) < 10 || tag[0] != '"' {
					t.Fatalf("PUT of %d bytes: %d %s %v", size, res.status, res.body, res.header)
				}
				received += size
				f.has(key, value)
				head := f.request("HEAD", "/blobs/"+key, "")
				if head.status != 200 || head.header.Get("Content-Length") != strconv.Itoa(size) || head.header.Get("Etag") != tag ||
					head.header.Get("Content-Type") != "application/octet-stream" || head.header.Get("Last-Modified") != "" ||
					head.header.Get("X-Content-Type-Options") != "nosniff" || head.header.Get("Cache-Control") != "no-cache" ||
					head.header.Get("Accept-Ranges") != "bytes" || head.header.Get("Millrace-TTL") != "" || head.body != "" {
					t.Errorf("HEAD of %d bytes: %d %v", size, head.status, head.header)
				}
			}
		}
		if got := f.metric("millrace_blobs_bytes_in_total"); got != strconv.Itoa(received) && !strings.Contains(got, "e+") {
			t.Errorf("%s bytes came, want %d", got, received)
		}
		if got := f.metric(`millrace_blobs_requests_total{status="2xx"}`); got != "54" {
			t.Errorf("%s requests", got)
		}
		for metric, want := range map[string]string{"millrace_blobs_downloads": "0", "millrace_blobs_uploads": "0"} {
			if got := f.metric(metric); got != want {
				t.Errorf("%s is %s, want %s", metric, got, want)
			}
		}
		showsRedis(t, f)
		fast := `millrace_blobs_bytes_total{path="splice"}`
		if f.cfg.Blobs != "" {
			fast = `millrace_blobs_bytes_total{path="sendfile"}`
		}
		if n, _ := strconv.ParseFloat(f.metric(fast), 64); n < 22<<20 && runtime.GOOS == "linux" {
			t.Errorf("%s is %v: large blobs do not go by themselves", fast, n)
		}
	})
}

// showsRedis fails the test unless the metrics tell about connections to Redis if there is one.
func showsRedis(t *testing.T, f *fixture) {
	t.Helper()
	conns, want := 0, ""
	for _, state := range []string{"in_use", "idle"} {
		n, _ := strconv.Atoi(f.metric(`millrace_blobs_redis_connections{state="` + state + `"}`))
		conns += n
	}
	if f.cfg.Blobs == "" {
		want = "0" // nothing went wrong
	}
	if conns > 0 != (want == "0") {
		t.Errorf("%d connections to Redis", conns)
	}
	for _, metric := range []string{"waiting", "dials_failed_total", "dropped_total", "retries_total"} {
		if got := f.metric("millrace_blobs_redis_" + metric); got != want {
			t.Errorf("%s is %q, want %q", metric, got, want)
		}
	}
}

// A list of entity tags in several lines is one list, for all methods.
func TestBlobConditionsInSeveralLines(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		tag := f.put("k", []byte("value")).header.Get("Etag")
		for _, tt := range []struct {
			method, header string
			want           int
		}{{"GET", "If-Match", 200}, {"GET", "If-None-Match", 304}, {"PUT", "If-None-Match", 412}, {"DELETE", "If-Match", 204}} {
			req, err := http.NewRequest(tt.method, f.url("/blobs/k"), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header[tt.header] = []string{`"other"`, tag}
			if res := f.do(req); res.status != tt.want {
				t.Errorf("%s with %s: %d %s, want %d", tt.method, tt.header, res.status, res.body, tt.want)
			}
		}
	})
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestBlobsThatExpire(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		if res := f.put("soon", []byte("gone"), "Millrace-TTL: 300ms"); res.status != 201 {
			t.Fatalf("%d %s", res.status, res.body)
		}
		f.put("later", []byte("stays"), "Millrace-TTL: 3600")
		f.put("never", []byte("stays"), "Millrace-TTL: 100ms")
		f.put("never", []byte("stays"))
		res := f.get("/blobs/later")
		left, err := strconv.ParseFloat(res.header.Get("Millrace-TTL"), 64)
		if err != nil || left > 3600 || left < 3500 {
			t.Errorf("it says that there are %q s left", res.header.Get("Millrace-TTL"))
		}
		eventually(t, "the end of its time", func() bool { return f.get("/blobs/soon").status == 404 })
		if res := f.put("soon", []byte("new"), "If-None-Match: *"); res.status != 201 {
			t.Errorf("a new one: %d %s", res.status, res.body)
		}
		f.has("later", []byte("stays"))
		f.has("never", []byte("stays"))
	})
}

// A client that says nothing more after its request, and still waits for the answer, gets it.
func TestBlobsOfClientsThatHaveSaidAll(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		value := random(50_000)
		for i := range 30 {
			path := fmt.Sprintf("/blobs/said/%d", i)
			for _, tt := range []struct{ request, status string }{
				{fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", path, f.addr, len(value), value), "201"},
				{fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, f.addr), "200"},
				{fmt.Sprintf("HEAD %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, f.addr), "200"},
				{fmt.Sprintf("DELETE %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, f.addr), "204"},
			} {
				c, err := net.Dial("tcp", f.addr)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(c, tt.request); err != nil {
					t.Fatal(err)
				}
				if err := c.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(c)
				_ = c.Close()
				if status, _, _ := strings.Cut(string(answer), "\r\n"); err != nil || !strings.HasPrefix(status, "HTTP/1.1 "+tt.status) {
					t.Fatalf("%.4s %d: %s, %v", tt.request, i, status, err)
				}
				if tt.request[0] == 'G' && !strings.HasSuffix(string(answer), string(value)) {
					t.Fatal("another value")
				}
			}
		}
	})
}

// A body that breaks off leaves the old value, and no other; one that is silent gets 408.
func TestBlobsThatBreakOff(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.PublishTimeout = 200 * time.Millisecond })
		old := random(100)
		f.put("k", old)
		for _, head := range []string{"Content-Length: 3000000", "Transfer-Encoding: chunked"} {
			for _, sent := range []int{0, 1, 5000, 1500000} {
				piece := fmt.Sprintf("%x\r\n%s", 2000000, strings.Repeat("x", sent))
				if strings.HasPrefix(head, "Content-Length") {
					piece = strings.Repeat("x", sent)
				}
				conn := dial(t, f.addr, 0)
				fmt.Fprintf(conn, "PUT /blobs/k HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n%s", f.addr, head, piece)
				_ = conn.Close()
				eventually(t, "the end of the upload", func() bool { return f.vault.uploads.count() == 0 })
				f.has("k", old)
			}
		}
		conn := dial(t, f.addr, 0)
		_ = conn.SetDeadline(time.Now().Add(patienceOfTests))
		fmt.Fprintf(conn, "PUT /blobs/k HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\n12345", f.addr)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 408 {
			t.Errorf("silence: %v, %v", res, err)
		}
		f.has("k", old)
		if f.cfg.Blobs != "" {
			if left, err := os.ReadDir(filepath.Join(f.cfg.Blobs, "incoming")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		}
	})
}

func TestBlobsNeedTheToken(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.PublishToken = "secret" })
		for _, tt := range []struct {
			method, header string
			want           int
		}{
			{"PUT", "", 401},
			{"PUT", "Authorization: Bearer wrong", 403},
			{"PUT", "Authorization: Bearer secret", 201},
			{"GET", "", 200},
			{"DELETE", "", 401},
			{"GET", "", 200},
			{"DELETE", "Authorization: Bearer secret", 204},
			{"GET", "", 404},
		} {
			if res := f.request(tt.method, "/blobs/k", "value", tt.header); res.status != tt.want {
				t.Errorf("%s %s: %d %s, want %d", tt.method, tt.header, res.status, res.body, tt.want)
			}
		}
	})
	bare := serve(t, nil)
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if res := bare.request(method, "/blobs/k", "value"); res.status != 404 || !strings.Contains(res.body, "--blobs DIR") {
			t.Errorf("%s: %d %s", method, res.status, res.body)
		}
	}
	if strings.Contains(bare.get("/metrics").body, "millrace_blobs") {
		t.Error("a server without blobs counts them")
	}
}

func TestBlobsByHTTP2(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		client := h2(t, 1<<20)
		value := random(3 << 20)
		req, err := http.NewRequest("PUT", f.url("/blobs/k"), strings.NewReader(string(value)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil || res.StatusCode != 201 || res.ProtoMajor != 2 {
			t.Fatal(res, err)
		}
		_ = res.Body.Close()
		if res, err = client.Get(f.url("/blobs/k")); err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the blob", got, value)
	})
}

// A client that stops reading is cut, whatever the blob comes from.
func TestAStalledBlobIsCut(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.StallTimeout = 300 * time.Millisecond })
		value := random(16 << 20)
		if res := f.put("big", value); res.status != 201 {
			t.Fatal(res.status, res.body)
		}
		w := f.watch("/blobs/big", 4096)
		f.logged("download ended", "path=/blobs/big", "stall-timeout")
		eventually(t, "no downloads", func() bool { return f.vault.count() == 0 })
		if n, err := io.Copy(io.Discard, w.res.Body); err == nil {
			t.Errorf("the client got %d bytes and no error", n)
		}
		if n := f.metric("millrace_blobs_stalled_total"); n != "1" {
			t.Errorf("%s stalled", n)
		}
		f.has("big", value)
	})
}

// A download goes on with the value that it began with, though that is replaced or deleted meanwhile.
func TestADownloadOutlivesItsBlob(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		old := random(16 << 20)
		f.put("k", old)
		replaced := f.watch("/blobs/k", 4096)
		f.put("k", []byte("new"))
		deleted := f.watch("/blobs/k", 4096)
		if res := f.request("DELETE", "/blobs/k", ""); res.status != 204 {
			t.Errorf("%d %s", res.status, res.body)
		}
		same(t, "the value that was replaced", replaced.rest(), old)
		same(t, "the value that was deleted", deleted.rest(), []byte("new"))
	})
}

// Uploads and downloads end before the server does, as long as it has time, and no others begin.
func TestBlobsAreDrained(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		value := random(16 << 20)
		f.put("k", value)
		w := f.watch("/blobs/k", 4096)
		r, body := io.Pipe()
		req, err := http.NewRequest("PUT", f.url("/blobs/new"), r)
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan response, 1)
		go func() { answer <- f.do(req) }()
		_, _ = body.Write([]byte("half, "))
		eventually(t, "the upload", func() bool { return f.vault.uploads.count() == 1 })
		stopped := make(chan struct{})
		go func() { f.stop(); close(stopped) }()
		<-f.draining.Done()
		eventually(t, "nobody to be let in", func() bool {
			err := f.vault.downloads.enter()
			if err == nil {
				f.vault.downloads.leave()
			}
			return err == errDraining
		})
		select {
		case <-stopped:
			t.Fatal("the server did not wait")
		default:
		}
		_, _ = body.Write([]byte("whole"))
		_ = body.Close()
		if res := <-answer; res.status != 201 {
			t.Errorf("%d %s", res.status, res.body)
		}
		same(t, "the blob", w.rest(), value)
		<-stopped
		if strings.Contains(f.log.String(), "time is up") {
			t.Error("the time to drain was over")
		}
	})
}

func TestTooManyBlobs(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.MaxDownloads, c.MaxUploads = 1, 1 })
		f.put("big", random(16<<20))
		w := f.watch("/blobs/big", 4096)
		if res := f.get("/blobs/big"); res.status != 503 || !strings.Contains(res.body, "--max-downloads") {
			t.Errorf("%d %s", res.status, res.body)
		}
		conn := dial(t, f.addr, 0)
		fmt.Fprintf(conn, "PUT /blobs/k HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\n12345", f.addr)
		eventually(t, "the upload", func() bool { return f.vault.uploads.count() == 1 })
		if res := f.put("b", nil); res.status != 503 || !strings.Contains(res.body, "--max-uploads") || res.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", res.status, res.body)
		}
		for what, want := range map[string]string{"download": "1", "upload": "1"} {
			if n := f.metric(`millrace_blobs_refused_total{what="` + what + `"}`); n != want {
				t.Errorf("%s: %s refused", what, n)
			}
		}
		_, _ = w.conn.Close(), conn.Close()
		eventually(t, "room", func() bool { return f.get("/blobs/big").status == 200 && f.put("b", nil).status < 300 })
	})
}

// Redis may come later, and may go: blobs get 503 meanwhile, and everything else goes on.
func TestRedisThatIsAway(t *testing.T) {
	r := redistest.Start(t)
	f := serve(t, func(c *Config) { c.Redis = "redis://" + r.Addr() })
	f.put("k", []byte("value"))
	r.Kill()
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		res := f.request(method, "/blobs/k", "value", "")
		if res.status != 503 || strings.Contains(res.body, r.Addr()) {
			t.Errorf("%s: %d %s", method, res.status, res.body)
		}
	}
	if res := f.get("/healthz"); res.status != 200 {
		t.Errorf("%d", res.status)
	}
	later := serve(t, func(c *Config) { c.Redis = "redis://" + r.Addr() })
	later.logged("Redis cannot be used")
	r.Restart(t)
	for _, g := range []*fixture{f, later} {
		eventually(t, "Redis to be back", func() bool { return g.put("k", []byte("value")).status < 300 })
		g.has("k", []byte("value"))
	}
}

func TestBlobsConfigIsChecked(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"want one of them":     func(c *Config) { c.Blobs, c.Redis = t.TempDir(), "redis://127.0.0.1:1" },
		"no such file":         func(c *Config) { c.Blobs = "/nowhere/to/be/found" },
		"--redis":              func(c *Config) { c.Redis = "http://user:secret@127.0.0.1:1" },
		"--redis-cluster":      func(c *Config) { c.RedisCluster = "http://user:secret@127.0.0.1:1" },
		"braces":               func(c *Config) { c.Redis, c.RedisPrefix = "redis://127.0.0.1:1", "a{b}" },
		"Redis takes":          func(c *Config) { c.Redis, c.MaxBlobBytes = "redis://127.0.0.1:1", 1<<30 },
		"--max-blob-bytes":     func(c *Config) { c.MaxBlobBytes = 0 },
		"--max-blob-bytes is ": func(c *Config) { c.MaxBlobBytes = 1 << 62 },
		"--max-uploads":        func(c *Config) { c.MaxUploads = 0 },
	} {
		cfg := Defaults()
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
