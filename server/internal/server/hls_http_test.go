package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// awaitHLS returns the names of two parts of a stream that received the complete sample before the
// first request: one that is available, and one that will not come. HLS then begins with the
// sample's last second. get returns playlists.
func (f *fixture) awaitHLS(t *testing.T, get func(name string) (string, error)) (part,
	next string) {
	t.Helper()
	f.published("cam", len(demo.Sample)-13)
	list, err := get("media.m3u8")
	if err != nil {
		t.Fatal(err)
	}
	names := uris(list)
	hint, ok := hls.ParseObject(names[len(names)-1])
	if len(names) < 3 || !ok {
		t.Fatal(list)
	}
	return names[1], hls.Object{Kind: hls.KindPart, Epoch: hint.Epoch, MSN: hint.MSN + 1}.String()
}

// publishSample publishes the sample, and then sends nothing. Its results are those of awaitHLS.
func (f *fixture) publishSample(t *testing.T) (p *livetest.Publisher, part, next string) {
	t.Helper()
	p = f.Publisher("cam")
	p.Send(demo.Sample)
	part, next = f.awaitHLS(t, func(name string) (string, error) {
		res := f.Get("/live/cam/" + name)
		if res.Status != 200 {
			return "", fmt.Errorf("%d %s", res.Status, res.Body)
		}
		return res.Body, nil
	})
	return p, part, next
}

var addresses = regexp.MustCompile(`(?m)URI="([^"]*)"|^([^#\n].*)$`)

