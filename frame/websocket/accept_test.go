package websocket_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/websocket"
)

// TestRefusals sends requests that Accept refuses with an HTTP error.
func TestRefusals(t *testing.T) {
	good := map[string]string{"Upgrade": "WebSocket", "Connection": "upgrade",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
	for name, test := range map[string]struct {
		method, header, value string
		status                int
	}{
		"no upgrade":        {"GET", "Upgrade", "", http.StatusUpgradeRequired},
		"another upgrade":   {"GET", "Upgrade", "h2c", http.StatusUpgradeRequired},
		"no connection":     {"GET", "Connection", "keep-alive", http.StatusUpgradeRequired},
		"another version":   {"GET", "Sec-WebSocket-Version", "8", http.StatusUpgradeRequired},
		"no key":            {"GET", "Sec-WebSocket-Key", "", http.StatusBadRequest},
		"short key":         {"GET", "Sec-WebSocket-Key", "YWJj", http.StatusBadRequest},
		"POST":              {"POST", "", "", http.StatusMethodNotAllowed},
		"another origin":    {"GET", "Origin", "https://evil.example", http.StatusForbidden},
		"an invalid origin": {"GET", "Origin", "::", http.StatusForbidden},
		"no hijacker":       {"GET", "Origin", "http://example.com", http.StatusInternalServerError},
	} {
		r := httptest.NewRequest(test.method, "http://example.com/", nil)
		for k, v := range good {
			r.Header.Set(k, v)
		}
		if test.header != "" {
			r.Header.Set(test.header, test.value)
		}
		w := httptest.NewRecorder()
		conn, err := websocket.Accept(w, r, nil)
		if conn != nil || err == nil || w.Code != test.status ||
			!strings.Contains(w.Body.String(), "websocket: ") {
			t.Errorf("%s: status %d, %v, %q, want %d", name, w.Code, err, w.Body, test.status)
		}
		if upgrade := w.Header().Get("Sec-WebSocket-Version"); (upgrade == "13") !=
			(test.status == http.StatusUpgradeRequired) {
			t.Errorf("%s: version %q is offered", name, upgrade)
		}
	}
}

// TestSubprotocols checks that the server's preferred subprotocol is chosen, and that frames which
// arrive together with the request are read.
func TestSubprotocols(t *testing.T) {
	for offered, want := range map[string]string{"": "", "soap": "", "a, b": "b", "b,a": "b", "a": "a"} {
		got := make(chan string, 1)
		request := "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
			"Sec-WebSocket-Protocol: " + offered + "\r\n\r\n"
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, &websocket.Options{Subprotocols: []string{"b", "a"}})
			if err != nil {
				t.Error(err)
				return
			}
			got <- conn.Subprotocol()
			var m millrace.Chain
			if _, err := conn.Next(&m); err != nil || string(m.Bytes()) != "early" {
				t.Errorf("Next = %q, %v", m.Bytes(), err)
			}
			m.Release()
			conn.Next(&m)
		}))
		conn := dial(t, server)
		io.WriteString(conn, request+masked(text, "early")+closeFrame(1000, ""))
		answer, err := io.ReadAll(conn)
		if p := <-got; p != want || err != nil || strings.Contains(string(answer), "Sec-WebSocket-Protocol: "+want+"\r\n") != (want != "") {
			t.Errorf("offered %q: agreed on %q, %v, want %q:\n%s", offered, p, err, want, answer)
		}
		conn.Close()
		server.Close()
	}
}

func dial(t *testing.T, server *httptest.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
