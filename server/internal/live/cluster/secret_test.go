package cluster

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A provingNode is a server that accepts requests of nodes.
type provingNode struct {
	*httptest.Server
	secret *Secret
	served atomic.Int32  // number of accepted requests
	epoch  atomic.Uint64 // of the last accepted request
	seen   chan http.Header
}

func newProvingNode(t *testing.T, token string) *provingNode {
	n := &provingNode{seen: make(chan http.Header, 100)}
	n.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		n.seen <- r.Header.Clone()
		switch n.secret.Admit(w.Header(), r) {
		case Proved:
			n.epoch.Store(EpochOf(r))
			n.served.Add(1)
			_, _ = io.WriteString(w, "streams")
		case Challenged:
			w.WriteHeader(http.StatusUnauthorized)
		case Refused:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	n.secret = NewSecret(token, "http://"+n.Listener.Addr().String())
	n.Start()
	t.Cleanup(n.Close)
	return n
}

// ask sends a signed request, and repeats it if it is challenged. It returns the number of
// requests.
func ask(t *testing.T, s *Secret, address string) (requests int, err error) {
	t.Helper()
	for again := true; again; {
		req, _ := http.NewRequest("GET", address, nil)
		s.Sign(req, 3)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		requests++
		if again, err = s.Check(res); !again {
			return requests, err
		}
		if requests == 5 {
			t.Fatal("challenged again and again")
		}
	}
	return requests, nil
}

// Both sides prove that they know the token, without sending it. A node is challenged once.
func TestNodesProveTheirSecret(t *testing.T) {
	const token = "a shared secret"
	node, asks := newProvingNode(t, token), NewSecret(token, "http://asks:1")
	for i, want := range []int{2, 1, 1} {
		if n, err := ask(t, asks, node.URL+"/live/cam%20era?_HLS_msn=1&x=y"); n != want ||
			err != nil {
			t.Errorf("request %d took %d, want %d: %v", i, n, want, err)
		}
	}
	if epoch := node.epoch.Load(); epoch != 3 {
		t.Errorf("the requests are for epoch %d, want 3", epoch)
	}
	if !asks.Proven(node.URL) {
		t.Error("the node has proved nothing")
	}
	close(node.seen)
	for h := range node.seen {
		if text := fmt.Sprint(h); strings.Contains(text, token) ||
			h.Get(HeaderNode) != "http://asks:1" {
			t.Errorf("the secret, or no name of the node, was sent: %s", text)
		}
	}
}

// A node that does not know the token gets nothing, and an error that says so. A response of such a
// node is not accepted.
func TestWrongSecrets(t *testing.T) {
	node := newProvingNode(t, "right")
	if _, err := ask(t, NewSecret("wrong", "http://asks:1"), node.URL+"/x"); err == nil ||
		node.served.Load() > 0 {
		t.Errorf("a wrong secret: %v, served %d, want an error and nothing served", err,
			node.served.Load())
	}
	asks := NewSecret("right", "http://asks:1")
	for name, answer := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"the proof itself": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(HeaderProof, r.Header.Get(HeaderProof))
		},
		"the client's MAC": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(HeaderProof, strings.Split(r.Header.Get(HeaderProof), " ")[3])
		},
		"a bad challenge": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(HeaderProof, "x")
			w.WriteHeader(http.StatusUnauthorized)
		},
		"the same challenge for ever": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(HeaderProof, strings.Repeat("0", challengeSize))
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		s := httptest.NewServer(answer)
		if _, err := ask(t, asks, s.URL); err == nil || asks.Proven(s.URL) {
			t.Errorf("%s: an answer without a proof was accepted", name)
		}
		s.Close()
	}
}

// An attacker makes a node dial another address, and relays its messages to a real node. The
// attacker gets nothing from either.
func TestRelayedProofs(t *testing.T) {
	node, asks := newProvingNode(t, "secret"), NewSecret("secret", "http://asks:1")
	real, _ := url.Parse(node.URL)
	for name, host := range map[string]string{"with its own Host": "",
		"with the node's Host": real.Host} {
		proxy := httputil.NewSingleHostReverseProxy(real)
		between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			if host != "" {
				r.Host = host
			}
			proxy.ServeHTTP(w, r)
		}))
		if _, err := ask(t, asks, between.URL+"/live/cam"); err == nil || node.served.Load() > 0 ||
			asks.Proven(between.URL) {
			t.Errorf("%s: %v, served %d, want an error and nothing served", name, err,
				node.served.Load())
		}
		between.Close()
	}
}

// A proof is only valid for its own request.
func TestProofsOfOtherRequests(t *testing.T) {
	node, asks := newProvingNode(t, "secret"), NewSecret("secret", "http://asks:1")
	if _, err := ask(t, asks, node.URL+"/live/cam"); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r *http.Request){
		"another path":   func(r *http.Request) { r.URL.Path = "/live/other" },
		"another query":  func(r *http.Request) { r.URL.RawQuery = "x=1" },
		"another method": func(r *http.Request) { r.Method = "HEAD" },
		"another node":   func(r *http.Request) { r.Header.Set(HeaderNode, "http://other:1") },
		"another epoch": func(r *http.Request) {
			r.Header.Set(HeaderProof, strings.Replace(r.Header.Get(HeaderProof), " 3 ", " 4 ", 1))
		},
		"no proof": func(r *http.Request) { r.Header.Set(HeaderProof, "") },
		"five words": func(r *http.Request) {
			r.Header.Set(HeaderProof, r.Header.Get(HeaderProof)+" x")
		},
		"a long challenge": func(r *http.Request) {
			r.Header.Set(HeaderProof, strings.Repeat("a", 1<<12)+" b c d")
		},
	} {
		served := node.served.Load()
		req, _ := http.NewRequest("GET", node.URL+"/live/cam", nil)
		asks.Sign(req, 3)
		change(req)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden || node.served.Load() != served {
			t.Errorf("%s: %d, want 403 and nothing served", name, res.StatusCode)
		}
	}
}

// Challenges expire, and end with the node that made them.
func TestChallengesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSecret("secret", "http://h:1")
		c := s.newChallenge()
		for _, tt := range []struct {
			text string
			want bool
		}{{c, true}, {"", false}, {c[:len(c)-2], false}, {c + "00", false}, {"z" + c[1:], false},
			{NewSecret("secret", "http://h:1").newChallenge(), false}} {
			if s.isChallenge(tt.text) != tt.want {
				t.Errorf("%q: want %v", tt.text, tt.want)
			}
		}
		time.Sleep(challengeTime - 1)
		if !s.isChallenge(c) {
			t.Error("it has ended too early")
		}
		time.Sleep(time.Nanosecond)
		if s.isChallenge(c) {
			t.Error("it has not ended")
		}
		for i := range 3 * maxKnown {
			s.updateNode(fmt.Sprint("http://h:", i), func(n *knownNode) { n.proven = i < 10 })
		}
		if len(s.nodes) != maxKnown || !s.Proven("http://h:3") {
			t.Errorf("%d nodes are known", len(s.nodes))
		}
	})
}