// uris returns the addresses in a playlist.
func uris(list string) (all []string) {
	for _, m := range addresses.FindAllStringSubmatch(list, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}

// The status and header fields of responses for HLS.
func TestHLSRequests(t *testing.T) {
	f := serve(t, nil)
	p, part, _ := f.publishSample(t)
	etag := "If-None-Match: "
	for _, tt := range []struct {
		method, path, header string
		status               int
	}{
		{"HEAD", "index.m3u8", "", 200}, {"HEAD", "media.m3u8", "", 200}, {"HEAD", part, "", 200},
		{"OPTIONS", "media.m3u8", "", 204}, {"OPTIONS", part, "", 204},
		{"OPTIONS", "nothing.m4s", "", 204},
		{"POST", "media.m3u8", "", 405}, {"PUT", part, "", 405}, {"DELETE", part, "", 405},
		{"GET", part, etag + `"` + part + `"`, 304},
		{"HEAD", part, etag + `"` + part + `"`, 304},
		{"GET", part, etag + `W/"` + part + `"`, 304},
		{"GET", part, etag + `"other", "` + part + `"`, 304},
		{"GET", part, etag + part, 200},
		{"GET", part, etag + `"other"`, 200},
		{"GET", part, "Range: bytes=0-9", 200},
		{"GET", "", "", 200}, {"GET", "index2.m3u8", "", 404}, {"GET", "media.m3u8/", "", 400},
		{"GET", "x%2f..%2fmedia.m3u8", "", 400}, {"GET", "%2e%2e%2findex.m3u8", "", 400},
		{"GET", strings.Repeat("9", 8000) + "-1.m4s", "", 404},
		{"GET", "0" + part, "", 404}, {"GET", strings.ToUpper(strings.TrimSuffix(part, ".m4s")) +
			".m4s", "", 404},
		{"GET", "-1-1.m4s", "", 404}, {"GET", "1-i-1.m4s", "", 404}, {"GET", "1-1.-1.m4s", "", 404},
		{"GET", "media.m3u8?_HLS_msn=9223372036854775808", "", 400},
		{"GET", "media.m3u8?_HLS_msn=99999999999999999999999999", "", 400},
		{"GET", "media.m3u8?_HLS_msn=-1", "", 400}, {"GET", "media.m3u8?_HLS_msn=", "", 400},
		{"GET", "media.m3u8?_HLS_msn=1e3", "", 400}, {"GET", "media.m3u8?_HLS_msn=%2b1", "", 400},
		{"GET", "media.m3u8?_HLS_msn=1&_HLS_msn=1", "", 400},
		{"GET", "media.m3u8?_HLS_part=1", "", 400},
		{"GET", "media.m3u8?_HLS_msn=1&_HLS_part=-1", "", 400},
		{"GET", "media.m3u8?_HLS_msn=1&_HLS_part=1&_HLS_part=2", "", 400},
		{"GET", "media.m3u8?_HLS_msn=0&_HLS_part=99999999999999999999", "", 200},
		{"GET", "media.m3u8?_HLS_skip=YES&_HLS_skip=no", "", 200},
		{"GET", "media.m3u8?%zz;&", "", 200},
	} {
		res := f.Request(tt.method, "/live/cam/"+tt.path, "", tt.header)
		if res.Status != tt.status {
			t.Errorf("%s %.80s %s: %d, want %d", tt.method, tt.path, tt.header, res.Status,
				tt.status)
		}
		if (tt.method == "HEAD" || tt.status == 304 || tt.status == 204) && res.Body != "" {
			t.Errorf("%s %s: a body of %d bytes", tt.method, tt.path, len(res.Body))
		}
		if tt.method == "HEAD" && tt.status == 200 && res.Header.Get("Content-Length") == "" {
			t.Errorf("HEAD %s: no length", tt.path)
		}
		if tt.status >= 400 && !strings.Contains(res.Header.Get("Cache-Control"), "no-store") &&
			res.Header.Get("Location") == "" {
			t.Errorf("%s %s: %d may be kept: %v", tt.method, tt.path, tt.status, res.Header)
		}
	}
	for _, name := range []string{"..", "cam.mp4", "a b", strings.Repeat("x", 129)} {
		if res := f.Get("/live/" + url.PathEscape(name) + "/media.m3u8"); res.Status != 400 &&
			res.Status != 404 {
			t.Errorf("stream %q: %d, want 400 or 404", name, res.Status)
		}
	}
	p.End()
}

// Playlists have the token in each address, and each address needs it. Responses to requests with a
// token are not for shared caches.
func TestHLSToken(t *testing.T) {
	const token = `a"b&c d+%=é,<>#?/`
	for _, tt := range []struct {
		name   string
		change func(c *Config)
		host   string
		refuse int
	}{
		{"read token", func(c *Config) { c.ReadToken = token }, "localhost", 401},
		{"publish token, another host", func(c *Config) { c.PublishToken = token }, "tv.example",
			403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := serve(t, tt.change)
			r, w := io.Pipe()
			t.Cleanup(func() { _ = w.Close() })
			req, err := http.NewRequest("POST", f.URL("/live/cam"), r)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			go func() { livetest.Do(http.DefaultClient, req) }()
			_, _ = w.Write(demo.Sample)

			paths, todo := map[string]bool{}, []string{"index.m3u8"}
			base, _ := url.Parse(f.URL("/live/cam/index.m3u8?token=" + url.QueryEscape(token)))
			for len(todo) > 0 {
				u, err := base.Parse(todo[0])
				if err != nil {
					t.Fatal(err)
				}
				if todo = todo[1:]; u.Path == base.Path {
					u = base
				}
				if paths[u.Path] {
					continue
				}
				paths[u.Path] = true
				res := f.Request("GET", u.RequestURI(), "", "Host: "+tt.host)
				if cache := res.Header.Get("Cache-Control"); res.Status != 200 ||
					!strings.Contains(cache, "private") {
					t.Fatalf("%s: %d %s %.200s, want 200 and private", u, res.Status, cache,
						res.Body)
				}
				if strings.HasSuffix(u.Path, ".m3u8") {
					todo = append(todo, uris(res.Body)...)
					if strings.HasSuffix(u.Path, "media.m3u8") {
						todo = todo[:len(todo)-1] // the hinted part
					}
				}
				if res := f.Request("GET", u.Path, "", "Host: "+tt.host); res.Status != tt.refuse {
					t.Errorf("%s without the token: %d", u.Path, res.Status)
				}
				if res := f.Request("GET", u.Path+"?token=no", "",
					"Host: "+tt.host); res.Status != 403 {
					t.Errorf("%s with a wrong token: %d", u.Path, res.Status)
				}
			}
			if len(paths) < 5 {
				t.Errorf("%d addresses, want 5 or more", len(paths))
			}
		})
	}
}

