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

const (
	maxPlaylist = 4 << 20  // bytes of a playlist
	maxObject   = 64 << 20 // bytes of a segment or part
)

// A Client follows one stream and checks all that it gets. Its fields are set before Run.
type Client struct {
	URL  string       // of the multivariant playlist, or of a media playlist
	HTTP *http.Client // http.DefaultClient if nil

	Poll      bool // reload by the clock and fetch whole segments, as a player without low latency does
	Delta     bool // ask for delta updates
	Hints     bool // fetch the hinted part while the reload waits
	FromStart bool // begin with the oldest segment, and not as near to the end as the playlist allows
	Timing    bool // check when segments and parts come

	// Verify n: each n-th object is fetched again later, and each n-th segment is compared with its parts. 0 is 4, and
	// negative numbers verify nothing.
	Verify int

	// Output gets initialization sections and media in order. An error of it ends Run.
	Output io.Writer
	// Object is called with each object that Output gets.
	Object func(Object)
}

// Kind is what an Object is.
type Kind string

// The kinds of objects.
const (
	InitObject    Kind = "init"
	PartObject    Kind = "part"
	SegmentObject Kind = "segment"
)

// An Object is what a Client has fetched. Its Data is valid until the callback returns.
type Object struct {
	Kind        Kind
	URI         string
	MSN         uint64
	Part        int
	Independent bool // a part that says so
	Break       bool // the first object after a discontinuity
	Data        []byte
}

// Run follows the stream until its playlist or ctx ends, and returns nil then. It returns an error if the stream cannot be
// followed: no connection, a playlist that is not there, an error of Output. What a server does wrong is in Stats.
func (c *Client) Run(ctx context.Context) (Stats, error) {
	f := newFollower(c)
	err := f.run(ctx)
	f.dropHint()
	if ctx.Err() != nil {
		err = nil
	}
	return f.stats, err
}

// A follower is one Run of a Client.
type follower struct {
	Client
	checker *Checker
	stats   Stats
	base    *url.URL // of the media playlist
	variant Variant

	msn   uint64 // the segment that comes next
	part  int    // the part of it that comes next
	got   []byte // parts of it
	whole bool   // got begins with the first part
	init  string // URI of the initialization section that Output has
	times timeline

	listed  time.Time // when the playlist came
	first   bool      // it is the first
	fetched int
	again   struct { // an object to fetch again
		uri   string
		sum   [sha256.Size]byte
		after int // playlists
	}
	hint *hintRequest
}

func newFollower(c *Client) *follower {
	f := &follower{Client: *c, checker: New(), times: timeline{}, first: true, whole: true}
	f.stats.Counts = map[string]int{}
	if f.HTTP == nil {
		f.HTTP = http.DefaultClient
	}
	if f.Verify == 0 {
		f.Verify = 4
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
	for {
		if err := f.consume(ctx, m); err != nil || m.Ended {
			return err
		}
		f.first = false
		if err := f.fetchAgain(ctx); err != nil {
			return err
		}
		if m, err = f.reload(ctx, m); err != nil {
			return err
		}
	}
}

// open loads the multivariant playlist, if there is one, and the media playlist.
func (f *follower) open(ctx context.Context) (*Media, error) {
	u, err := url.Parse(f.URL)
	if err != nil {
		return nil, err
	}
	text, err := f.playlist(ctx, u)
	if err != nil {
		return nil, err
	}
	if strings.Contains(text, "#EXT-X-STREAM-INF") {
		f.stats.note(f.checker.Multivariant(text))
		if len(f.checker.multivariant.Variants) == 0 {
			return nil, fmt.Errorf("%s: no variant", u)
		}
		f.variant = f.checker.multivariant.Variants[0]
		if u, err = u.Parse(f.variant.URI); err != nil {
			return nil, err
		}
		if text, err = f.playlist(ctx, u); err != nil {
			return nil, err
		}
	}
	f.base = u
	return f.media(text), nil
}

// media checks a media playlist and returns it.
func (f *follower) media(text string) *Media {
	var at time.Time
	f.listed = time.Now()
	if f.Timing {
		at = f.listed
	}
	f.stats.note(f.checker.Media(text, at))
	m := f.checker.Playlist()
	f.stats.Playlists++
	if m.Skipped > 0 {
		f.stats.Deltas++
	}
	return m
}

// A statusError is an answer to a playlist's request other than 200.
type statusError struct {
	url    string
	status int
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: status %d", e.url, e.status) }

// playlist gets a playlist. It sets u to where the playlist was found.
func (f *follower) playlist(ctx context.Context, u *url.URL) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := f.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", &statusError{u.String(), resp.StatusCode}
	}
	if resp.Request != nil { // after redirects
		*u = *resp.Request.URL
	}
	typ, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if typ = strings.ToLower(typ); !strings.HasSuffix(u.Path, ".m3u8") && typ != "application/vnd.apple.mpegurl" && typ != "audio/mpegurl" {
		f.problem("playlist-name", "%s: %s", u.Path, typ)
	}
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return "", fmt.Errorf("%s: %w", u, err)
		}
	} else {
		f.problem("gzip", "%s", u.Path)
	}
	text, err := io.ReadAll(io.LimitReader(body, maxPlaylist))
	if err != nil {
		return "", fmt.Errorf("%s: %w", u, err)
	}
	return string(text), nil
}

