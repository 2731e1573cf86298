package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// onEachStore runs a test on servers that store blobs in a directory, in Redis, and in a Redis
// Cluster. start starts a server. change may change its configuration.
func onEachStore(t *testing.T, test func(t *testing.T, start func(change func(*Config)) *fixture)) {
	// The Redis servers may have keys of an earlier run of this test.
	prefix := fmt.Sprintf("%s:%x:", t.Name(), rand.Uint64())
	for name, place := range map[string]func(*testing.T, *Config){
		"directory": func(t *testing.T, c *Config) { c.Blobs = t.TempDir() },
		"Redis": func(t *testing.T, c *Config) {
			c.Redis = "redis://" + redistest.Shared(t).Addr()
		},
		"cluster": func(t *testing.T, c *Config) {
			c.Redis = "redis+cluster://" + strings.Join(redistest.SharedCluster(t).Addrs(), ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // waits most of the time
			test(t, func(change func(*Config)) *fixture {
				return serve(t, func(c *Config) {
					place(t, c)
					c.RedisPrefix = prefix
					if change != nil {
						change(c)
					}
				})
			})
		})
	}
}

// random returns n random bytes, the same ones for the same n.
func random(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(p)
	return p
}

// put uploads a blob with a Content-Length.
func (f *fixture) put(key string, value []byte, header ...string) livetest.Response {
	f.T.Helper()
	return f.Request("PUT", "/blobs/"+key, string(value), header...)
}

// has fails the test unless the blob has the value want.
func (f *fixture) has(key string, want []byte) {
	f.T.Helper()
	res := f.Get("/blobs/" + key)
	if res.Status != 200 {
		f.T.Fatalf("GET %s: %d %s", key, res.Status, res.Body)
	}
	if !bytes.Equal([]byte(res.Body), want) {
		same(f.T, key, []byte(res.Body), want)
	}
}

// A value is returned as it was put: of any length, with and without a Content-Length.
func TestBlobs(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		received := 0
		for _, size := range []int{0, 1, 4000, 128<<10 - 1, 128 << 10, 1<<20 - 1, 1 << 20,
			1<<20 + 1, 11<<20 + 7} {
			value := random(size)
			for _, chunked := range []bool{false, true} {
				key := fmt.Sprintf("sizes/%d/%v", size, chunked)
				req, err := http.NewRequest("PUT", f.URL("/blobs/"+key),
					strings.NewReader(string(value)))
				if err != nil {
					t.Fatal(err)
				}
				if chunked {
					req.Body, req.ContentLength = io.NopCloser(strings.NewReader(string(value))), -1
				}
				res := f.Do(req)
				tag := res.Header.Get("Etag")
				if res.Status != 201 || len(tag) < 10 || tag[0] != '"' {
					t.Fatalf("PUT of %d bytes: %d %s %v", size, res.Status, res.Body, res.Header)
				}
				received += size
				f.has(key, value)
				head := f.Request("HEAD", "/blobs/"+key, "")
				if head.Status != 200 || head.Header.Get("Content-Length") != strconv.Itoa(size) ||
					head.Header.Get("Etag") != tag ||
					head.Header.Get("Content-Type") != "application/octet-stream" ||
					head.Header.Get("Last-Modified") != "" ||
					head.Header.Get("X-Content-Type-Options") != "nosniff" ||
					head.Header.Get("Cache-Control") != "no-cache" ||
					head.Header.Get("Accept-Ranges") != "bytes" ||
					head.Header.Get("Millrace-TTL") != "" || head.Body != "" {
					t.Errorf("HEAD of %d bytes: %d %v", size, head.Status, head.Header)
				}
			}
		}
		if got := f.metric("millrace_blobs_bytes_in_total"); got != strconv.Itoa(received) &&
			!strings.Contains(got, "e+") {
			t.Errorf("%s bytes came, want %d", got, received)
		}
		if got := f.metric(`millrace_blobs_requests_total{status="2xx"}`); got != "54" {
			t.Errorf("%s requests with status 2xx, want 54", got)
		}
		for metric, want := range map[string]string{"millrace_blobs_downloads": "0",
			"millrace_blobs_uploads": "0"} {
			if got := f.metric(metric); got != want {
				t.Errorf("%s is %s, want %s", metric, got, want)
			}
		}
		showsRedis(t, f)
		path := "copied"
		if f.cfg.Blobs != "" && runtime.GOOS == "linux" {
			path = "sendfile"
		}
		if n, _ := strconv.ParseFloat(f.metric(`millrace_blobs_bytes_total{path="`+path+`"}`),
			64); n < 22<<20 {
			t.Errorf("%v bytes were sent by %s", n, path)
		}
	})
}

