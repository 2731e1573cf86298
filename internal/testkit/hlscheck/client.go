package hlscheck

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Client follows one stream and checks everything that it receives. Set its fields before Run.
type Client struct {
	URL  string       // URL of the multivariant playlist
	HTTP *http.Client // nil means http.DefaultClient

	Delta bool // request delta updates
	Hints bool // request the hinted part while waiting for the next playlist
	// FromStart makes the Client begin with the oldest segment. Otherwise the Client begins as near
	// to the end as the playlist allows.
	FromStart bool
	Timing    bool // check the arrival times of parts

	// The Client fetches every Nth object twice, and compares every Nth segment with its parts,
	// where N is Verify. If Verify is 0, it does neither.
	Verify int

	// If Output is not nil, the Client writes initialization sections and media to it, in order. If
	// a Write fails, Run returns its error.
	Output io.Writer
	// If Object is not nil, the Client calls it with each initialization section, part and segment,
	// in order, before it writes the object to Output.
	Object func(Object)
	// If Playlist is not nil, the Client calls it for each media playlist that it has received. The
	// argument counts the playlists, from 1.
	Playlist func(number int)
}

// Kind is the kind of an Object.
type Kind string

// The kinds of objects.
const (
	InitObject    Kind = "init"
	PartObject    Kind = "part"
	SegmentObject Kind = "segment"
)

// An Object is an initialization section, a part or a segment. Data is valid until the callback
// returns.
type Object struct {
	Kind  Kind
	URI   string
	MSN   uint64
	Part  int
	Break bool // first object after a discontinuity, which a playlist may no longer show
	Data  []byte
}

// Run follows the stream until its playlist or ctx ends, and then returns nil. It returns an error
// if it cannot connect, if there is no playlist, if the server does not wait before it answers a
// blocking playlist reload, or if Output fails. Stats describes all other faults.
func (c *Client) Run(ctx context.Context) (Stats, error) {
	f := newFollower(c)
	err := f.run(ctx)
	f.dropHint()
	if ctx.Err() != nil {
		err = nil
	}
	return f.stats, err
}

// A follower holds the state of one call to Client.Run.
type follower struct {
	Client
	checker *Checker
	stats   Stats
	base    *url.URL // URL of the last playlist
	variant variant

	msn   uint64 // media sequence number of the next segment
	part  int    // index of the next part of that segment
	got   []byte // received parts of that segment
	whole bool   // got has all parts from the start of the segment
	init  string // URI of the last initialization section
	times timeline
	// discontinuity is the discontinuity sequence number of the last part or segment.
	discontinuity uint64

	fetched int
	again   struct {
		uri   string
		sum   [sha256.Size]byte
		after int // number of playlists to read before the object is fetched again
	}
	hint *hintRequest
}

func newFollower(c *Client) *follower {
	f := &follower{Client: *c, checker: New(), times: timeline{}, whole: true}
	f.stats.Counts = map[string]int{}
	if f.HTTP == nil {
		f.HTTP = http.DefaultClient
	}
	return f
}

func (f *follower) problem(rule, format string, args ...any) {
	var r report
	r.add(rule, 0, format, args...)
	f.stats.note(r.problems)
}

func (f *follower) run(ctx context.Context) error {
	m, err := f.open(ctx)
	if err != nil {
		return err
	}
	f.start(m)
	if s := m.Segment(f.msn); s != nil {
		f.discontinuity = s.Discontinuity
	}
	for {
		if err := f.consume(ctx, m); err != nil || m.Ended {
			return err
		}
		if err := f.fetchAgain(ctx); err != nil {
			return err
		}
		if m, err = f.reload(ctx, m); err != nil {
			return err
		}
	}
}

func (f *follower) open(ctx context.Context) (m *Media, err error) {
	if f.base, err = url.Parse(f.URL); err != nil {
		return nil, err
	}
	text, err := f.playlist(ctx, "")
	if err != nil {
		return nil, err
	}
	var r report
	f.variant = parseMultivariant(text, &r)
	f.stats.note(r.problems)
	if f.base, err = f.base.Parse(f.variant.uri); err != nil {
		return nil, err
	}
	if text, err = f.playlist(ctx, ""); err != nil {
		return nil, err
	}
	return f.media(text), nil
}