// reload gets the next version of the media playlist.
func (f *follower) reload(ctx context.Context, m *Media) (*Media, error) {
	u, q := *f.base, f.base.Query()
	delta := f.Delta && m.Control.SkipUntil > 0
	if delta {
		q.Set("_HLS_skip", "YES")
	}
	msn, part := m.Next()
	blocking := !f.Poll && m.Control.BlockReload
	if blocking {
		q.Set("_HLS_msn", strconv.FormatUint(msn, 10))
		if m.PartTarget > 0 {
			q.Set("_HLS_part", strconv.Itoa(part))
		}
		if f.Hints && m.Hint != "" && f.hint == nil {
			f.startHint(ctx, m.Hint)
		}
	} else if err := sleep(ctx, m.Target/2-time.Since(f.listed)); err != nil {
		return nil, err
	}
	u.RawQuery = q.Encode() // sorts the parameters
	for {
		begin := time.Now()
		text, err := f.playlist(ctx, &u)
		if refused, ok := err.(*statusError); ok && refused.status == http.StatusServiceUnavailable {
			f.stats.Unavailable++
			if waited := time.Since(begin); waited < 3*m.Target {
				f.problem("reload-refused", "503 before three target durations")
			}
			if err := sleep(ctx, m.Target/2); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			if ctx.Err() == nil {
				f.problem("reload-refused", "%v", err)
			}
			return nil, err
		}
		next := f.media(text)
		if blocking {
			f.stats.Reload.add(f.listed.Sub(begin))
			if nowMSN, nowPart := next.Next(); !next.Ended && nowMSN <= msn && (nowMSN < msn || nowPart <= part || m.PartTarget == 0) {
				f.problem("reload-early", "asked for %d.%d, next is %d.%d", msn, part, nowMSN, nowPart)
				if err := sleep(ctx, m.Target/2); err != nil { // not to reload in a busy loop
					return nil, err
				}
			}
		}
		if c := next.Control.SkipUntil; delta && next.skipLine == 0 && !next.Ended && c > 0 &&
			len(next.Segments) > 0 && next.Duration()-next.Segments[0].Duration > c {
			f.problem("skip-ignored", "%s ends more than %v before the end", next.Segments[0].URI, c)
		}
		return next, nil
	}
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start sets where to begin.
func (f *follower) start(m *Media) {
	if f.msn = m.first(); f.FromStart || !f.Poll && f.startAtPart(m) {
		return
	}
	hold := max(m.Control.HoldBack, 3*m.Target)
	toEnd := m.Open.partsDuration()
	for i := len(m.Segments) - 1; i >= 0 && toEnd < hold; i-- {
		f.msn = m.Segments[i].MSN
		toEnd += m.Segments[i].Duration
	}
}

// startAtPart begins with the last independent part that is PART-HOLD-BACK from the end, or with the first independent
// part if none is. It returns false if no part is independent.
func (f *follower) startAtPart(m *Media) (found bool) {
	var toEnd time.Duration
	for msn := m.Open.MSN; msn+1 > m.first(); msn-- {
		s := m.Segment(msn)
		for k := len(s.Parts) - 1; k >= 0; k-- {
			toEnd += s.Parts[k].Duration
			if s.Parts[k].Independent {
				f.msn, f.part, f.whole, found = msn, k, k == 0, true
				if toEnd >= m.Control.PartHoldBack {
					return true
				}
			}
		}
		if s.URI != "" && len(s.Parts) == 0 {
			break
		}
	}
	return found
}

// consume fetches what m lists from f.msn and f.part on.
func (f *follower) consume(ctx context.Context, m *Media) error {
	for {
		s := m.Segment(f.msn)
		if s == nil {
			if f.msn >= m.first() {
				return nil
			}
			f.stats.Missed += int(m.first() - f.msn)
			f.nextSegment(m.first())
			continue
		}
		open := s.URI == ""
		if err := f.useInit(ctx, s); err != nil {
			return err
		}
		parts := !f.Poll && (f.part > 0 || open || len(s.Parts) > 0 && s.hasAllParts())
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

func (f *follower) nextSegment(msn uint64) {
	f.msn, f.part, f.got, f.whole = msn, 0, f.got[:0], true
}

// useInit fetches the initialization section of s if it is another one than the last.
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

// consumeParts fetches the parts of s that are new.
func (f *follower) consumeParts(ctx context.Context, s *Segment) error {
	for ; f.part < len(s.Parts); f.part++ {
		p := s.Parts[f.part]
		if p.Gap {
			f.whole = false
			continue
		}
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
		f.arrived(s, segmentsOf(s.Parts[:f.part+1]))
		o := Object{PartObject, p.URI, s.MSN, f.part, p.Independent, s.Break && f.part == 0, data}
		if err := f.deliver(o); err != nil {
			return err
		}
	}
	return nil
}

// segmentsOf returns how far into their segment parts go.
func segmentsOf(parts []Part) time.Duration {
	s := Segment{Parts: parts}
	return s.partsDuration()
}

// arrived notes when media came that ends offset after the beginning of s.
func (f *follower) arrived(s *Segment, offset time.Duration) {
	now := time.Now()
	if !f.first {
		f.stats.Fetch.add(now.Sub(f.listed))
	}
	if !s.Date.IsZero() {
		f.stats.Latency.add(now.Sub(s.Date.Add(offset)))
	}
}

// finishSegment fetches a complete segment: to deliver it or what its parts lack, or to compare it with its parts.
func (f *follower) finishSegment(ctx context.Context, s *Segment, parts bool) error {
	size := len(f.got)
	missing := !parts || !s.hasAllParts()
	if s.Gap || !missing && (!f.whole || f.Verify < 0 || s.MSN%uint64(f.Verify) != 0) {
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
	if parts && !f.whole { // where the rest begins is not known
		f.stats.Missed++
		return nil
	}
	if len(rest) == 0 { // the parts were all, and are no longer listed
		return nil
	}
	f.stats.Segments++
	f.arrived(s, s.Duration)
	return f.deliver(Object{SegmentObject, s.URI, s.MSN, 0, false, s.Break && size == 0, rest})
}

func (f *follower) segmentBitrate(s *Segment, size int) {
	if s.Duration <= 0 || !f.whole {
		return
	}
	rate := int64(float64(size*8) / s.Duration.Seconds())
	f.stats.PeakBitrate = max(f.stats.PeakBitrate, rate)
	if f.variant.Bandwidth > 0 && uint64(rate) > f.variant.Bandwidth {
		f.problem("bandwidth-low", "%s has %d bit/s, BANDWIDTH is %d", s.URI, rate, f.variant.Bandwidth)
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

// fetch gets an object that is listed. It returns nil without an error if the server does not send it.
func (f *follower) fetch(ctx context.Context, uri string) ([]byte, error) {
	data, status, err := f.get(ctx, uri)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		f.problem("object-missing", "%s: status %d", uri, status)
		return nil, nil
	}
	f.remember(uri, data)
	return data, nil
}

// remember notes each n-th object, to fetch it again.
func (f *follower) remember(uri string, data []byte) {
	f.fetched++
	if f.Verify > 0 && f.fetched%f.Verify == 0 && f.again.uri == "" {
		f.again.uri, f.again.sum, f.again.after = uri, sha256.Sum256(data), 3
	}
}

// fetchAgain gets an object for the second time, some playlists after the first.
func (f *follower) fetchAgain(ctx context.Context) error {
	if f.again.after--; f.again.uri == "" || f.again.after > 0 {
		return nil
	}
	uri := f.again.uri
	f.again.uri = ""
	data, status, err := f.get(ctx, uri)
	if err != nil {
		return err
	}
	f.stats.Again++
	if status != http.StatusOK {
		f.problem("object-missing", "%s: status %d the second time", uri, status)
	} else if sha256.Sum256(data) != f.again.sum {
		f.problem("object-changed", "%s", uri)
	}
	return nil
}

func (f *follower) get(ctx context.Context, uri string) (data []byte, status int, err error) {
	u, err := f.base.Parse(uri)
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := f.HTTP.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if data, err = io.ReadAll(io.LimitReader(resp.Body, maxObject)); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", u, err)
	}
	return data, resp.StatusCode, nil
}

// A hintRequest is a request for a part that is not there yet.
type hintRequest struct {
	uri    string
	cancel context.CancelFunc
	done   chan struct{}
	data   []byte
	status int
	err    error
}

func (f *follower) startHint(ctx context.Context, uri string) {
	ctx, cancel := context.WithCancel(ctx)
	h := &hintRequest{uri: uri, cancel: cancel, done: make(chan struct{})}
	f.hint = h
	go func() {
		defer close(h.done)
		h.data, h.status, h.err = f.get(ctx, uri)
	}()
}

// takeHint returns the part if it was hinted and has come.
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
	if h.status != http.StatusOK {
		f.problem("hint-unavailable", "%s: status %d", uri, h.status)
		return nil, nil
	}
	f.remember(uri, h.data)
	f.stats.Hinted++
	return h.data, nil
}

// dropHint ends a request for a hint.
func (f *follower) dropHint() {
	if f.hint != nil {
		f.hint.cancel()
		<-f.hint.done
		f.hint = nil
	}
}

// Probe makes requests that a server should refuse, against a stream that is live and has parts.
func (c *Client) Probe(ctx context.Context) ([]Problem, error) {
	f := newFollower(c)
	m, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	f.stats.Problems = nil
	msn, _ := m.Next()
	for _, t := range []struct {
		rule, uri string
		status    int
	}{
		{"part-directive", f.base.Path + "?_HLS_part=0", http.StatusBadRequest},
		{"reload-ahead", f.base.Path + fmt.Sprintf("?_HLS_msn=%d", msn+1000), http.StatusBadRequest},
		{"reload-ahead", f.base.Path + fmt.Sprintf("?_HLS_msn=%d&_HLS_part=1000000", msn), http.StatusBadRequest},
		{"not-found", "no-such-object.m4s", http.StatusNotFound},
	} {
		_, status, err := f.get(ctx, t.uri)
		if err != nil {
			return f.stats.Problems, err
		}
		if status != t.status {
			f.problem(t.rule, "%s: status %d", t.uri, status)
		}
	}
	if f.hint == nil && m.Control.BlockReload { // a reload of what is long there does not wait
		text, err := f.playlist(ctx, f.base.ResolveReference(&url.URL{RawQuery: fmt.Sprintf("_HLS_msn=%d", m.first())}))
		if err != nil {
			return f.stats.Problems, err
		}
		f.media(text)
	}
	return f.stats.Problems, nil
}