// showsRedis fails the test unless the metrics include connections to Redis if the store uses
// Redis.
func showsRedis(t *testing.T, f *fixture) {
	t.Helper()
	conns, want := 0, ""
	for _, state := range []string{"in_use", "idle"} {
		text := f.metric(`millrace_blobs_redis_connections{state="` + state + `"}`)
		if (text == "") != (f.cfg.Blobs != "") {
			t.Errorf("%s connections to Redis: %q", state, text)
		}
		n, _ := strconv.Atoi(text)
		conns += n
	}
	if f.cfg.Blobs == "" {
		want = "0" // no failure
	}
	if conns > 0 != (want == "0") {
		t.Errorf("%d connections to Redis", conns)
	}
	for _, metric := range []string{"waiting", "dials_failed_total", "dropped_total",
		"retries_total"} {
		if got := f.metric("millrace_blobs_redis_" + metric); got != want {
			t.Errorf("%s is %q, want %q", metric, got, want)
		}
	}
}

// zeros is an infinite reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestBlobsBehindSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	f := serve(t, func(c *Config) {
		c.Redis = "redis://" + sentinel.Addr() +
			"?master_name=mymaster"
	})
	value := random(100_000)
	if res := f.put("k", value); res.Status != 201 {
		t.Fatalf("PUT: %d %s, want 201", res.Status, res.Body)
	}
	f.has("k", value)
	sentinel.Failover(t) // the last writes may be lost, because Redis replicates asynchronously
	if res := f.put("again", value); res.Status != 201 {
		t.Fatalf("PUT after a failover: %d %s", res.Status, res.Body)
	}
	f.has("again", value)
}

// A value can have a time to live.
func TestBlobsThatExpire(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		if res := f.put("soon", []byte("gone"), "Millrace-TTL: 300ms"); res.Status != 201 {
			t.Fatalf("PUT: %d %s, want 201", res.Status, res.Body)
		}
		f.put("later", []byte("stays"), "Millrace-TTL: 3600")
		f.put("never", []byte("stays"), "Millrace-TTL: 100ms")
		f.put("never", []byte("stays"))
		res := f.Get("/blobs/later")
		left, err := strconv.ParseFloat(res.Header.Get("Millrace-TTL"), 64)
		if err != nil || left > 3600 || left < 3500 {
			t.Errorf("it says that there are %q s left", res.Header.Get("Millrace-TTL"))
		}
		eventually(t, "the end of its time", func() bool {
			return f.Get("/blobs/soon").Status == 404
		})
		if res := f.put("soon", []byte("new"), "If-None-Match: *"); res.Status != 201 {
			t.Errorf("a new one: %d %s", res.Status, res.Body)
		}
		f.has("later", []byte("stays"))
		f.has("never", []byte("stays"))
	})
}

// A client that closes its writing side after its request still gets the response.
func TestBlobsOfHalfClosedClients(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		value := random(50_000)
		for i := range 30 {
			path := fmt.Sprintf("/blobs/said/%d", i)
			for _, tt := range []struct{ request, status string }{
				{fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", path,
					f.Addr, len(value), value), "201"},
				{fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, f.Addr), "200"},
				{fmt.Sprintf("HEAD %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, f.Addr), "200"},
				{fmt.Sprintf("DELETE %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, f.Addr), "204"},
			} {
				c := f.Dial("")
				if _, err := io.WriteString(c, tt.request); err != nil {
					t.Fatal(err)
				}
				if err := c.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(c)
				_ = c.Close()
				if status, _, _ := strings.Cut(string(answer), "\r\n"); err != nil ||
					!strings.HasPrefix(status, "HTTP/1.1 "+tt.status) {
					t.Fatalf("%.4s %d: status line %s, error %v, want status %s", tt.request, i,
						status, err, tt.status)
				}
				if tt.request[0] == 'G' && !strings.HasSuffix(string(answer), string(value)) {
					t.Fatal("another value")
				}
			}
		}
	})
}

