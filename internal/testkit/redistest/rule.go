package redistest

import (
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