// A waiting client that disconnects frees its place at once, over any protocol.
func TestHLSClientsThatHangUp(t *testing.T) {
	for _, protocol := range []string{"HTTP/1", "HTTP/2", "HTTP/1 over TLS", "HTTP/2 over TLS"} {
		t.Run(protocol, func(t *testing.T) {
			const clients = 20
			var f *fixture
			few := func(c *Config) { c.MaxViewers = clients }
			client, at := &http.Client{Transport: &http.Transport{}}, ""
			if strings.HasSuffix(protocol, "TLS") {
				f, client, at = serveTLS(t, strings.HasPrefix(protocol, "HTTP/2"), few)
			} else {
				f = serve(t, few)
				if at = f.URL(""); protocol == "HTTP/2" {
					client = livetest.HTTP2(t, 1<<20)
				}
			}
			at = strings.TrimSuffix(at, "/")
			defer client.CloseIdleConnections()
			r, w := io.Pipe()
			go func() {
				if res, err := client.Post(at+"/live/cam", "", r); err == nil {
					_ = res.Body.Close()
				}
			}()
			defer w.Close()
			_, _ = w.Write(demo.Sample)
			get := func(ctx context.Context, path string) (string, error) {
				req, err := http.NewRequestWithContext(ctx, "GET", at+"/live/cam/"+path, nil)
				if err != nil {
					return "", err
				}
				res, err := client.Do(req)
				if err != nil {
					return "", err
				}
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				if res.StatusCode != 200 {
					err = fmt.Errorf("status %d", res.StatusCode)
				}
				return string(text), err
			}
			part, next := f.awaitHLS(t, func(name string) (string,
				error) {
				return get(t.Context(), name)
			})
			ctx, cancel := context.WithCancel(t.Context())
			var asking sync.WaitGroup
			for range clients {
				asking.Go(func() {
					if _, err := get(ctx, next); err == nil {
						t.Error("the part that is next is there")
					}
				})
			}
			eventually(t, "requests that wait",
				func() bool { return f.hub.Stats().HLS.Waiting == clients })
			if _, err := get(t.Context(), next); err == nil ||
				!strings.Contains(err.Error(), "503") {
				t.Errorf("one more than may wait: %v", err)
			}
			if _, err := get(t.Context(), part); err != nil { // in addition to the waiting clients
				t.Error(err)
			}
			cancel()
			asking.Wait()
			eventually(t, "their places", func() bool { return f.hub.Stats().HLS.Waiting == 0 })
			if _, err := get(t.Context(), "media.m3u8"); err != nil {
				t.Error(err)
			}
			_ = w.Close()
		})
	}
}

// A request may wait for longer than a client may stop reading, and the connection stays usable.
func TestHLSKeepAliveAfterAWait(t *testing.T) {
	const stall = time.Second // long enough for a client on a busy machine
	f := serve(t, func(c *Config) { c.StallTimeout = stall })
	p, _, next := f.publishSample(t)
	conn := f.Dial("")
	r := bufio.NewReader(conn)
	ask := func(path string, status int) {
		t.Helper()
		fmt.Fprintf(conn, "GET /live/cam/%s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		if status == 0 {
			return
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		if res.StatusCode != status || err != nil {
			t.Fatalf("%s: %d, %v, want %d", path, res.StatusCode, err, status)
		}
	}
	ask(next, 0)
	eventually(t, "a request that waits", func() bool { return f.hub.Stats().HLS.Waiting == 1 })
	time.Sleep(2 * stall) // longer than the limit
	p.End()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	for _, path := range []string{"media.m3u8", "index.m3u8"} {
		ask(path, 200)
		ask("nothing.m4s", 404)
	}
}

// A client that sends requests and reads no response is disconnected, whatever the responses are.
func TestHLSClientsThatStallAreCut(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *Config) { c.StallTimeout = time.Second })
	_, part, _ := f.publishSample(t)
	var all sync.WaitGroup
	for _, request := range []string{
		"GET /live/cam/nothing.m4s", "GET /live/cam/media.m3u8", "HEAD /live/cam/media.m3u8",
		"GET /live/cam/" + part,
		"HEAD /live/cam/" + part, "GET /live/cam/media.m3u8?_HLS_part=1", "GET /live/a%20b",
	} {
		all.Go(func() {
			conn := nettest.Dial(t, f.Addr, 4<<10)
			_ = conn.SetDeadline(time.Now().Add(testTimeout))
			head := strings.Repeat(request+" HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x",
				100)+"\r\n\r\n", 100)
			for {
				if _, err := io.WriteString(conn, head); err != nil {
					if strings.Contains(err.Error(), "timeout") {
						t.Errorf("%s: still connected", request)
					}
					return
				}
			}
		})
	}
	all.Wait()
}

// A token is repeated in each address of a playlist if the addresses need it, unless it is longer
// than any signed token.
func TestHLSRepeatsOnlyNeededTokens(t *testing.T) {
	const most = 1 << 10 // bytes
	for name, tt := range map[string]struct {
		needed bool
		bytes  int
		want   bool
	}{
		"needed":          {true, most, true},
		"needed and long": {true, most + 1, false},
		"not needed":      {false, most, false},
	} {
		t.Run(name, func(t *testing.T) {
			token := strings.Repeat("x", tt.bytes)
			f := serve(t, func(c *Config) {
				if tt.needed {
					c.ReadToken = token
				}
			})
			p := f.Publisher("cam")
			p.Send(demo.Sample)
			for _, list := range []string{"index", "media"} {
				res := f.Get("/live/cam/" + list + ".m3u8?other=y&token=" + token)
				if has := strings.Contains(res.Body, "?token=xx"); res.Status != 200 ||
					has != tt.want || strings.Contains(res.Body, "other") {
					t.Errorf("%s: %d %.200q, want the needed token only", list, res.Status,
						res.Body)
				}
			}
			p.End()
		})
	}
}