// An upload that breaks off leaves the old value. A client that stops sending gets 408.
func TestIncompleteUploadsKeepTheOldValue(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.PublishTimeout = time.Second })
		old := random(100)
		f.put("k", old)
		for _, head := range []string{"Content-Length: 3000000\n\n",
			"Transfer-Encoding: chunked\n\n1e8480\n"} {
			for _, sent := range []int{0, 1, 5000, 1500000} {
				_ = f.Dial("PUT /blobs/k HTTP/1.1\nHost: localhost\n" + head + strings.Repeat("x",
					sent)).Close()
				eventually(t, "the end of the upload",
					func() bool { return f.blobs.Stats().Uploads == 0 })
				f.has("k", old)
			}
		}
		conn := f.Dial("PUT /blobs/k HTTP/1.1\nHost: localhost\nContent-Length: 10\n\n12345")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 408 {
			t.Errorf("after silence: %v, %v, want 408", res, err)
		}
		f.has("k", old)
		if f.cfg.Blobs != "" {
			if left, err := os.ReadDir(filepath.Join(f.cfg.Blobs, "incoming")); err != nil ||
				len(left) > 0 {
				t.Errorf("incoming/ has %v after the uploads, want no file (error %v)", left, err)
			}
		}
	})
}

func TestBlobsNeedTheToken(t *testing.T) {
	f := serve(t, func(c *Config) { c.PublishToken, c.Blobs = "secret", t.TempDir() })
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
		if res := f.Request(tt.method, "/blobs/k", "value", tt.header); res.Status != tt.want {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.header, res.Status, res.Body, tt.want)
		}
	}
	bare := serve(t, nil)
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if res := bare.Request(method, "/blobs/k", "value"); res.Status != 404 ||
			!strings.Contains(res.Body, "--blobs DIR") {
			t.Errorf("%s: %d %s, want 404 that names --blobs", method, res.Status, res.Body)
		}
	}
	if strings.Contains(bare.Get("/metrics").Body, "millrace_blobs") {
		t.Error("a server without blobs counts them")
	}
}

// A client that stops reading is disconnected.
func TestAStalledBlobIsCut(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.StallTimeout = time.Second })
		value := random(16 << 20)
		if res := f.put("big", value); res.Status != 201 {
			t.Fatal(res.Status, res.Body)
		}
		w := f.Watcher("/blobs/big", 4096)
		f.Logged("download ended", "path=/blobs/big", "stall-timeout")
		eventually(t, "no downloads", func() bool { return f.blobs.Held() == 0 })
		if n, err := io.Copy(io.Discard, w.Res.Body); err == nil {
			t.Errorf("the client got %d bytes and no error", n)
		}
		if n := f.metric("millrace_blobs_stalled_total"); n != "1" {
			t.Errorf("%s stalled downloads are counted, want 1", n)
		}
		f.has("big", value)
	})
}

// A download continues with its value, even if the value is replaced or deleted in the meantime.
func TestADownloadOutlivesItsBlob(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		old := random(16 << 20)
		f.put("k", old)
		replaced := f.Watcher("/blobs/k", 4096)
		f.put("k", []byte("new"))
		deleted := f.Watcher("/blobs/k", 4096)
		if res := f.Request("DELETE", "/blobs/k", ""); res.Status != 204 {
			t.Errorf("DELETE: %d %s, want 204", res.Status, res.Body)
		}
		same(t, "the value that was replaced", replaced.Rest(), old)
		same(t, "the value that was deleted", deleted.Rest(), []byte("new"))
	})
}

// Uploads and downloads end before the server does, if the time allows, and no new ones begin.
func TestBlobsAreDrained(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.DrainTimeout = 2 * testTimeout })
		value := random(16 << 20)
		f.put("k", value)
		w := f.Watcher("/blobs/k", 4096)
		r, body := io.Pipe()
		req, err := http.NewRequest("PUT", f.URL("/blobs/new"), r)
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan livetest.Response, 1)
		go func() { answer <- f.Do(req) }()
		_, _ = body.Write([]byte("half, "))
		eventually(t, "the upload", func() bool { return f.blobs.Stats().Uploads == 1 })
		stopped := make(chan struct{})
		go func() { f.stop(); close(stopped) }()
		<-f.draining.Done()
		eventually(t, "downloads to be refused", func() bool {
			res := httptest.NewRecorder()
			f.blobs.Serve(res, httptest.NewRequest("HEAD", "/blobs/none", nil), "none")
			return res.Code == http.StatusServiceUnavailable &&
				strings.Contains(res.Body.String(), refuse.ErrShutdown.Reason)
		})
		select {
		case <-stopped:
			t.Fatal("the server did not wait")
		default:
		}
		_, _ = body.Write([]byte("whole"))
		_ = body.Close()
		if res := <-answer; res.Status != 201 {
			t.Errorf("PUT: %d %s, want 201", res.Status, res.Body)
		}
		same(t, "the blob", w.Rest(), value)
		<-stopped
		if strings.Contains(f.Log.String(), "time is up") {
			t.Error("the time to drain was over")
		}
	})
}

