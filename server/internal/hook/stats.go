package hook

import (
	"maps"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// An Outcome is the event of a request to the hook, and the result of the request. Stats.Requests
// has a counter for each Outcome.
type Outcome struct {
	Event  Event
	Result string // allowed, refused, failed or busy; for end events, sent or dropped
}

// A counter counts requests by outcome. Its methods may be called from any goroutine.
type counter struct {
	mu lock.Mutex
	by map[Outcome]int64
}

// newCounter returns a counter with an entry for each event and each possible result, such as
// "allowed" or "refused". All entries start at 0.
func newCounter() *counter {
	c := &counter{by: make(map[Outcome]int64)}
	for _, e := range events {
		results := []string{"allowed", "refused", "failed", "busy"}
		if strings.HasSuffix(string(e), "_end") {
			results = []string{"sent", "dropped"}
		}
		for _, r := range results {
			c.by[Outcome{e, r}] = 0
		}
	}
	return c
}

func (c *counter) count(e Event, result string) {
	c.mu.Lock()
	c.by[Outcome{e, result}]++
	c.mu.Unlock()
}

func (c *counter) all() map[Outcome]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.by)
}

// Stats has a Client's counters.
type Stats struct {
	Requests map[Outcome]int64
	Attempts int64 // number of POSTs
	Spent    time.Duration
	Hits     int64 // calls to Play that caused no request to the hook
	Dropped  int64 // dropped end events
	Plays    int   // plays and refusals in the table
	Waiting  int   // callers in the queue, and requests in progress
	Queued   int   // end events in the queue
}
