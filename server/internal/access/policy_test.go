package access

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/token"
)

// statusOf returns the status of a refusal, or 0.
func statusOf(err error) int {
	if err == nil {
		return 0
	}
	return refuse.Status(err)
}

// A listener that other machines can reach accepts publishers only with the token.
func TestPublishingThroughAPublicListener(t *testing.T) {
	public, local := &net.TCPAddr{IP: net.IPv4zero, Port: 8080}, &net.TCPAddr{IP: net.IPv6loopback}
	for _, tt := range []struct {
		token    string
		listener net.Addr
		policy   string
		status   int // for a request with the token t
	}{
		{"", public, "off", 403}, {"t", public, "token", 0},
		{"", local, "open", 0}, {"t", local, "token", 0}, {"u", local, "token", 403},
	} {
		p := &Policy{Publish: tt.token, Loopback: IsLoopback(tt.listener)}
		r, _ := http.NewRequest("POST", "http://127.0.0.1:8080/live/a?token=t", nil)
		if err := p.CheckPublish(r, "a"); p.Publishing() != tt.policy ||
			statusOf(err) != tt.status {
			t.Errorf("token %q at %v: %s, %d %v; want %s, %d",
				tt.token, tt.listener, p.Publishing(), statusOf(err), err, tt.policy, tt.status)
		}
	}
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.1:1": true, "[::1]:1": true, "0.0.0.0:1": false,
		"[::]:1": false, "192.0.2.1:1": false,
	} {
		if tcp, err := net.ResolveTCPAddr("tcp", addr); err != nil || IsLoopback(tcp) != want {
			t.Errorf("IsLoopback(%s) is %v, %v", addr, !want, err)
		}
	}
}

// A page of another site that resolves its own name to 127.0.0.1 cannot read from a server that
// only this machine can reach.
func TestReadersOfALoopbackListenerNameThisMachine(t *testing.T) {
	for host, here := range map[string]bool{
		"localhost": true, "LOCALHOST:80": true, "a.localhost": true, "127.0.0.1": true,
		"127.8.9.1:8080": true,
		"[::1]:80":       true, "[::1]": true, "": true,
		"example.org": false, "127.0.0.1.example.org": false, "192.0.2.1:80": false,
		"localhost.example.org": false,
	} {
		for _, tt := range []struct {
			policy Policy
			path   string
			status int // for a host name that is not local
		}{
			{Policy{Loopback: true}, "/", 403},
			{Policy{Publish: "p", Loopback: true}, "/", 403},
			{Policy{Publish: "p", Loopback: true}, "/?token=x", 403},
			{Policy{Publish: "p", Loopback: true}, "/?token=p", 0},
			{Policy{Read: "r", Loopback: true}, "/?token=r", 0},
			{Policy{}, "/", 0},
		} {
			r, _ := http.NewRequest("GET", tt.path, nil)
			r.Host = host
			want := tt.status
			if here {
				want = 0
			}
			if err := tt.policy.checkRead(r); statusOf(err) != want {
				t.Errorf("Host %q, %+v, %s: %d %v, want %d", host, tt.policy, tt.path,
					statusOf(err), err, want)
			}
		}
	}
}

// On a listener that other machines can reach, signed tokens suffice to publish.
func TestSignedTokensOpenPublishing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(token.NewKey()), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := token.ReadKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := keys.Sign(token.Token{Right: token.Publish, Stream: "a",
		Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	p := &Policy{Keys: keys}
	r, _ := http.NewRequest("POST", "http://example.org/live/a?token="+signed, nil)
	if err := p.CheckPublish(r, "a"); err != nil || p.Publishing() != "token" {
		t.Errorf("%s: %v, want a signed token accepted", p.Publishing(), err)
	}
	if err := p.CheckPublish(r, ""); statusOf(err) != 403 ||
		!strings.Contains(err.Error(), "--publish-token") {
		t.Errorf("a blob: %v, want 403 that names --publish-token", err)
	}
}

// With a hook and without a token, other machines may publish, but not write blobs. Host names are
// checked on a loopback listener.
func TestHookDecidesForOtherMachines(t *testing.T) {
	p := &Policy{Hook: true}
	r := httptest.NewRequest("POST", "http://example.org/live/cam", nil)
	if err := p.CheckPublish(r, "cam"); err != nil || p.Publishing() != "hook" {
		t.Errorf("%v, %s, want the hook to decide", err, p.Publishing())
	}
	if err := p.CheckPublish(r, ""); statusOf(err) != 403 {
		t.Errorf("a blob: %v, want 403", err)
	}
	if err := p.On(true).CheckPublish(r, "cam"); statusOf(err) != 403 {
		t.Errorf("another host on loopback: %v", err)
	}
	p.Publish = "t0ken"
	if err := p.CheckPublish(r, "cam"); statusOf(err) != 401 || p.Publishing() != "token" {
		t.Errorf("without the token: %v, %s", err, p.Publishing())
	}
}