func TestTooManyBlobs(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.MaxDownloads, c.MaxUploads = 1, 1 })
		f.put("big", random(16<<20))
		w := f.Watcher("/blobs/big", 4096)
		if res := f.Get("/blobs/big"); res.Status != 503 ||
			!strings.Contains(res.Body, "--max-downloads") {
			t.Errorf("GET: %d %s, want 503 that names --max-downloads", res.Status, res.Body)
		}
		conn := f.Dial("PUT /blobs/k HTTP/1.1\nHost: localhost\nContent-Length: 10\n\n12345")
		eventually(t, "the upload", func() bool { return f.blobs.Stats().Uploads == 1 })
		if res := f.put("b", nil); res.Status != 503 ||
			!strings.Contains(res.Body, "--max-uploads") || res.Header.Get("Retry-After") == "" {
			t.Errorf("PUT: %d %s, want 503 that names --max-uploads, and Retry-After", res.Status,
				res.Body)
		}
		for what, want := range map[string]string{"download": "1", "upload": "1"} {
			if n := f.metric(`millrace_blobs_refused_total{what="` + what + `"}`); n != want {
				t.Errorf("%s: %s refused, want %s", what, n, want)
			}
		}
		_, _ = w.Conn.Close(), conn.Close()
		eventually(t, "room", func() bool {
			return f.Get("/blobs/big").Status == 200 && f.put("b", nil).Status < 300
		})
	})
}

// Redis may start later, and may fail. Meanwhile blobs get 503, and everything else continues.
func TestBlobsAre503WithoutRedis(t *testing.T) {
	r := redistest.Start(t)
	f := serve(t, func(c *Config) { c.Redis = "redis://" + r.Addr() })
	f.put("k", []byte("value"))
	r.Kill()
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		res := f.Request(method, "/blobs/k", "value", "")
		if res.Status != 503 || strings.Contains(res.Body, r.Addr()) {
			t.Errorf("%s: %d %s, want 503 without the address of Redis", method, res.Status,
				res.Body)
		}
	}
	if res := f.Get("/healthz"); res.Status != 200 {
		t.Errorf("/healthz: %d, want 200", res.Status)
	}
	later := serve(t, func(c *Config) { c.Redis = "redis://" + r.Addr() })
	later.Logged("Redis cannot be used")
	r.Restart(t)
	for _, g := range []*fixture{f, later} {
		eventually(t, "Redis to be back", func() bool {
			return g.put("k", []byte("value")).Status < 300
		})
		g.has("k", []byte("value"))
	}
}