func (f *follower) media(text string) *Media {
	f.stats.note(f.checker.Media(text))
	m := f.checker.media
	f.stats.Playlists++
	if m.Skipped > 0 {
		f.stats.Deltas++
	}
	if f.Playlist != nil {
		f.Playlist(f.stats.Playlists)
	}
	return m
}

// playlist fetches the playlist at f.base, with query added to the parameters of its URL.
func (f *follower) playlist(ctx context.Context, query string) (string, error) {
	u := *f.base
	u.RawQuery = strings.Trim(u.RawQuery+"&"+query, "&")
	data, resp, err := f.get(ctx, u.String())
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: status %d", &u, resp.StatusCode)
	}
	// If the URL has a query, such as a token, the server need not compress the playlist, because
	// each response is different.
	if resp.Header.Get("Content-Encoding") != "gzip" && f.base.RawQuery == "" {
		f.problem("gzip", "%s", u.Path)
	}
	return string(data), nil
}

func (f *follower) reload(ctx context.Context, m *Media) (*Media, error) {
	q := url.Values{}
	delta := f.Delta && m.SkipUntil > 0
	if delta {
		q.Set("_HLS_skip", "YES")
	}
	msn, part := m.Next()
	q.Set("_HLS_msn", strconv.FormatUint(msn, 10))
	q.Set("_HLS_part", strconv.Itoa(part))
	if f.Hints && m.Hint != "" && f.hint == nil {
		f.startHint(ctx, m.Hint)
	}
	begin := time.Now()
	text, err := f.playlist(ctx, q.Encode()) // sorts the parameters
	if err != nil {
		return nil, err
	}
	next := f.media(text)
	if now, n := next.Next(); !next.Ended && (now < msn || now == msn && n <= part) {
		// The server has answered the request without a new part. It may do so if the publisher has
		// sent nothing for at least a target duration.
		if time.Since(begin) >= m.Target {
			return next, nil
		}
		f.problem("reload-early", "asked for %d.%d, next is %d.%d", msn, part, now, n)
		return nil, fmt.Errorf("%s: a reload does not wait", f.base)
	}
	if waited := time.Since(begin); f.Timing && waited > 2*m.PartTarget && !next.Ended {
		f.problem("part-late", "%v without a part, segment %d has %d", waited, msn, part)
	}
	if c := next.SkipUntil; delta && next.skipLine == 0 && !next.Ended && len(next.Segments) > 0 &&
		next.Duration()-next.Segments[0].Duration > c {
		f.problem("skip-ignored", "%s ends more than %v before the end", next.Segments[0].URI, c)
	}
	return next, nil
}

// start chooses where to begin: at the last independent part that is PART-HOLD-BACK before the end,
// or else at the first independent part, or else at the oldest segment.
func (f *follower) start(m *Media) {
	f.msn = m.firstNumber()
	var toEnd time.Duration
	for msn := m.Open.MSN; msn+1 > m.firstNumber() && !f.FromStart; msn-- {
		s := m.Segment(msn)
		for k := len(s.Parts) - 1; k >= 0; k-- {
			toEnd += s.Parts[k].Duration
			if s.Parts[k].Independent {
				f.msn, f.part, f.whole = msn, k, k == 0
				if toEnd >= m.PartHoldBack {
					return
				}
			}
		}
		if s.URI != "" && len(s.Parts) == 0 {
			return
		}
	}
}

