package server

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/server/internal/token"
)

// writeKeys writes the file of --token-key. It returns a function that signs with the first key.
func writeKeys(t *testing.T, file string, keys ...string) (sign func(right token.Right,
	stream string, left time.Duration) string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.Join(keys, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := token.ReadKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(right token.Right, stream string, left time.Duration) string {
		t.Helper()
		text, err := k.Sign(token.Token{Right: right, Stream: stream,
			Expires: time.Now().Add(left)})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// A signed token grants its right to its stream, over every protocol, until it expires. The two
// plain tokens still work.
func TestSignedTokens(t *testing.T) {
	file, old, next := filepath.Join(t.TempDir(), "keys"), token.NewKey(), token.NewKey()
	sign := writeKeys(t, file, old)
	f := serveRTMP(t, func(c *Config) {
		c.TokenKey, c.ReadToken, c.Blobs = file, "mine", t.TempDir()
	})
	publish, read := sign(token.Publish, "cam", time.Hour), sign(token.Read, "cam", time.Hour)
	unknown := writeKeys(t, file+"2", next)(token.Publish, "cam", time.Hour)
	const video = "FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00"
	for _, tt := range []struct {
		method, path, token string
		want                int
		says                string
	}{
		{"POST", "/live/cam", "", 401, "needs the token"},
		{"POST", "/live/cam", "mine", 403, "wrong publish token\n"},
		{"POST", "/live/cam", read, 403, "for reading"},
		{"POST", "/live/cam2", publish, 403, "is for another stream: cam"},
		{"POST", "/live/cam", sign(token.Publish, "cam", -time.Minute), 403, "has expired at"},
		{"POST", "/live/cam", unknown, 403, "no key with the token's kid"},
		{"POST", "/live/cam", publish + "x", 403, "not signed with this server's key"},
		{"POST", "/live/cam", "eyJhbGciOiJub25lIn0.e30.", 403, "the token's alg is"},
		{"POST", "/live/cam", "e.y.x", 403, "malformed"},
		{"POST", "/live/cam", "e.y.x.z", 403, "wrong publish token\n"},
		{"POST", "/live/cam", publish, 200, ""},
		{"POST", "/live/cam.flv", sign(token.Publish, "*", time.Hour), 200, ""},
		{"PUT", "/blobs/cam", publish, 200, ""}, // as without keys, this machine may do it
		{"GET", "/blobs/cam", read, 403, "signed tokens are for streams"},
		{"GET", "/", read, 403, "signed tokens are for streams"},
		{"GET", "/api/streams", sign(token.Read, "*", time.Hour), 403,
			"signed tokens are for streams"},
		{"GET", "/api/streams", "mine", 200, ""},
		{"GET", "/live/cam2.flv", read, 403, "is for another stream: cam"},
		{"GET", "/live/cam2/index.m3u8", read, 403, "is for another stream: cam"},
		{"GET", "/live/cam/index.m3u8", sign(token.Read, "cam", -time.Minute), 403, "has expired"},
		{"GET", "/live/cam/sub.flv", read, 403, "is for another stream: cam"},
		{"GET", "/live/cam%2Fsub/index.m3u8", read, 403, "is for another stream: cam"},
		{"GET", "/live/cam/sub/5-1.m4s", read, 403, "is for another stream: cam"},
		{"POST", "/live/cam%2Fsub", publish, 403, "is for another stream: cam"},
		{"HEAD", "/live/cam.flv", read, 404, ""}, // allowed, but the stream does not exist
		{"HEAD", "/live/cam.mp4", publish, 404, ""},
		{"HEAD", "/live/cam", sign(token.Read, "*", time.Hour), 404, ""},
	} {
		body := ""
		if tt.method == "POST" || tt.method == "PUT" {
			body = video
		}
		for _, res := range []string{"query", "header"} {
			path, header := tt.path, "X-None: x"
			if res == "query" {
				path += "?token=" + tt.token
			} else {
				header = "Authorization: Bearer " + tt.token
			}
			got := f.Request(tt.method, path, body, header)
			if got.Status/100 != tt.want/100 || tt.want >= 400 && got.Status != tt.want ||
				!strings.Contains(got.Body, tt.says) {
				t.Errorf("%s %s with %q in the %s: %d %s, want %d %s", tt.method, tt.path, tt.token,
					res, got.Status, got.Body, tt.want, tt.says)
			}
		}
	}

	// An RTMP session continues while the key is replaced.
	p := f.client("live")
	if s := p.Publish("cam?token=" + read); s.Level != "error" ||
		!strings.Contains(s.Description, "for reading") {
		t.Errorf("over RTMP with a token for reading: %+v", s)
	}
	p = f.client("live")
	if s := p.Publish("cam?token=" + publish); s.Level != "status" {
		t.Fatalf("over RTMP: %+v", s)
	}
	cfg := f.cfg
	sign = writeKeys(t, file, next, old)
	f.Reload(&cfg)
	for _, shown := range []string{read, sign(token.Read, "cam", time.Hour)} {
		if res := f.Request("HEAD", "/live/cam.flv?token="+shown, ""); res.Status == 403 {
			t.Errorf("with two keys: %d %s", res.Status, res.Body)
		}
	}
	writeKeys(t, file, next)
	f.Reload(&cfg)
	if err := p.SendTags(sampleTags()...); err != nil {
		t.Errorf("the publisher whose key is gone: %v", err)
	}
	eventually(t, "the stream of the publisher whose key is gone",
		func() bool { return len(f.hub.Streams()) == 1 })
	if res := f.Request("GET", "/live/cam.flv?token="+read, ""); res.Status != 403 {
		t.Errorf("with a token of the key that is gone: %d", res.Status)
	}
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Reload(&cfg)
	if res := f.Request("POST", "/live/cam2?token="+sign(token.Publish, "cam2", time.Hour),
		video); res.Status != 200 {
		t.Errorf("after a file that cannot be used: %d %s", res.Status, res.Body)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	writeKeys(t, file, next, "signs EdDSA "+base64.StdEncoding.EncodeToString(der))
	f.Reload(&cfg)
	f.Reload(&cfg)
	log := f.Log.String()
	if !strings.Contains(log, "those before are in force") {
		t.Error("the log does not say that the file cannot be used")
	}
	if n := strings.Count(log, "the keys of signed tokens were read again"); n != 3 {
		t.Errorf("%d lines about changed keys, want 3:\n%s", n, log)
	}
	if !strings.Contains(log, "has private keys") || !strings.Contains(log, "keys=[signs]") {
		t.Errorf("no warning of a private key in the log:\n%s", log)
	}
	for _, secret := range []string{publish, read, strings.Fields(old)[2], strings.Fields(next)[2],
		"mine"} {
		if strings.Contains(log, secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}

// A server does not start if the file of keys is missing.
func TestWithoutTheFileOfKeys(t *testing.T) {
	cfg := Defaults()
	cfg.TokenKey = "/none"
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "--token-key") {
		t.Errorf("without the file: %v", err)
	}
}

// An HLS player that shows a signed token once can fetch everything with it.
func TestSignedTokenOfAPlayer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	sign := writeKeys(t, file, token.NewKey())
	f := serve(t, func(c *Config) { c.TokenKey, c.ReadToken, c.Demo = file, "mine", true })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	parts := 0
	c := hlscheck.Client{
		URL: fmt.Sprintf("http://%s/live/demo/index.m3u8?token=%s", f.Addr,
			sign(token.Read, "demo", time.Hour)),
		Object: func(hlscheck.Object) {
			if parts++; parts == 20 {
				cancel()
			}
		},
	}
	stats, err := c.Run(ctx)
	if m := hlscheck.Must(stats.Problems); err != nil || len(m) > 0 || parts < 20 {
		t.Errorf("%d parts, want 20 or more; %v\n%v", parts, err, m)
	}
}

// The cookie grants the right to read everything, so a token for one stream does not get it.
func TestSignedTokenGetsNoCookie(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	sign := writeKeys(t, file, token.NewKey())
	f := serve(t, func(c *Config) { c.TokenKey, c.ReadToken, c.ViewerWait = file, "mine", 0 })
	read := sign(token.Read, "cam", time.Hour)
	for _, path := range []string{"/live/cam.flv", "/live/cam/index.m3u8", "/live/cam"} {
		for _, request := range [][]string{
			{"?token=" + read}, {"?token=" + read + "&token=mine"},
			{"?token=x", "Authorization: Bearer " + read},
		} {
			res := f.Request("HEAD", path+request[0], "",
				append(request[1:], "Accept: text/html")...)
			if set := res.Header.Get("Set-Cookie"); set != "" || res.Status != 404 {
				t.Errorf("%s with %q: %d, cookie %q", path, request, res.Status, set)
			}
		}
	}
}