func TestBlobStatus(t *testing.T) {
	const absent, anything = `If-None-Match: *`, `If-Match: *`
	long := strings.Repeat("k", 1024)
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.MaxBlobBytes = 2 << 20 })
		tag := ""
		for i, tt := range []struct {
			method, path, body string
			header             string // TAG stands for the last entity tag received
			want               int
			says               string
		}{
			{"GET", "a", "", "", 404, "no such blob"},
			{"HEAD", "a", "", "", 404, ""},
			{"DELETE", "a", "", "", 404, "no such blob"},
			{"PUT", "a", "value", anything, 412, "If-Match"},
			{"PUT", "a", "value", absent, 201, ""},
			{"PUT", "a", "other", absent, 412, "If-None-Match"},
			{"PUT", "a", "value!", "", 204, ""},
			{"GET", "a", "", "", 200, "value!"},
			{"GET", "a", "", "If-None-Match: TAG", 304, ""},
			{"HEAD", "a", "", "If-None-Match: TAG", 304, ""},
			{"GET", "a", "", `If-None-Match: "other"`, 200, "value!"},
			{"GET", "a", "", "If-Match: TAG", 200, "value!"},
			{"GET", "a", "", `If-Match: "other"`, 412, ""},
			{"GET", "a", "", "If-Modified-Since: Sat, 01 Jan 2200 00:00:00 GMT", 200, "value!"},
			{"GET", "a", "", "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT", 200, "value!"},
			{"GET", "a", "", "Range: bytes=1-2", 206, "al"},
			{"GET", "a", "", "Range: bytes=-1", 206, "!"},
			{"GET", "a", "", "Range: bytes=3-", 206, "ue!"},
			{"GET", "a", "", "Range: bytes=0-0,5-5", 206, "Content-Range: bytes 5-5/6"},
			{"GET", "a", "", "Range: bytes=6-", 416, ""},
			{"PUT", "empty", "", "", 201, ""},
			{"GET", "a", "", "", 200, "value!"},
			{"HEAD", "a", "", "Range: bytes=1-2", 206, ""},
			{"PUT", "a", "v2", "If-Match: TAG", 204, ""},
			{"GET", "a", "", "", 200, "v2"},
			{"PUT", "a", "v3", `If-Match: "other"`, 412, "If-Match"},
			{"PUT", "a", "v3", `If-None-Match: "other"`, 204, ""},
			{"DELETE", "a", "", `If-Match: "other"`, 412, ""},
			{"GET", "a", "", "", 200, "v3"},
			{"DELETE", "a", "", "If-Match: TAG", 204, ""},
			{"GET", "a", "", "", 404, ""},
			{"DELETE", "a", "", anything, 412, ""},
			{"PUT", "a/b/c", "nested", "", 201, ""},
			{"GET", "a%2Fb%2fc", "", "", 200, "nested"}, // the same key
			{"GET", "a/b", "", "", 404, ""},
			{"PUT", "a/b", "beside", "", 201, ""},
			{"GET", "a/b/c", "", "", 200, "nested"},
			{"PUT", "index.html", "<script>", "", 201, ""},
			{"GET", "index.html", "", "", 200, "<script>"},
			{"PUT", long, "long", "", 201, ""},
			{"GET", long, "", "", 200, "long"},
			{"PUT", long + "k", "", "", 400, "1024"},
			{"PUT", "%7D%7B%7Bx%7D", "braces", "", 201, ""},
			{"GET", "%7D%7B%7Bx%7D", "", "", 200, "braces"},
			{"PUT", "UPPER", "1", "", 201, ""},
			{"PUT", "upper", "2", "", 201, ""},
			{"GET", "UPPER", "", "", 200, "1"},
			{"PUT", "%e2%82%ac%25%3f%20", "sign", "", 201, ""},
			{"GET", "%e2%82%ac%25%3f%20", "", "", 200, "sign"},
			{"PUT", "", "", "", 400, "1 to 1024"},
			{"PUT", "..%2f..%2fetc%2fpasswd", "", "", 400, "slashes"},
			{"GET", "%2fetc%2fpasswd", "", "", 400, "slashes"},
			{"GET", "%2e%2e/x", "", "", 400, "slashes"},
			{"GET", "../blobs/a/./b/c", "", "", 400, "slashes"}, // keys are not rewritten
			{"PUT", "a//b", "x", "", 400, "slashes"},
			{"DELETE", "..", "", "", 400, "slashes"},
			{"GET", "/", "", "", 400, "slashes"},
			{"PUT", "a%00b", "", "", 400, "control"},
			{"PUT", "a%ff", "", "", 400, "UTF-8"},
			{"POST", "a", "x", "", 405, "GET, HEAD, PUT, DELETE"},
			{"PUT", "a", "x", "Content-Range: bytes 0-0/2", 400, "Content-Range"},
			{"PUT", "a", "x", "Content-Encoding: gzip", 415, "Content-Encoding"},
			{"PUT", "a", "x", "Millrace-TTL: soon", 400, "Millrace-TTL"},
			{"PUT", "a", "x", "Millrace-TTL: 0", 400, "Millrace-TTL"},
			{"PUT", "a", "x", "Origin: http://elsewhere.example", 403, "another site"},
			{"DELETE", "upper", "", "Host: elsewhere.example", 403, "this machine only"},
			{"PUT", "a", string(random(2<<20 + 1)), "", 413, "--max-blob-bytes"},
			{"GET", "a", "", "", 404, ""},
			{"PUT", "a", string(random(2 << 20)), "", 201, ""},
		} {
			res := f.Request(tt.method, "/blobs/"+tt.path, tt.body,
				strings.ReplaceAll(tt.header, "TAG", tag))
			if res.Status != tt.want || !strings.Contains(res.Body, tt.says) {
				t.Errorf("%d: %s %.80s %s: %d %.200q, want %d with %q", i, tt.method, tt.path,
					tt.header, res.Status, res.Body, tt.want, tt.says)
			}
			if newTag := res.Header.Get("Etag"); newTag != "" {
				if tt.method == "PUT" && newTag == tag {
					t.Errorf("%d: two values have the tag %s", i, tag)
				}
				tag = newTag
			}
		}
		req, err := http.NewRequest("PUT", f.URL("/blobs/endless"), io.LimitReader(zeros{}, 3<<20))
		if err != nil {
			t.Fatal(err)
		}
		if res := f.Do(req); res.Status != 413 {
			t.Errorf("a body of no known length that is too long: %d %s", res.Status, res.Body)
		}
		if res := f.Get("/blobs/endless"); res.Status != 404 {
			t.Errorf("and then: %d", res.Status)
		}
		if res := f.Get("/api/streams"); !strings.Contains(res.Body, `"blobs":true`) {
			t.Errorf("/api/streams does not say that blobs are served: %s", res.Body)
		}
	})
}

