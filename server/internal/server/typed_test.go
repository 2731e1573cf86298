package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/server/internal/hook"
)

// typedTokens are tokens that people or base64 produce.
var typedTokens = []string{
	"plain", "ab+cd", "+ab", "ab/cd", "a/b/c==", "ab%41", "100%", "a=b==", "a!b", "a&b",
	"a&token=b", "a;b", "a?b", "Zm9v+YmFy/YQ==",
}

// A token works as it was typed, and as programs escape it, over RTMP and HTTP.
func TestTokensAsTyped(t *testing.T) {
	t.Parallel()
	for _, token := range typedTokens {
		t.Run(token, func(t *testing.T) {
			f := serveRTMP(t, func(c *Config) {
				c.PublishToken, c.ReadToken, c.ViewerWait = token, "r"+token, 0
			})
			names := 0
			cam := func() string { names++; return fmt.Sprintf("cam%d", names) }
			for _, shown := range []string{token, url.PathEscape(token), url.QueryEscape(token)} {
				if s := f.client("live").Publish(cam() + "?token=" + shown); s.Level != "status" {
					t.Errorf("the stream key with %s: %+v", shown, s)
				}
				if s := f.client("live?token=" + shown).Publish(cam()); s.Level != "status" {
					t.Errorf("the application with %s: %+v", shown, s)
				}
				path := "live/" + cam() + "?token=" + shown
				for i := strings.Index(path, "?"); i < len(path); i++ {
					// Programs split an address at its second slash, or at its last one.
					if path[i] != '/' || strings.Contains(path[i:], "?") {
						continue
					}
					if s := f.client(path[:i]).Publish(path[i+1:]); s.Level != "status" {
						t.Errorf("publishing %s, divided, was refused: %+v", path, s)
					}
				}
				if res := f.Request("POST", "/live/http?a=1&token="+shown,
					"FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00"); res.Status != 200 {
					t.Errorf("POST with %s: %d %s", shown, res.Status, res.Body)
				}
				if res := f.Request("HEAD", "/live/none.flv?token=r"+shown, ""); res.Status != 404 {
					t.Errorf("HEAD with %s: %d", shown, res.Status)
				}
			}
			for _, wrong := range []string{"x" + token, token + "x", url.QueryEscape(token) + "x",
				"%"} {
				if s := f.client("live").Publish(cam() + "?token=" + wrong); s.Level != "error" {
					t.Errorf("the stream key with %s: %+v", wrong, s)
				}
			}
		})
	}
}

// The log warns of a token that an address may change, at the start and when the token is replaced.
func TestTokensThatAddressesChange(t *testing.T) {
	for _, token := range []string{"ab+cd", "ab%41", "a&b", "a;b", "a b", "a#b", "a?b", `a"b`, "å",
		"ab/"} {
		f := serve(t, func(c *Config) { c.ReadToken = token })
		f.Logged("--read-token", "addresses and programs may change")
		if strings.Contains(f.Log.String(), token) {
			t.Errorf("%s is in the log", token)
		}
	}
	f := serve(t, func(c *Config) { c.ReadToken = "ab/cd-_.~!==" })
	if strings.Contains(f.Log.String(), "may change") {
		t.Error("warned of a token that nothing changes")
	}
	cfg := f.cfg
	cfg.PublishToken = "a+b"
	f.Reload(&cfg)
	f.Logged("--publish-token", "addresses and programs may change")
}

// The hook gets the query as the client sent it.
func TestHookParametersAsTyped(t *testing.T) {
	h := newTestHook(t, func(hook.Request) (int, string) { return http.StatusOK, `{"allow":true}` })
	f := serveRTMP(t, func(c *Config) { c.Hook, c.ViewerWait = h.URL, 0 })
	for i, tt := range []struct{ query, token string }{
		{"u=x;v=y", ""}, {"sig=Zm9v+YmFy/YQ==&user=a+b@example.org", ""}, {"a=%zz&b=2", ""},
		{"flag", ""},
		{"a=1&a=2", ""}, {"url=http://h/y.png", ""}, {"token=a+b/c;d", "a+b/c;d"},
		{"token=a%2Bb", "a+b"},
	} {
		got := func(e hook.Event, protocol string) {
			t.Helper()
			list := h.events(e)
			q := list[len(list)-1]
			if q.Query != tt.query || q.Token != tt.token ||
				!strings.HasPrefix(q.Protocol, protocol) {
				t.Errorf("%s over %s: query %q, token %q over %s", tt.query, protocol, q.Query,
					q.Token, q.Protocol)
			}
		}
		if s := f.client("live").Publish(fmt.Sprint("cam", i, "?", tt.query)); s.Level != "status" {
			t.Errorf("publishing with %s was refused: %+v", tt.query, s)
		}
		got(hook.Publish, "rtmp")
		f.Request("HEAD", "/live/none.flv?"+tt.query, "")
		got(hook.PlayBegin, "http")
		f.Request("GET", "/live/none/index.m3u8?_HLS_msn=1&"+tt.query+"&_HLS_part=2", "")
		got(hook.PlayBegin, "hls")
	}
}
