package hls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type arrivals struct {
	mu  sync.Mutex
	all map[string]*arrival // by address in the playlist
}

type arrival struct {
	contents // set by the observer; read after all viewers have ended
}

func (a *arrivals) of(uri string) *arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.all[uri]
	if p == nil {
		if a.all == nil {
			a.all = make(map[string]*arrival)
		}
		p = new(arrival)
		a.all[uri] = p
	}
	return p
}

type audience struct {
	addr  string
	path  string // path of the multivariant playlist, or of the only media playlist
	parts bool   // whether the viewers fetch parts instead of whole segments

	arrivals  arrivals
	latest    atomic.Pointer[parsedPlaylist]
	measuring atomic.Bool
}

// A parsedPlaylist is a playlist and the bytes from which it was parsed. Viewers that receive the
// same bytes share a parsedPlaylist to save CPU time.
type parsedPlaylist struct {
	raw   []byte
	media *mediaPlaylist
}

func (a *audience) parse(path string, raw []byte, gzipped bool) (*mediaPlaylist, error) {
	if p := a.latest.Load(); p != nil && bytes.Equal(p.raw, raw) {
		return p.media, nil
	}
	text, err := plainText(raw, gzipped)
	if err != nil {
		return nil, err
	}
	m, err := parseMedia(path, text, &a.arrivals)
	if err != nil {
		return nil, err
	}
	a.latest.Store(&parsedPlaylist{bytes.Clone(raw), m})
	return m, nil
}

// A viewer follows a stream. Its counters may be read concurrently.
type viewer struct {
	*audience
	checker *checker // the observer's checker; nil for other viewers

	c        *client
	bytes    atomic.Int64 // bytes of media
	requests atomic.Int64
	fetched  atomic.Int64 // number of parts or segments
	got      []sample     // arrivals during the measurement
	discard  func([]byte)
}

type sample struct {
	*arrival
	at time.Time // time of the last byte
}

func newViewer(a *audience, c *checker) *viewer {
	v := &viewer{audience: a, checker: c}
	v.discard = func(p []byte) { v.bytes.Add(int64(len(p))) }
	return v
}

func (v *viewer) watch(ctx context.Context) (err error) {
	if v.c, err = connect(ctx, v.addr); err != nil {
		return err
	}
	defer v.c.close()
	path, err := v.media()
	if err != nil {
		return err
	}
	m, err := v.reload(path, "")
	if err != nil {
		return err
	}
	if m.init != "" {
		if err := v.fetchInit(m.init); err != nil {
			return err
		}
	}
	if v.parts {
		return v.watchParts(path, m)
	}
	return v.watchSegments(ctx, path, m)
}

func (v *viewer) media() (string, error) {
	text, gzipped, err := v.c.getText(v.path, "")
	if err == nil {
		text, err = plainText(text, gzipped)
	}
	if err != nil {
		return "", err
	}
	return variant(v.path, text)
}

func (v *viewer) reload(path, query string) (*mediaPlaylist, error) {
	v.requests.Add(1)
	raw, gzipped, err := v.c.getText(path, query)
	if err != nil {
		return nil, err
	}
	return v.parse(path, raw, gzipped)
}

func (v *viewer) fetchInit(uri string) error {
	body, _, err := v.c.getText(uri, "")
	if err == nil && v.checker != nil {
		err = v.checker.readHeader(body)
	}
	return err
}

func (v *viewer) fetch(o object) error {
	v.requests.Add(1)
	v.fetched.Add(1)
	if v.checker == nil {
		_, err := v.c.get(o.uri, "", v.discard)
		if v.measuring.Load() {
			v.got = append(v.got, sample{o.arrival, time.Now()})
		}
		return err
	}
	body, _, err := v.c.getText(o.uri, "")
	if err != nil {
		return err
	}
	if o.contents, err = v.checker.check(body); err != nil {
		return fmt.Errorf("%s: %w", o.uri, err)
	}
	return nil
}

// fetchNew fetches the objects in list that are not before start. It returns the number of fetched
// objects.
func (v *viewer) fetchNew(list []object, start object) (n int, err error) {
	for _, o := range list {
		if o.before(start) {
			continue
		}
		if err := v.fetch(o); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

var (
	errNoBlocking = errors.New("the server has no blocking reload")
	errNothingNew = errors.New("a blocking reload brought nothing new")
)

// watchParts fetches each new part, beginning with the part after the last one in m. It waits for
// each part with a blocking reload of the playlist.
func (v *viewer) watchParts(path string, m *mediaPlaylist) error {
	if !m.canBlock {
		return errNoBlocking
	}
	var query []byte
	for !m.ended {
		next := m.next
		query = strconv.AppendUint(append(query[:0], "?_HLS_msn="...), next.msn, 10)
		query = strconv.AppendInt(append(query, "&_HLS_part="...), int64(next.part), 10)
		if m.canSkip {
			query = append(query, "&_HLS_skip=YES"...)
		}
		var err error
		if m, err = v.reload(path, string(query)); err != nil {
			return err
		}
		n, err := v.fetchNew(m.parts, next)
		if err != nil {
			return err
		}
		// A reload may bring the end of a segment but no new part.
		if n == 0 && !next.before(m.next) && !m.ended {
			return errNothingNew
		}
	}
	return nil
}

// watchSegments fetches complete segments, beginning with the last one. Like a player, it reloads
// the playlist after the target duration, or after half of the target duration if there was no new
// segment.
func (v *viewer) watchSegments(ctx context.Context, path string, m *mediaPlaylist) error {
	next := object{msn: max(m.next.msn, 1) - 1}
	asked := time.Now()
	for {
		n, err := v.fetchNew(m.segments, next)
		if err != nil || m.ended {
			return err
		}
		next.msn = m.next.msn
		wait := m.target
		if n == 0 {
			wait /= 2
		}
		timer := time.NewTimer(wait - time.Since(asked))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		asked = time.Now()
		if m, err = v.reload(path, ""); err != nil {
			return err
		}
	}
}