// consume fetches the segments and parts of m, beginning at f.msn and f.part.
func (f *follower) consume(ctx context.Context, m *Media) error {
	for {
		s := m.Segment(f.msn)
		if s == nil {
			if f.msn >= m.firstNumber() {
				return nil
			}
			f.stats.Missed += int(m.firstNumber() - f.msn)
			f.nextSegment(m.firstNumber())
			continue
		}
		open := s.URI == ""
		if err := f.useInit(ctx, s); err != nil {
			return err
		}
		parts := f.part > 0 || open || len(s.Parts) > 0 && s.hasAllParts()
		if parts {
			if err := f.consumeParts(ctx, s); err != nil {
				return err
			}
		}
		if open {
			if f.Hints && f.hint != nil && f.hint.uri != m.Hint {
				f.dropHint()
			}
			return nil
		}
		if err := f.finishSegment(ctx, s, parts); err != nil {
			return err
		}
		f.nextSegment(s.MSN + 1)
	}
}

// isBreak reports whether there is a discontinuity before the next object, which belongs to s.
func (f *follower) isBreak(s *Segment) bool {
	before := f.discontinuity
	f.discontinuity = s.Discontinuity
	return s.Discontinuity != before
}

func (f *follower) nextSegment(msn uint64) {
	f.msn, f.part, f.got, f.whole = msn, 0, f.got[:0], true
}

func (f *follower) useInit(ctx context.Context, s *Segment) error {
	if s.Map == f.init || s.Map == "" || s.URI == "" && len(s.Parts) == 0 {
		return nil
	}
	data, err := f.fetch(ctx, s.Map)
	if err != nil || data == nil {
		return err
	}
	f.init = s.Map
	clear(f.times)
	if err := checkInit(data); err != nil {
		f.problem("init-boxes", "%s: %v", s.Map, err)
	}
	f.stats.Inits++
	return f.deliver(Object{Kind: InitObject, URI: s.Map, MSN: s.MSN, Data: data})
}

func (f *follower) consumeParts(ctx context.Context, s *Segment) error {
	for ; f.part < len(s.Parts); f.part++ {
		p := s.Parts[f.part]
		data, err := f.takeHint(p.URI)
		if err == nil && data == nil {
			data, err = f.fetch(ctx, p.URI)
		}
		if err != nil {
			return err
		}
		if data == nil {
			f.stats.Missed++
			f.whole = false
			continue
		}
		f.got = append(f.got, data...)
		f.stats.Parts++
		f.addLatency(s, partsDuration(s.Parts[:f.part+1]))
		o := Object{PartObject, p.URI, s.MSN, f.part, f.isBreak(s), data}
		if err := f.deliver(o); err != nil {
			return err
		}
	}
	return nil
}

// addLatency records how long ago the media of a part or segment ended. The end was at s.Date plus
// offset. If s has no Date, addLatency does nothing.
func (f *follower) addLatency(s *Segment, offset time.Duration) {
	if !s.Date.IsZero() {
		f.stats.Latency.add(time.Since(s.Date.Add(offset)))
	}
}

// finishSegment fetches a complete segment if parts are missing, or if Verify selects it.
func (f *follower) finishSegment(ctx context.Context, s *Segment, parts bool) error {
	if s.Gap {
		return nil
	}
	size := len(f.got)
	missing := !parts || !s.hasAllParts()
	if !missing && (!f.whole || f.Verify <= 0 || s.MSN%uint64(f.Verify) != 0) {
		f.segmentBitrate(s, size)
		return nil
	}
	data, err := f.fetch(ctx, s.URI)
	if err != nil {
		return err
	}
	if data == nil {
		f.stats.Missed++
		return nil
	}
	f.segmentBitrate(s, len(data))
	rest := data
	if parts && f.whole {
		f.stats.Compared++
		if !bytes.HasPrefix(data, f.got) || !missing && len(data) != size {
			f.problem("parts-differ", "%s: %d bytes, parts of %d bytes", s.URI, len(data), size)
			return nil
		}
		rest = data[size:]
	}
	if !missing {
		return nil
	}
	if parts && !f.whole { // the position of the missing bytes is not known
		f.stats.Missed++
		return nil
	}
	if len(rest) == 0 { // the parts were complete
		return nil
	}
	f.stats.Segments++
	f.addLatency(s, s.Duration)
	return f.deliver(Object{SegmentObject, s.URI, s.MSN, 0, f.isBreak(s), rest})
}

