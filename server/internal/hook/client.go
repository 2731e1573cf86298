package hook

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// A Config configures a Client.
type Config struct {
	URL     string        // see CheckURL
	Timeout time.Duration // time limit for an answer, including retries and the time in the queue
	Open    bool          // allow every request while the hook fails
	Node    string        // address of this node; "" without a cluster
	Log     *slog.Logger  // nil discards messages
}

// CheckURL returns an error if address cannot be used as the hook's URL. The error does not contain
// the URL, which may contain secrets.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.Hostname() == "" || u.Fragment != "" {
		return errors.New("want http://[USER:PASSWORD@]HOST/PATH or https://")
	}
	return nil
}

// A Client asks the hook whether a stream may be published, played or recorded. When publishing,
// playing or recording ends, the Client sends an end event to the hook. The methods of a Client may
// be called from any goroutine.
type Client struct {
	cfg    Config
	counts *counter
	poster *poster
	asker  *asker
	plays  *playTable
	ends   *endQueue
	stop   context.CancelFunc // cancels requests in progress
}

// New returns a Client. The hook need not be running yet. The caller must call Close.
func New(cfg Config) (*Client, error) {
	if err := CheckURL(cfg.URL); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	log := lock.Logger(cfg.Log)
	c := &Client{cfg: cfg, counts: newCounter(),
		poster: newPoster(cfg.URL, cfg.Timeout, maxRequests+endWorkers)}
	var closing context.Context
	closing, c.stop = context.WithCancel(context.Background())
	c.asker = &asker{
		poster: c.poster, counts: c.counts, log: log, timeout: cfg.Timeout, open: cfg.Open,
		closing:   closing,
		slots:     make(chan struct{}, maxRequests),
		playSlots: make(chan struct{}, maxRequests-reservedRequests),
	}
	c.ends = &endQueue{
		poster: c.poster, counts: c.counts, log: log, timeout: cfg.Timeout, closing: closing,
		queue: make(chan Request, maxEnds),
	}
	c.plays = &playTable{
		asker: c.asker, ends: c.ends, counts: c.counts, open: cfg.Open, closing: closing,
		swept: make(chan struct{}), plays: make(map[playKey]*Play),
	}
	c.ends.start()
	go c.plays.sweepAll()
	return c, nil
}

// Ask sets the ID of q, sends q to the hook, and waits for the answer until ctx ends or the timeout
// expires. The error is a [refuse.Refusal] or the context's error.
func (c *Client) Ask(ctx context.Context, q *Request) (Answer, error) {
	if err := c.prepare(q); err != nil {
		return Answer{}, err
	}
	a, err := c.asker.ask(ctx, ctx, q)
	if c.cfg.Open && err == errFails {
		return Answer{}, nil
	}
	return a, err
}

// Play asks the hook whether a client may play a stream. The error is a [refuse.Refusal] or the
// context's error.
//
// Requests of the same client for the same stream have the same playKey, and share an answer. If
// there is a valid answer, Play uses it. If another call is waiting for the answer, Play waits for
// the same answer.
//
// If the player has a permanent connection, the caller must call End on the result when the player
// leaves.
func (c *Client) Play(ctx context.Context, q *Request) (*Play, error) {
	if err := c.prepare(q); err != nil {
		return nil, err
	}
	return c.plays.play(ctx, q)
}

func (c *Client) prepare(q *Request) error {
	err := q.prepare(c.cfg.Node)
	if err != nil {
		c.counts.count(q.Event, "refused")
	}
	return err
}

// End queues an end event for q, a request that the hook has allowed. The event contains the reason
// why publishing or recording has ended, and the number of bytes that were transferred. End never
// blocks.
func (c *Client) End(q *Request, reason string, bytes int64) { c.ends.add(q.endEvent(reason, bytes)) }

// Close queues an end event for each [Play] that has not ended, and delivers all queued end events.
// Ask and Play must not be called afterwards.
//
// Close drops the remaining events in two cases:
//   - ctx has ended, and Close has tried to deliver them for at least a second.
//   - An attempt has failed, and no event has been delivered for a second.
func (c *Client) Close(ctx context.Context) {
	if c == nil || !c.plays.close() {
		return
	}
	c.ends.close(ctx, c.stop)
	c.plays.wait()
	c.poster.http.CloseIdleConnections()
}

// Stats returns the counters of c.
func (c *Client) Stats() Stats {
	queued, dropped := c.ends.waiting()
	return Stats{
		Requests: c.counts.all(), Attempts: c.poster.attempts.Load(),
		Spent: time.Duration(c.poster.spent.Load()),
		Hits:  c.plays.hits.Load(), Dropped: dropped, Plays: c.plays.size(),
		Waiting: int(c.asker.waiting.Load()), Queued: queued,
	}
}
