package redistest

import (
	"bytes"
	"time"
)

// direction is where bytes go.
type direction int

const (
	toServer direction = iota // from the client to the server
	toClient                  // from the server to the client
)

// action is what a rule does.
type action int

const (
	cut action = iota
	pause
	hold
	inject
	swallow
)

// Rule is something that a [Proxy] does to a connection when a number of bytes has passed in one direction: at 0 before
// the first byte passes, at n as soon as the nth has. It does it once on each connection.
//
// The bytes are counted from [Proxy.Set], or from the beginning of a connection that is younger; with On from later.
type Rule struct {
	dir   direction
	at    int64
	act   action
	wait  time.Duration
	bytes []byte
	on    []byte
	times int // 0 for all connections
	reset bool
}

// CutRequest ends the connection when n bytes of requests have reached the server.
func CutRequest(n int64) Rule { return Rule{dir: toServer, at: n, act: cut} }

// CutReply ends the connection when n bytes of replies have reached the client, which gets them all, and then io.EOF.
func CutReply(n int64) Rule { return Rule{dir: toClient, at: n, act: cut} }

// DelayRequest lets what follows the first n bytes of requests wait for d.
func DelayRequest(n int64, d time.Duration) Rule {
	return Rule{dir: toServer, at: n, act: pause, wait: d}
}

// DelayReply lets what follows the first n bytes of replies wait for d.
func DelayReply(n int64, d time.Duration) Rule {
	return Rule{dir: toClient, at: n, act: pause, wait: d}
}

// HoldRequest lets what follows the first n bytes of requests wait until [Proxy.Release].
func HoldRequest(n int64) Rule { return Rule{dir: toServer, at: n, act: hold} }

// HoldReply lets what follows the first n bytes of replies wait until [Proxy.Release].
func HoldReply(n int64) Rule { return Rule{dir: toClient, at: n, act: hold} }

// InjectReply puts bytes of its own behind the first n bytes of replies.
func InjectReply(n int64, b string) Rule {
	return Rule{dir: toClient, at: n, act: inject, bytes: []byte(b)}
}

// SwallowRequest throws away what follows the first n bytes of requests. The connection stays open.
func SwallowRequest(n int64) Rule { return Rule{dir: toServer, at: n, act: swallow} }

// SwallowReply throws away what follows the first n bytes of replies. The connection stays open.
func SwallowReply(n int64) Rule { return Rule{dir: toClient, at: n, act: swallow} }

// On returns the rule with the count beginning where these bytes end in the connection's requests: for replies, with the
// next byte of a reply. So On("GET") leaves a client's greeting alone, which is of no fixed size. Replies are not matched
// with requests: it fits clients that wait for a reply before they send the next request.
func (r Rule) On(marker string) Rule {
	r.on = []byte(marker)
	return r
}

// Times returns the rule for only the first n connections that come that far.
func (r Rule) Times(n int) Rule {
	r.times = n
	return r
}

// Reset returns a cut that resets the connection (RST) instead of ending it (FIN). The client may lose bytes that had
// reached its machine.
func (r Rule) Reset() Rule {
	r.reset = true
	return r
}

// standing is a rule that a proxy has; Set makes new ones.
type standing struct {
	Rule
	fired int
}

// progress is how far a connection has come with a rule.
//
//	passed ≤ at until done
type progress struct {
	armed  bool
	done   bool
	passed int64  // negative while bytes up to the marker's end are still to pass
	tail   []byte // the end of the requests so far, in which a marker may have begun: len(tail) < len(on)
}

// look searches the requests for the marker. p is about to pass.
func (g *progress) look(r *standing, p []byte) {
	if g.armed {
		return
	}
	if len(r.on) == 0 {
		g.armed = true
		return
	}
	seen := append(g.tail, p...)
	if i := bytes.Index(seen, r.on); i >= 0 {
		g.armed = true
		if r.dir == toServer {
			g.passed = -int64(i + len(r.on) - len(g.tail))
		}
		g.tail = nil
		return
	}
	keep := min(len(seen), len(r.on)-1)
	g.tail = bytes.Clone(seen[len(seen)-keep:])
}