func (f *follower) segmentBitrate(s *Segment, size int) {
	if s.Duration <= 0 || !f.whole {
		return
	}
	rate := int64(float64(size*8) / s.Duration.Seconds())
	if uint64(rate) > f.variant.bandwidth {
		f.problem("bandwidth-low", "%s has %d bit/s, BANDWIDTH is %d", s.URI, rate,
			f.variant.bandwidth)
	}
}

func (f *follower) deliver(o Object) error {
	f.stats.Bytes += int64(len(o.Data))
	if o.Kind != InitObject {
		if o.Break {
			clear(f.times)
		}
		if rule, err := f.times.check(o.Data); err != nil {
			f.problem(rule, "%s: %v", o.URI, err)
		}
	}
	if f.Object != nil {
		f.Object(o)
	}
	if f.Output != nil {
		if _, err := f.Output.Write(o.Data); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// fetch fetches an object that the playlist lists. If the server does not send the object, fetch
// reports a problem and returns nil without an error.
func (f *follower) fetch(ctx context.Context, uri string) ([]byte, error) {
	data, resp, err := f.get(ctx, uri)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		f.problem("object-missing", "%s: status %d", uri, resp.StatusCode)
		return nil, nil
	}
	f.remember(uri, data)
	return data, nil
}

// remember counts the fetched objects, and stores the URI and checksum of every Nth object for
// fetchAgain, where N is Client.Verify. It stores only one object at a time.
func (f *follower) remember(uri string, data []byte) {
	f.fetched++
	if f.Verify > 0 && f.fetched%f.Verify == 0 && f.again.uri == "" {
		f.again.uri, f.again.sum, f.again.after = uri, sha256.Sum256(data), 3
	}
}

// fetchAgain fetches an object a second time, a few playlists after the first time. It reports a
// problem if the checksum has changed.
func (f *follower) fetchAgain(ctx context.Context) error {
	if f.again.after--; f.again.uri == "" || f.again.after > 0 {
		return nil
	}
	uri := f.again.uri
	f.again.uri = ""
	data, resp, err := f.get(ctx, uri)
	if err != nil {
		return err
	}
	f.stats.Again++
	if resp.StatusCode != http.StatusOK {
		f.problem("object-missing", "%s: status %d the second time", uri, resp.StatusCode)
	} else if sha256.Sum256(data) != f.again.sum {
		f.problem("object-changed", "%s", uri)
	}
	return nil
}

// get sends a GET request. It returns the decompressed body, and the response with its Body closed.
func (f *follower) get(ctx context.Context, uri string) ([]byte, *http.Response, error) {
	u, err := f.base.Parse(uri)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := f.HTTP.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", u, err)
		}
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", u, err)
	}
	return data, resp, nil
}

// A hintRequest is a request for a hinted part, which does not exist yet.
type hintRequest struct {
	uri    string
	cancel context.CancelFunc
	done   chan struct{}
	data   []byte
	resp   *http.Response
	err    error
}

func (f *follower) startHint(ctx context.Context, uri string) {
	ctx, cancel := context.WithCancel(ctx)
	h := &hintRequest{uri: uri, cancel: cancel, done: make(chan struct{})}
	f.hint = h
	go func() {
		defer close(h.done)
		h.data, h.resp, h.err = f.get(ctx, uri)
	}()
}

// takeHint waits for the part at uri, if startHint has requested it. It returns nil if there is no
// such request, or if the server did not send the part.
func (f *follower) takeHint(uri string) ([]byte, error) {
	h := f.hint
	if h == nil || h.uri != uri {
		return nil, nil
	}
	<-h.done
	f.dropHint()
	if h.err != nil {
		return nil, h.err
	}
	if h.resp.StatusCode != http.StatusOK {
		f.problem("hint-unavailable", "%s: status %d", uri, h.resp.StatusCode)
		return nil, nil
	}
	f.remember(uri, h.data)
	f.stats.Hinted++
	return h.data, nil
}

// dropHint cancels the hint request, if any, and waits for its end.
func (f *follower) dropHint() {
	if f.hint != nil {
		f.hint.cancel()
		<-f.hint.done
		f.hint = nil
	}
}
