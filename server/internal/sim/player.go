package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
)

// storeTime is how long the store may lack the latest playlist after Redis has lost data, or was
// out of reach: until the next part is stored, and then until a new owner has made a playlist.
const storeTime = 10 * time.Second

// saveTime is longer than an owner takes to store a part that players can already get. If the owner
// ends before, players may get an older playlist from the store.
const saveTime = 100 * time.Millisecond

// playerTime is how long a server may take to answer a player: as long as the player waits for the
// stream, and then for its first playlist, or for a last attempt to reach its owner.
const playerTime = 28 * time.Second

// longAway is how long a stream may pause before its playlist cannot be continued.
const longAway = 7 * time.Second

// dateTime is how much later than its first frame the date of a segment may be: by the clock of its
// node, and because dates do not overlap.
const dateTime = 5 * time.Second

// endTime is longer than a node takes to find the last playlist of a stream that has ended.
const endTime = 1500 * time.Millisecond

// keptTime is how long a playlist is available after the end of its stream, at least.
const keptTime = 10 * time.Second

// A player plays one stream over HLS. Each request may go to another node, as behind a balancer.
type player struct {
	world  *world
	name   string
	stream string
	random *rand.Rand
	client *Process
	roams  bool   // uses all nodes
	node   string // the node that it uses if it does not roam

	newest atomic.Int64 // see viewer.newest
	asked  string       // the node of the latest request
	last   received     // the latest playlist
}

// received describes a playlist that a player has received.
type received struct {
	at    time.Time
	owner ownership // of the stream, when the player asked
}

// run plays until ctx ends. After an error that a player does not survive, it starts again.
func (p *player) run(ctx context.Context) {
	transport := &http.Transport{DialContext: p.client.Dial, DisableCompression: true}
	defer transport.CloseIdleConnections()
	for ctx.Err() == nil {
		err := p.play(ctx, &http.Client{Transport: transport})
		p.world.book.addf(p.name, "starts again: %v", err)
		wait(ctx, time.Duration(200+p.random.IntN(800))*time.Millisecond)
	}
}

// play plays until too many requests have failed, or until the playlist has ended.
func (p *player) play(ctx context.Context, client *http.Client) error {
	rules := hlscheck.New()
	before, query := "", ""
	var last struct {
		epoch   string    // of the playlist
		ends    int       // see Check.endsOf
		changed time.Time // when the playlist last changed
		got     time.Time // when the playlist was received
		msn     uint64    // of the latest segment that was fetched
		any     bool      // a segment was fetched
	}
	var w *playback
	for failed := 0; failed < 8; {
		if err := ctx.Err(); err != nil {
			return err
		}
		owner, began := p.world.check.ownership(p.stream), time.Now()
		text, err := p.get(ctx, client, "media.m3u8"+query)
		p.ended(owner, began, err)
		p.served(err)
		if err != nil {
			p.world.book.addf(p.name, "%v", err)
			failed++
			query = ""
			wait(ctx, 500*time.Millisecond)
			continue
		}
		failed = 0
		epoch, ends := epochOf(string(text)), p.world.check.endsOf(p.stream)
		moved := epoch != last.epoch
		if p.restarts(moved, time.Since(last.changed), ends != last.ends) ||
			p.world.disturbedBetween(last.got, last.got.Add(saveTime)) {
			rules, last.any, w = hlscheck.New(), false, nil
		}
		last.got = time.Now()
		p.last = received{last.got, owner}
		last.epoch, last.ends = epoch, ends
		if before != string(text) {
			last.changed = time.Now()
		}
		problems := hlscheck.Without(hlscheck.Must(rules.Media(string(text))), "hint-broken",
			"part-short", "part-removed-early") // publishers stall, and the store has no parts
		if moved && p.world.disturbed("redis", p.world.book.start) {
			// Two nodes may have made playlists at the same time. The one with the greater numbers
			// does not go back to the numbers of the other one, and then has to leave some out.
			problems = hlscheck.Without(problems, "window-short")
		}
		for _, problem := range problems {
			p.world.check.fail("%s: %v", p.name, problem)
		}
		if len(problems) > 0 {
			p.world.book.addf(p.name, "the playlist before:\n%s\nthis one:\n%s", before, text)
		}
		before = string(text)
		m := rules.Playlist()
		p.world.check.playlist()
		for i := range m.Segments {
			s := &m.Segments[i]
			if s.URI == "" || s.Gap || last.any && s.MSN <= last.msn {
				continue
			}
			body, err := p.get(ctx, client, s.URI)
			if err != nil {
				p.world.book.addf(p.name, "segment %s: %v", s.URI, err)
				p.noSegment(s, err)
				continue
			}
			p.world.check.object(p.name, p.stream, s.URI, body)
			list := frames(body)
			if w == nil || s.Break || s.MSN != last.msn+1 {
				w = &playback{who: p.name, stream: p.stream}
			}
			last.msn, last.any = s.MSN, true
			p.world.check.segment(w, s.URI, list)
			if len(list) > 0 {
				p.newest.Store(list[len(list)-1].sent)
			}
		}
		if m.Ended {
			return fmt.Errorf("the playlist has ended")
		}
		query = ""
		if p.random.IntN(3) == 0 { // the next request waits for the next part
			msn, part := m.Next()
			query = fmt.Sprintf("?_HLS_msn=%d&_HLS_part=%d", msn, part)
		} else {
			wait(ctx, time.Duration(200+p.random.IntN(1200))*time.Millisecond)
		}
	}
	return fmt.Errorf("too many requests have failed")
}

