package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/token"
)

// Reloaded settings apply to the next request, while other requests are being served.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := serveRTMP(t, func(c *Config) {
		c.PublishToken, c.ReadToken, c.Root, c.Blobs = "p1", "r1", dir, t.TempDir()
	})
	eventually(t, "the server to serve", func() bool {
		return strings.Contains(f.Log.String(), "msg=listening")
	})
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for _, path := range []string{"/files/file", "/blobs/a", "/api/streams", "/live/cam.flv"} {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f.Request("GET", path+"?token=r", "")
				}
			}
		})
	}
	cfg := f.cfg
	for i := range 20 {
		cfg.PublishToken, cfg.ReadToken = fmt.Sprintf("p%d", i), fmt.Sprintf("r%d", i)
		f.Reload(&cfg)
		for token, want := range map[string]int{cfg.ReadToken: 200, cfg.PublishToken: 200,
			"r-1": 403} {
			if res := f.Request("GET", "/files/file?token="+token, ""); res.Status != want {
				t.Errorf("round %d, %s: %d, want %d", i, token, res.Status, want)
			}
		}
		if res := f.Request("PUT", "/blobs/a?token="+cfg.PublishToken, "x"); res.Status/100 != 2 {
			t.Errorf("round %d: %d %s, want 2xx", i, res.Status, res.Body)
		}
	}
	close(stop)
	clients.Wait()

	p := f.client("live")
	if s := p.Publish("cam?token=p0"); s.Level != "error" {
		t.Errorf("over RTMP with the first token: %+v", s)
	}
	p = f.client("live")
	if s := p.Publish("cam?token=p19"); s.Level != "status" {
		t.Errorf("over RTMP: %+v", s)
	}
	cfg.MaxStreams = 1
	f.Reload(&cfg)
	if s := f.client("live").Publish("cam2?token=p19"); !strings.Contains(s.Description,
		"the server has 1 streams") {
		t.Errorf("a stream above the limit: %+v", s)
	}
	cfg.MaxStreams, cfg.ReadToken = 2, ""
	f.Reload(&cfg)
	if s := f.client("live").Publish("cam2?token=p19"); s.Level != "status" {
		t.Errorf("publishing was refused: %+v", s)
	}
	if res := f.Get("/files/file"); res.Status != http.StatusOK {
		t.Errorf("without a token: %d", res.Status)
	}
}

// A reload that loses tokens, as with a half-written file, logs what anyone may do now.
func TestReloadWithoutTokens(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(token.NewKey()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, signed := range []string{"", key} {
		admin, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := Defaults()
		cfg.PublishToken, cfg.ReadToken, cfg.AdminToken, cfg.TokenKey = "p", "r", "a", signed
		book := &logBook{}
		cfg.Log = slog.New(slog.NewTextHandler(book, nil))
		f := serveOn(t, cfg, book, Listeners{Main: listen(t), Admin: admin})
		eventually(t, "the server to serve", func() bool {
			return strings.Contains(f.Log.String(), "msg=listening")
		})
		for _, says := range []string{"reading needs no token from now on",
			"the admin listener needs no token from now on"} {
			f.Reload(&cfg)
			if strings.Contains(f.Log.String(), says) {
				t.Errorf("%q, and nothing has changed", says)
			}
			cfg.ReadToken = ""
			if strings.Contains(says, "admin") {
				cfg.AdminToken = ""
			}
			f.Reload(&cfg)
			f.Reload(&cfg)
			if n := strings.Count(f.Log.String(), says); n != 1 {
				t.Errorf("%q: %d warnings, want 1", says, n)
			}
		}
	}
}

// A reload uses a renewed certificate at once.
func TestReloadOfACertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	f := serve(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	eventually(t, "the server to serve", func() bool {
		return strings.Contains(f.Log.String(), "msg=listening")
	})
	now := time.Now()
	if got := f.cert.(*certificate).get(now).Leaf.SerialNumber.Int64(); got != 1 {
		t.Fatalf("certificate %d, want 1", got)
	}
	writeCertificate(t, dir, 2)
	f.Reload(&f.cfg)
	if got := f.cert.(*certificate).get(now).Leaf.SerialNumber.Int64(); got != 2 {
		t.Errorf("certificate %d, want 2", got)
	}
}
