// Package address limits how many resources of a server one client address can use.
package address

import (
	"container/list"
	"context"
	"maps"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// The first three constants limit the excess of an address. The excess is the traffic, or the
// number of new viewers, above the allowed rate. It is measured as a time: at a rate of 10 MB/s, an
// excess of 5 seconds is 50 MB.
const (
	// If the excess is more than burst, downloads slow down, and new viewers are refused. An excess
	// up to burst has no effect, because a web page or an HLS segment arrives in one piece, and
	// because all viewers in an office may open a stream in the same minute.
	burst = 5 * time.Second

	// If the traffic of an address exceeds its rate by more than refuseAfter, the server refuses
	// all requests from the address. Downloads slow down earlier, so that one download does not
	// block other requests from the address. Viewers are not slowed down.
	refuseAfter = 2 * burst

	// maxExcess is the largest excess of traffic that is counted. When the traffic of an address
	// stops, the excess therefore falls below refuseAfter within 5 seconds, and the server accepts
	// requests from the address again.
	maxExcess = 3 * burst

	// maxIdle is the maximum number of addresses that are remembered without a connection. Each
	// address takes about 200 bytes. Above the limit, the addresses that have been idle for longest
	// are forgotten. This does little harm, because limits per address cannot stop a client with
	// thousands of addresses.
	maxIdle = 64 << 10
)

// Limits are the limits for each client address. 0 means no limit.
type Limits struct {
	Connections int   // simultaneous connections
	Viewers     int   // new viewers per second
	Bytes       int64 // bytes per second
}

// refused creates the error 429 Too Many Requests for a client from an address that has exceeded a
// limit. The client may try again after retryAfter.
func refused(retryAfter time.Duration, format string, args ...any) *refuse.Refusal {
	return refuse.New(http.StatusTooManyRequests, format, args...).For(refuse.Address).
		After(retryAfter)
}

// A Table has the accounts of all client addresses that have a connection, or have recently
// exceeded their rate.
type Table struct {
	start  time.Time
	limits atomic.Pointer[Limits]

	mu       lock.Mutex
	accounts map[netip.Addr]*Account
	idle     list.List // *Account without connections, in the order of release
}

// New returns an empty Table.
func New(l Limits) *Table {
	t := &Table{start: time.Now(), accounts: make(map[netip.Addr]*Account)}
	t.limits.Store(&l)
	return t
}

// SetLimits replaces the limits. If a limit is lowered, existing connections above the limit stay
// open. A connection that was opened while there were no limits remains without limits.
func (t *Table) SetLimits(l Limits) { t.limits.Store(&l) }

// An Account counts the resources that an address uses. A nil Account has no limits.
type Account struct {
	// Invariants, while table.mu is not held:
	//
	//	0 ≤ held
	//	place != nil if, and only if, held == 0 and the table has the account

	table *Table
	key   netip.Addr
	bytes atomic.Int64  // when the sent bytes will be within the rate; see Table.now
	turn  chan struct{} // held by the download that waits until it may send more

	// Guarded by table.mu.
	held    int
	place   *list.Element
	viewers int64 // when the new viewers will be within the rate; see Table.now
	waiting int   // number of requests between StartRequest and EndRequest

	sessions map[uint64]int64 // expiry times of HLS players by id; at most maxSessions
}

const (
	// sessionTime is how long an HLS player is remembered after its last request.
	sessionTime = time.Minute
	// maxSessions is the maximum number of HLS players that are remembered per address. If there
	// are more, each request of a player that is not remembered counts as a new viewer.
	maxSessions = 1024
)

// FairShare is the number of connections per address that the server considers fair. To make room
// for a new connection, the server closes a connection of the address with the most connections. If
// no address has more than FairShare connections, the server ignores the number of connections per
// address.
const FairShare = 8

// Key returns the address by which a client is counted. An IPv4 address is unchanged. For an IPv6
// address, Key returns the /64 network, because one client may have a whole /64 network.
func Key(a netip.Addr) netip.Addr {
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr()
}

// Acquire counts a new connection from a client address, and returns the Account of the address.
// The caller must call Release on the Account when the connection ends.
//
// The Account is nil if there are no limits, or if the client is on this machine. If the address
// has too many connections, the error is a [refuse.Refusal].
func (t *Table) Acquire(a netip.Addr) (*Account, error) {
	l := *t.limits.Load()
	if l == (Limits{}) || !a.IsValid() || a.Unmap().IsLoopback() {
		return nil, nil
	}
	key := Key(a)
	t.mu.Lock()
	defer t.mu.Unlock()
	acct := t.accounts[key]
	switch {
	case acct == nil:
		acct = &Account{table: t, key: key, turn: make(chan struct{}, 1)}
		t.accounts[key] = acct
	case l.Connections > 0 && acct.held >= l.Connections:
		return nil, refused(time.Second,
			"this address has %d connections, as many as --max-address-connections allows",
			acct.held)
	case acct.place != nil:
		t.idle.Remove(acct.place)
		acct.place = nil
	}
	acct.held++
	return acct, nil
}

// Release ends a connection that Acquire has counted. It must be called once for each call to
// Acquire that has returned no error.
func (a *Account) Release() {
	if a == nil {
		return
	}
	t := a.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.held--; a.held > 0 {
		return
	}
	if at := t.now(); a.viewers <= at && a.bytes.Load() <= at {
		delete(t.accounts, a.key)
		return
	}
	a.place = t.idle.PushBack(a)
	if t.idle.Len() > maxIdle {
		oldest := t.idle.Remove(t.idle.Front()).(*Account)
		oldest.place = nil
		delete(t.accounts, oldest.key)
	}
}

// viewerRate returns how many new viewers per second an address may have, or 0 if there is no
// limit. If the address has received too many bytes, it also returns a [refuse.Refusal].
func (a *Account) viewerRate() (rate int, err error) {
	if a == nil {
		return 0, nil
	}
	return a.table.limits.Load().Viewers, a.Check()
}

// Viewer counts a new viewer at the account's address. If the address has exceeded a limit, Viewer
// returns a [refuse.Refusal] and does not count the viewer.
func (a *Account) Viewer() error {
	rate, err := a.viewerRate()
	if err != nil || rate == 0 {
		return err
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	return a.addViewer(rate)
}

// addViewer counts a new viewer. The argument rate is the allowed number of new viewers per second.
// If the address has exceeded the rate, addViewer returns a [refuse.Refusal] instead. The caller
// must hold table.mu.
func (a *Account) addViewer(rate int) error {
	at := a.table.now()
	after := max(a.viewers, at) + cost(1, int64(rate))
	if wait := after - at - int64(burst); wait > 0 {
		return refused(time.Duration(wait),
			"viewers come from this address faster than the %d a second that --max-address-viewers allows", rate)
	}
	a.viewers = after
	return nil
}

// Player counts a request of an HLS player, and returns the same errors as Viewer. All requests
// with the same id count as one viewer. If the player sends no request for a minute, its next
// request counts as a new viewer. For the player's first request, the caller must set first to
// true.
func (a *Account) Player(id uint64, first bool) error {
	rate, err := a.viewerRate()
	if err != nil || rate == 0 {
		return err
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	at := a.table.now()
	if until, known := a.sessions[id]; first || !known || until < at {
		if err := a.addViewer(rate); err != nil {
			return err
		}
	}
	if len(a.sessions) >= maxSessions {
		maps.DeleteFunc(a.sessions, func(_ uint64, until int64) bool { return until < at })
	}
	if len(a.sessions) < maxSessions {
		if a.sessions == nil {
			a.sessions = make(map[uint64]int64)
		}
		a.sessions[id] = at + int64(sessionTime)
	}
	return nil
}

// StartRequest counts a request that may take a long time. The caller must call EndRequest when the
// request ends. If the address would have more than Limits.Connections of these requests,
// StartRequest returns a [refuse.Refusal] instead. Counting only connections would not be enough,
// because an HTTP/2 connection can carry many requests.
func (a *Account) StartRequest() error {
	if a == nil {
		return nil
	}
	most := a.table.limits.Load().Connections
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	if most > 0 && a.waiting >= most {
		return refused(time.Second,
			"%d requests of this address wait, as many as --max-address-connections allows",
			a.waiting)
	}
	a.waiting++
	return nil
}

// EndRequest must be called once for each request that StartRequest has counted.
func (a *Account) EndRequest() {
	if a == nil {
		return
	}
	a.table.mu.Lock()
	a.waiting--
	a.table.mu.Unlock()
}

// Check returns a [refuse.Refusal] if the account's address has received too many bytes.
func (a *Account) Check() error {
	if a == nil {
		return nil
	}
	rate := a.table.limits.Load().Bytes
	if wait := a.bytes.Load() - a.table.now() - int64(refuseAfter); rate > 0 && wait > 0 {
		return refused(time.Duration(wait),
			"this address gets more than the %d bytes a second that --max-address-bytes allows",
			rate)
	}
	return nil
}

// Add records that n bytes were sent to the account's address. It takes no lock.
func (a *Account) Add(n int64) {
	if a == nil {
		return
	}
	rate := a.table.limits.Load().Bytes
	if rate == 0 {
		return
	}
	more := cost(n, rate)
	for {
		at, was := a.table.now(), a.bytes.Load()
		if a.bytes.CompareAndSwap(was, min(max(was, at)+more, at+int64(maxExcess))) {
			return
		}
	}
}

// Pace waits until the account's address may receive more bytes, or until ctx ends. It then calls
// Add with the argument n. If several calls wait for the same address, they continue one after the
// other.
func (a *Account) Pace(ctx context.Context, n int64) {
	if a == nil {
		return
	}
	defer a.Add(n)
	if a.wait() <= 0 {
		return
	}
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-a.turn }()
	for wait := a.wait(); wait > 0 && sleep.For(ctx, wait); wait = a.wait() {
	}
}

// wait returns how long a download must wait until it may send more bytes to the account's address.
// If the download need not wait, the result is 0 or negative.
func (a *Account) wait() time.Duration {
	if a.table.limits.Load().Bytes == 0 {
		return 0
	}
	return time.Duration(a.bytes.Load() - a.table.now() - int64(burst))
}

// cost returns n/rate in nanoseconds, but at most maxExcess. The argument n is a number of bytes or
// viewers, and rate is the allowed number per second.
func cost(n, rate int64) int64 {
	seconds := float64(n) / float64(rate)
	return int64(min(seconds, maxExcess.Seconds()) * float64(time.Second))
}

// Stats describes a Table.
type Stats struct {
	Held int // addresses with a connection
	Idle int // remembered addresses without a connection
}

// Stats returns how many addresses have a connection, and how many addresses without a connection
// are remembered.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Held: len(t.accounts) - t.idle.Len(), Idle: t.idle.Len()}
}

type contextKey struct{}

// A Holder provides the Account of a client's address. If the client connects through a proxy,
// Account waits until the proxy has sent the client's address.
type Holder interface{ Account() *Account }

// Account implements [Holder].
func (a *Account) Account() *Account { return a }

// NewContext returns a copy of ctx that contains h. [Of] returns the Account of h.
func NewContext(ctx context.Context, h Holder) context.Context {
	return context.WithValue(ctx, contextKey{}, h)
}

// Of returns the Account of the Holder in ctx (see [NewContext]), or nil if ctx contains no Holder.
func Of(ctx context.Context) *Account {
	if h, ok := ctx.Value(contextKey{}).(Holder); ok {
		return h.Account()
	}
	return nil
}

// now returns the number of nanoseconds since New was called.
func (t *Table) now() int64 { return int64(time.Since(t.start)) }