// noSegment checks a failed request for a segment that the latest playlist has. The segment may be
// missing only after a failure: with a store, if Redis has failed since the segment was made;
// without a store, also if the stream may have another owner now. The store gets the segments of an
// owner that was replaced within saveTime.
func (p *player) noSegment(s *hlscheck.Segment, err error) {
	w := p.world
	made := s.Date.Add(-dateTime)
	now := w.check.ownership(p.stream)
	moving := now != p.last.owner && !now.givenUp && time.Since(now.since) < saveTime
	if !isNotFound(err) || moving || w.disturbed("redis", made) ||
		w.disturbedBetween(p.last.at.Add(-saveTime), time.Now()) ||
		!w.stored && (now != p.last.owner || w.anyDisturbed(made)) {
		return
	}
	w.check.fail("%s: the playlist has %s, but %v", p.name, s.URI, err)
}

// ended checks a request for the playlist of a stream that had ended when the request began. For a
// while, every node has the last playlist, and answers soon.
func (p *player) ended(owner ownership, began time.Time, err error) {
	w := p.world
	_, refused := errors.AsType[*statusError](err)
	took := time.Since(began)
	if now := w.check.ownership(p.stream); now != owner { // a new publisher has come
		refused, took = false, now.since.Sub(began)
	}
	since := owner.since.Add(-lease)
	if !owner.givenUp || !refused && took < endTime || time.Since(owner.since) > keptTime ||
		p.last.at.Before(since) || owner.epoch != p.last.owner.epoch || w.disturbed("redis", since) ||
		w.disturbed("between nodes", since) || w.disturbed(p.asked, since) ||
		w.disturbed(owner.node, since) {
		return
	}
	w.check.fail("%s: %s has ended, and its last playlist is not available after %v: %v", p.name,
		p.stream, took, err)
}

// served checks a failed request for a playlist. A node that has lost only Redis remains the owner
// for the other nodes, as long as no other node becomes the owner.
func (p *player) served(err error) {
	w := p.world
	_, refused := errors.AsType[*statusError](err)
	node, since := w.check.publishing(p.stream)
	const settle = recovery + hlsLatency
	recently := time.Now().Add(-settle)
	owner := w.check.ownership(p.stream)
	if !refused || node == "" || owner.node != node || owner.givenUp ||
		time.Since(since) < settle || time.Since(owner.since) < settle ||
		w.disturbed(p.asked, recently) || w.disturbed(node+itself, recently) ||
		w.disturbed("between nodes", recently) {
		return
	}
	w.check.fail("%s: %s is published at %s, but %v", p.name, p.stream, node, err)
}

// restarts reports whether the playlist may be one that does not continue the playlist before.
// moved means that another node has made the playlist. ended means that the stream has ended since
// the playlist before.
func (p *player) restarts(moved bool, unchanged time.Duration, ended bool) bool {
	recently := time.Now().Add(-storeTime)
	if p.world.disturbed("redis", recently) { // the store may have an old playlist
		return true
	}
	more := p.world.disturbed("more than a node", recently)
	// A node with a bad connection may get a playlist so late that another node has sent a later
	// one.
	return p.roams && more || moved && (!p.world.stored || ended || unchanged > longAway || more)
}

func (p *player) get(ctx context.Context, client *http.Client, object string) ([]byte, error) {
	node := p.node
	if p.roams {
		node = p.world.names[p.random.IntN(len(p.world.names))]
	}
	p.asked = node
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, playerTime)
	defer cancel()
	url := fmt.Sprintf("http://%s:%s/live/%s/%s", node, mainPort, p.stream, object)
	if strings.Contains(object, ".m3u8") {
		p.world.book.addf(p.name, "asks %s", node)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded && !p.world.disturbed(node, began) {
			p.world.check.fail("%s: %s does not answer %s", p.name, node, object)
		}
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = &statusError{res.StatusCode, fmt.Sprintf("%s of %s: %s %s", object, node, res.Status,
			strings.TrimSpace(string(body[:min(len(body), 200)])))}
	}
	return body, err
}

// A statusError is the response to a request that has failed.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

func isNotFound(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.status == http.StatusNotFound
}

// epochOf returns the epoch of the newest segment or part in a playlist. The name of a segment
// begins with it.
func epochOf(text string) string {
	text = text[:max(0, strings.LastIndex(text, ".m4s"))]
	name := text[strings.LastIndexAny(text, "\n\"")+1:]
	epoch, _, _ := strings.Cut(name, "-")
	return epoch
}