// A request is refused before its body is requested.
func TestRefusedBlobsAreNotSent(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		f.put("k", []byte("old"))
		for header, want := range map[string]int{
			"If-None-Match: *":           412,
			"Millrace-TTL: x":            400,
			"Content-Length: 9999999999": 413,
		} {
			if !strings.HasPrefix(header, "Content-Length") {
				header += "\nContent-Length: 1000000"
			}
			conn := f.Dial(
				"PUT /blobs/k HTTP/1.1\nHost: localhost\nExpect: 100-continue\n" + header + "\n\n")
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || res.StatusCode != want {
				t.Errorf("%s: %v, %v, want status %d", header, err, res, want)
			}
		}
	})
}

// A refusal in the middle of the body reaches the client, even if the client only reads after it
// has sent everything.
func TestRefusalsAmidTheBodyArrive(t *testing.T) {
	const most = 1 << 20
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.MaxBlobBytes = most })
		for _, expect := range []string{"", "Expect: 100-continue\n"} {
			for range 4 {
				conn := f.Dial("PUT /blobs/k HTTP/1.1\nHost: localhost\n" + expect +
					"Transfer-Encoding: chunked\n\n")
				answer := bufio.NewReader(conn)
				if expect != "" {
					if res, err := http.ReadResponse(answer, nil); err != nil ||
						res.StatusCode != 100 {
						t.Fatal(res, err)
					}
				}
				piece := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, random(64<<10))
				for range 16 * most / (64 << 10) {
					if _, err := io.WriteString(conn, piece); err != nil {
						t.Fatal(err)
					}
				}
				res, err := http.ReadResponse(answer, nil)
				if err != nil || res.StatusCode != 413 || !res.Close || res.ContentLength <= 0 {
					t.Fatal(res, err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Fatal(err)
				}
				_ = conn.Close()
			}
		}
		eventually(t, "room", func() bool { return f.blobs.Stats().Uploads == 0 })
	})
}

// Blocks of transfers have owners: blobs, and downloads of files that the kernel does not send.
func TestMemoryOwners(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "big"), random(4<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		f := start(func(c *Config) { c.Root = root })
		owned := func(owner string, want bool) {
			t.Helper()
			eventually(t, fmt.Sprintf("blocks of %s: %v", owner, want), func() bool {
				return (f.metric(`millrace_memory_owner_bytes{owner="`+owner+`"}`) != "0") == want
			})
		}
		owned("blobs", false)
		owned("downloads", false)
		body, send := io.Pipe()
		put := make(chan string, 1)
		go func() { put <- exchanged(http.DefaultClient, "PUT", f.URL("/blobs/slow"), body) }()
		_, _ = send.Write(random(100_000))
		owned("blobs", true)
		res, err := livetest.HTTP2(t, 64<<10).Get(f.URL("/files/big")) // and does not read the body
		if err != nil {
			t.Fatal(err)
		}
		owned("downloads", true)
		if got := f.Get("/api/streams").Body; !strings.Contains(got,
			`"memory_by_owner":{"blobs":`) || strings.Contains(got, `"blobs":0,`) {
			t.Errorf("the API says %s", got)
		}
		_ = send.Close()
		if got := <-put; !strings.HasPrefix(got, "201") {
			t.Errorf("PUT: %s, want 201", got)
		}
		_ = res.Body.Close()
		owned("blobs", false)
		owned("downloads", false)
	})
}
