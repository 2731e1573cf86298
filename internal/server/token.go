package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// A gate decides who may publish.
//
//   - With a token: whoever shows it, on every listener.
//   - Without: whoever reaches a loopback listener, under a name of this machine. The name matters because a page in a
//     browser can be made to resolve its own host name to 127.0.0.1 and would then count as same-origin.
//   - In both cases not a page of another site that a browser of this machine happens to show.
type gate struct {
	token    string
	loopback bool
	cross    *http.CrossOriginProtection
}

func newGate(token string, listener net.Addr) *gate {
	return &gate{token: token, loopback: isLoopback(listener), cross: http.NewCrossOriginProtection()}
}

// check returns 0 if the request may publish, or the status and the reason of the refusal.
func (g *gate) check(r *http.Request) (status int, reason string) {
	if err := g.cross.Check(r); err != nil {
		return http.StatusForbidden, "publishing from a page of another site is not allowed"
	}
	if g.token != "" {
		shown := shownToken(r)
		if shown == "" {
			return http.StatusUnauthorized, "publishing needs the token: Authorization: Bearer TOKEN, or ?token=TOKEN"
		}
		if !sameToken(shown, g.token) {
			return http.StatusForbidden, "wrong publish token"
		}
		return 0, ""
	}
	if !g.loopback {
		return http.StatusForbidden,
			"publishing is off: this server can be reached from other machines and was started without --publish-token"
	}
	if !isLocalName(r.Host) {
		return http.StatusForbidden, fmt.Sprintf(
			"publishing without a token is for this machine only, and the request names host %.80q: "+
				"use 127.0.0.1 or localhost, or start with --publish-token", r.Host)
	}
	return 0, ""
}

// askGate returns what the gate says to a request. It logs a refusal, under the given message, and prepares its answer,
// which is the caller's to write.
func (s *Server) askGate(w http.ResponseWriter, r *http.Request, message string, attrs ...any) (
	status int, reason string) {
	if status, reason = s.gate.check(r); status == 0 {
		return 0, ""
	}
	s.log.Warn(message, append(attrs, "status", status, "reason", reason)...)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`)
	}
	return status, reason
}

// policy says in a word what a publisher needs: nothing ("open"), a token ("token"), or that there is no way ("off").
func (g *gate) policy() string {
	switch {
	case g.token != "":
		return "token"
	case g.loopback:
		return "open"
	}
	return "off"
}

// shownToken returns the token in the request, or "".
func shownToken(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.URL.Query().Get("token")
}

// sameToken compares in a time that depends neither on where the two differ nor on how long they are.
func sameToken(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// isLoopback says whether only this machine can reach a listener at a.
func isLoopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	default:
		return false
	}
}

// isLocalName says whether the host of a request can only mean this machine.
func isLocalName(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" || strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return true // no host at all is HTTP/1.0, which browsers do not speak
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
