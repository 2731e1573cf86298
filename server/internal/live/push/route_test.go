package push

import (
	"strings"
	"testing"
)

func secret(word string) (string, bool) {
	key, ok := map[string]string{"key": "s3cr3t", "other": "0th3r"}[word]
	return key, ok
}

func TestRoutes(t *testing.T) {
	for _, tt := range []struct {
		text, name  string // the route, and the name of a stream
		host, shown string // "": the route does not match
		key         string // of the RTMP address
	}{
		{"live/cam=rtmp://h/app/{key}", "cam", "h:1935", "rtmp://h/app/…", "s3cr3t"},
		{"/live/cam=rtmps://h:1/app/{key}?x={other}", "cam", "h:1", "rtmps://h:1/app/…",
			"s3cr3t?x=0th3r"},
		{"live/cam=rtmp://h/app/{key}", "other", "", "", ""},
		{"live/a/*=rtmp://h/app/{name}", "a/b/c", "h:1935", "rtmp://h/app/a/b/…", "c"},
		{"live/cam-*=rtmp://h/{name}/{key}", "cam-1", "h:1935", "rtmp://h/cam-1/…", "s3cr3t"},
		{"live/cam=https://h/live/{key}", "cam", "h:https", "https://h/live/…", ""},
		{"live/cam=http://h:8/live/x?token={key}", "cam", "h:8", "http://h:8/live/…", ""},
	} {
		r, err := ParseRoute(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got := r.Matches(tt.name); got != (tt.host != "") {
			t.Errorf("%s matches %s: %v", tt.text, tt.name, got)
		}
		if tt.host == "" {
			continue
		}
		to, err := r.target(tt.name, secret)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if host, secure := to.host(); host != tt.host || secure != strings.Contains(tt.text, "s:") {
			t.Errorf("%s: host %s, TLS %v, want %s", tt.text, host, secure, tt.host)
		}
		if to.String() != tt.shown || to.rtmp.Key != tt.key {
			t.Errorf("%s: %v with key %q, want %s with %q", tt.text, to, to.rtmp.Key, tt.shown, tt.key)
		}
		text := "refused: " + tt.text + " s3cr3t 0th3r"
		if got := to.hide(text); strings.Contains(tt.text, "{key}") && strings.Contains(got, "s3cr3t") {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

// Keys are hidden in all forms, wherever they are in the address, and in what a server answers.
func TestHiddenKeys(t *testing.T) {
	for _, tt := range []struct{ address, key, shown, answer string }{
		{"rtmp://h/{k}/live", "KEY", "rtmp://h/…/…", "no app KEY"},
		{"rtmp://{k}.h/app/x", "KEY", "rtmp://….h/app/…", "no host KEY.h"},
		{"rtmp://h/app/cam?token=KEY", "", "rtmp://h/app/…", "bad token KEY"},
		{"http://h/live/{k}", "KEY%2Bx%3D", "http://h/live/…", "no KEY+x= nor KEY%2Bx%3D"},
		{"http://h/ingest/KEY", "", "http://h/ingest/…", "not allowed: /ingest/KEY"},
		{"https://h/live/cam?a=KEY%20x", "", "https://h/live/…", "bad KEY x, KEY+x or KEY%20x"},
		{"rtmp://h/{k}/{l}", "KEY", "rtmp://h/…/…", strings.Repeat("x", 290) + "KEY-and-more"},
	} {
		r := Route{pattern: "cam", address: tt.address}
		to, err := r.target("cam", func(word string) (string, bool) {
			if word == "l" {
				return "KEY-and-more", true
			}
			return tt.key, true
		})
		if err != nil {
			t.Errorf("%s: %v", tt.address, err)
			continue
		}
		if got := to.hide(tt.answer); to.String() != tt.shown || strings.Contains(got, "KEY") ||
			strings.Contains(got, "and-more") || len(got) > maxReason {
			t.Errorf("%s is shown as %v, and an answer as %q", tt.address, to, got)
		}
	}
	for _, key := range []string{"", "a#b", "a/b", "a b", "a^b", "a|b", "a\nb", "ä"} {
		r := Route{pattern: "cam", address: "rtmp://h/app/{k}"}
		_, err := r.target("cam", func(string) (string, bool) { return key, true })
		if err == nil || key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("key %q: %v, want an error without it", key, err)
		}
	}
}

func TestBadRoutes(t *testing.T) {
	for _, text := range []string{"", "cam", "cam=rtmp://h/app/s3cr3t", "live/=rtmp://h/app/s3cr3t",
		"live/cam=", "live/cam=s3cr3t", "live/cam=rtmp://h/s3cr3t", "live/cam-*=rtmp://h/app/s3cr3t",
		"live/[=rtmp://h/{name}/s3cr3t", "live/a b=rtmp://h/app/s3cr3t",
		"live/cam=ftp://h/app/s3cr3t", "live/cam=http:///live/s3cr3t",
		"live/cam=http://u:s3cr3t@h/live/cam", "live/cam.flv=rtmp://h/app/s3cr3t"} {
		if r, err := ParseRoute(text); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: %+v, %v, want an error without the key", text, r, err)
		}
	}
	r, err := ParseRoute("live/cam=rtmp://h/app/{missing}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Routes: []Route{r}, Secret: secret}); err == nil ||
		!strings.Contains(err.Error(), "missing") {
		t.Errorf("%v, want an error with the missing word", err)
	}
}

func TestEqualRoutes(t *testing.T) {
	var routes Routes
	if err := routes.Set("live/cam=rtmp://h/app/{key} live/cam=rtmp://h/app/{key}"); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Routes: routes, Secret: secret}); err == nil {
		t.Error("two equal routes are accepted")
	}
}

func TestHasKey(t *testing.T) {
	for text, want := range map[string]bool{
		"live/cam=rtmp://h/app/{key}":              false,
		"live/cam=rtmp://h/app/s3cr3t":             true,
		"live/cam-*=rtmp://h/app/{name}":           false,
		"live/cam-*=rtmp://h/app/{name}?s=s3cr3t":  true,
		"live/cam=http://h/live/cam":               false,
		"live/cam=http://h/live/cam?token={key}":   false,
		"live/cam=http://h/live/cam?token=s3cr3t":  true,
		"live/cam=http://h/live/{name}?a={key}&b=": false,
	} {
		r, err := ParseRoute(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if r.HasKey() != want {
			t.Errorf("%s has a key: %v, want %v", text, !want, want)
		}
	}
}
