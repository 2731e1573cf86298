package server

import (
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/demo"
)

func TestStatus(t *testing.T) {
	flvBody := string(demo.Sample)
	long := strings.Repeat("n", 128)
	for _, tt := range []struct {
		method, path, body string
		header             string
		want               int
		says               string // in the body
	}{
		{method: "POST", path: "/live/a", body: flvBody, want: 200, says: `"format":"flv"`},
		{method: "PUT", path: "/live/a", body: flvBody, want: 200, says: `"frames":`},
		{method: "POST", path: "/live/a.flv", body: flvBody, want: 200, says: `"stream":"a"`},
		{method: "POST", path: "/live/" + long, body: flvBody, want: 200},
		{method: "POST", path: "/live/a-b_c.D9", body: "bytes", want: 200, says: `"format":"raw"`},
		{method: "POST", path: "/live/a", body: flvBody, header: "Expect: 100-continue", want: 200},
		// another port
		{method: "POST", path: "/live/a", body: flvBody, header: "Origin: http://127.0.0.1",
			want: 403, says: "another site"},
		{method: "POST", path: "/live/a", body: flvBody, header: "Origin: https://evil.example",
			want: 403, says: "another site"},
		{method: "POST", path: "/live/a", body: flvBody, header: "Sec-Fetch-Site: cross-site",
			want: 403, says: "another site"},
		{method: "POST", path: "/live/a", body: flvBody, header: "Host: evil.example", want: 403,
			says: "--publish-token"},
		{method: "POST", path: "/live/a", body: flvBody, header: "Host: localhost:1", want: 200},

		{method: "POST", path: "/live/a", want: 400, says: "empty"},
		{method: "POST", path: "/live/" + long + "n", body: flvBody, want: 400,
			says: "bad stream name"},
		// The same name as in the next line.
		{method: "POST", path: "/live/a%2Fb", body: flvBody, want: 200, says: `"stream":"a/b"`},
		{method: "POST", path: "/live/a/b", body: flvBody, want: 200, says: `"stream":"a/b"`},
		{method: "POST", path: "/live/a/b/c/d.flv", body: flvBody, want: 200,
			says: `"stream":"a/b/c/d"`},
		{method: "POST", path: "/live/a/b/c/d/e", body: flvBody, want: 400, says: "4 parts"},
		{method: "POST", path: "/live/a/", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/a//b", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/a%2F%2Fb", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/a/%2e%2e", body: flvBody, want: 400, says: "dots alone"},
		{method: "POST", path: "/live/a%2F..%2Fb", body: flvBody, want: 400, says: "dots alone"},
		{method: "POST", path: "/live/a.m3u8", body: flvBody, want: 400, says: "asks for HLS"},
		{method: "POST", path: "/live/a/index.m3u8", body: flvBody, want: 405},
		{method: "GET", path: "/live/none/at/all", want: 404, says: `no stream "none/at/all"`},
		{method: "GET", path: "/live/none/at/all/index.m3u8", want: 404,
			says: `no stream "none/at/all"`},
		{method: "POST", path: "/live/%00", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/caf%C3%A9", body: flvBody, want: 400,
			says: "bad stream name"},
		{method: "POST", path: "/live/a.mp4", body: flvBody, want: 400, says: "asks for a format"},
		{method: "POST", path: "/live/...", body: flvBody, want: 400, says: "dots"},
		{method: "POST", path: "/live/", body: flvBody, want: 400, says: "bad stream name"},
		{method: "POST", path: "/live/a", body: flvBody[:len(flvBody)-1], want: 400,
			says: "unexpected EOF"},
		{method: "POST", path: "/live/a", body: "FLV\x01\x05\x00\x00\x00\x09", want: 400,
			says: "unexpected EOF"},

		{method: "GET", path: "/live/none", want: 404, says: `no stream "none"`},
		{method: "GET", path: "/live/none.m3u8", want: 400,
			says: "the HLS of a stream is at NAME/index.m3u8"},
		{method: "HEAD", path: "/live/none", want: 404},
		{method: "GET", path: "/live/a%20b", want: 400, says: "bad stream name"},
		{method: "GET", path: "/live/.flv", want: 400, says: "bad stream name"},
		{method: "GET", path: "/live/a.flv.mp4", want: 400, says: "asks for a format"},
		{method: "DELETE", path: "/live/a", want: 405, says: "DELETE"},
		{method: "OPTIONS", path: "/live/a", want: 204},

		{method: "GET", path: "/", want: 200, says: "<html"},
		{method: "GET", path: "/healthz", want: 200, says: "ok"},
		{method: "GET", path: "/metrics", want: 200, says: "millrace_streams 0"},
		{method: "GET", path: "/api/streams", want: 200,
			says: `"publish":"open","read":"open","rtmp":0,"rtmps":0,"loopback":true,"rtmp_loopback":false,"rtmps_loopback":false,"posters":true},"streams":[]`},
		{method: "POST", path: "/api/streams", want: 405},
		{method: "POST", path: "/healthz", want: 405},
		{method: "POST", path: "/metrics", want: 405},
		{method: "POST", path: "/", want: 405},
		{method: "GET", path: "/debug/pprof/", want: 404}, // only on the admin listener
		{method: "GET", path: "/elsewhere", want: 404, says: "nothing here"},
		{method: "GET", path: "/live", want: 404, says: "/live/NAME for a stream"},
	} {
		name := strings.TrimSpace(fmt.Sprintf("%s %.30s %s", tt.method, tt.path, tt.header))
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *Config) { c.ViewerWait = 10 * time.Millisecond })
			res := f.Request(tt.method, tt.path, tt.body, tt.header)
			if res.Status != tt.want || !strings.Contains(res.Body, tt.says) {
				t.Errorf("%d %.200q, want %d with %q", res.Status, res.Body, tt.want, tt.says)
			}
			if res.Status == 405 && res.Header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	none := filepath.Join(dir, "none")
	redis := func(change func(*Config)) func(*Config) {
		return func(c *Config) { c.Redis = "redis://127.0.0.1:1"; change(c) }
	}
	node := func(change func(*Config)) func(*Config) {
		return func(c *Config) {
			c.Cluster, c.Advertise, c.ClusterToken = "redis://127.0.0.1:1", "http://127.0.0.1:8080",
				"t"
			change(c)
		}
	}
	for _, tt := range []struct {
		says   string
		change func(*Config)
	}{
		{"max-streams", func(c *Config) { c.MaxStreams = 0 }},
		{"latency", func(c *Config) { c.Latency = -1 }},
		{"--latency is", func(c *Config) { c.Latency = time.Minute }},
		{"lag-policy", func(c *Config) { c.LagPolicy = "wait" }},
		{"takeover", func(c *Config) { c.Takeover = "perhaps" }},
		{"publisher-return", func(c *Config) { c.PublisherReturn = -1 }},
		{"max-tag-bytes", func(c *Config) { c.MaxTagBytes = 32 << 20 }},
		{"1048591 bytes a tag", func(c *Config) { c.MaxTagBytes, c.KeepBytes = 1<<20, 1<<20 }},
		{"keep-frames", func(c *Config) { c.KeepFrames = math.MaxInt32 }},
		{"stall-timeout", func(c *Config) { c.StallTimeout = 0 }},
		{"--listen is", func(c *Config) { c.Listen = "8080" }},
		{"--admin is", func(c *Config) { c.Admin = "8080" }},
		{"begins or ends with", func(c *Config) { c.ReadToken = " x" }},

		{"needed together", func(c *Config) { c.TLSCert = cert }},
		{"needed together", func(c *Config) { c.TLSKey = key }},
		{"--tls-cert, --tls-key: stat", func(c *Config) { c.TLSCert, c.TLSKey = none, key }},
		{"--tls-cert, --tls-key: stat", func(c *Config) { c.TLSCert, c.TLSKey = cert, none }},
		{"--tls-cert, --tls-key: " + key + ", " + cert + ": tls:",
			func(c *Config) { c.TLSCert, c.TLSKey = key, cert }},

		{"--root", func(c *Config) { c.Root = cert }}, // no directory
		{"--root", func(c *Config) { c.Root = none }},
		{"--files-drop-behind", func(c *Config) { c.FilesDropBehind = -1 }},
		{"--max-downloads", func(c *Config) { c.MaxDownloads = 0 }},

		{"want one of them", redis(func(c *Config) { c.Blobs = dir })},
		{"no such file", func(c *Config) { c.Blobs = none }},
		{"--redis: want redis://", func(c *Config) { c.Redis = "http://user:secret@127.0.0.1:1" }},
		{"braces", redis(func(c *Config) { c.RedisPrefix = "a{b}" })},
		{"Redis takes", redis(func(c *Config) { c.MaxBlobBytes = 1 << 30 })},
		{"--max-blob-bytes", func(c *Config) { c.MaxBlobBytes = 0 }},
		{"--max-blob-bytes is ", func(c *Config) { c.MaxBlobBytes = 1 << 62 }},
		{"--cluster: want redis://", node(
			func(c *Config) { c.Cluster = "http://user:secret@127.0.0.1:1" })},
		{"--cluster: want redis://", node(
			func(c *Config) { c.Cluster = "redis://user:secret@%zz" })},
		{"--cluster needs --advertise", node(func(c *Config) { c.Advertise = "" })},
		{"--cluster needs --cluster-token", node(func(c *Config) { c.ClusterToken = "" })},
		{"begins or ends with", node(func(c *Config) { c.ClusterToken = "secret " })},
		{"--advertise is", node(func(c *Config) { c.Advertise = "10.0.0.5:8080" })},
		{"--advertise is", node(func(c *Config) { c.Advertise = "http://10.0.0.5" })},
		{"--advertise is", node(func(c *Config) { c.Advertise = "http://10.0.0.5:8080/live" })},
		{"no other machine", node(func(c *Config) { c.Advertise = "http://0.0.0.0:8080" })},
		{"the prefix of keys is", node(func(c *Config) { c.ClusterPrefix = "a{b}" })},
		{"--cluster-lease is", func(c *Config) { c.ClusterLease = time.Millisecond }},
		{"--cluster-lease is", func(c *Config) { c.ClusterLease = time.Hour }},
		{"--cluster-cache is", func(c *Config) { c.ClusterCache = 1 }},
		{"--segments is", func(c *Config) { c.Segments = "/srv/segments" }},
		{"--segments-keep is", func(c *Config) { c.SegmentsKeep = time.Second }},
		{"--segments-keep is", func(c *Config) { c.SegmentsKeep = 24 * time.Hour }},
		{"--max-uploads", func(c *Config) { c.MaxUploads = 0 }},
	} {
		cfg := Defaults()
		tt.change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), tt.says) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an error that says so without the secret", tt.says, err)
		}
	}
	if _, err := New(Defaults()); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

// A reachable listener pretends that other machines can reach it.
type reachable struct{ net.Listener }

func (reachable) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 8080} }

// The admin listener shows the publishers' addresses. The main listener shows them only if no other
// machine can reach it.
func TestPublisherAddressesAreHidden(t *testing.T) {
	for _, public := range []bool{false, true} {
		cfg := Defaults()
		cfg.PublishToken, cfg.Demo = "t", true
		ln, admin := listen(t), listen(t)
		addr := ln.Addr().String()
		if public {
			ln = reachable{ln}
		}
		f := serveOn(t, cfg, &logBook{}, Listeners{Main: ln, Admin: admin})
		f.Addr = addr
		side := *f
		side.Addr = admin.Addr().String()
		p := f.Publisher("cam?token=t")
		p.Send([]byte("bytes"))
		f.published("cam", 5)
		f.published("demo", 1)
		const address = `"publisher":"127.0.0.1:`
		if res := side.Get("/api/streams"); res.Status != 200 ||
			!strings.Contains(res.Body, address) {
			t.Errorf("public %v: the admin listener says %s", public, res.Body)
		}
		res := f.Get("/api/streams")
		if strings.Contains(res.Body, address) == public ||
			!strings.Contains(res.Body, `"publisher":"demo"`) {
			t.Errorf("public %v: the main listener says %s", public, res.Body)
		}
		p.End()
	}
}
