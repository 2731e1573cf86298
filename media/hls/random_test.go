package hls_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/media/hls"
)

// TestRandom adds random fragments to Windows. A history checks each playlist.
func TestRandom(t *testing.T) {
	runs := 80
	if testing.Short() {
		runs = 20
	}
	for seed := range uint64(runs) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			testRandom(t, rand.New(rand.NewPCG(seed, 1)))
		}) {
			return
		}
	}
}

func testRandom(t *testing.T, rnd *rand.Rand) {
	pick := func(n ...int) int { return n[rnd.IntN(len(n))] }
	c := hls.Config{
		Epoch:              rnd.Uint64N(100),
		FirstMSN:           rnd.Uint64N(100),
		FirstDiscontinuity: rnd.Uint64N(3),
		Target:             time.Duration(pick(1, 2, 4)) * time.Second,
		Part:               time.Duration(pick(100, 200, 333, 1000)) * time.Millisecond,
		Segments:           pick(1, 3, 6, 40),
		MaxBytes:           int64(pick(64<<10, 100<<10, 1<<30)),
	}
	c.Segment = c.Target / time.Duration(pick(1, 1, 2, 4))
	h := history{rig: newRig(t, c), config: c, objects: map[string][]byte{},
		segments: map[int]*record{},
		even:     rnd.IntN(2) == 0, unlimited: c.MaxBytes == 1<<30, checker: hlscheck.New()}
	// A third of the streams is regular, a third has frames of any length, and a third is mostly
	// regular.
	regular := pick(0, 50, 100)
	frame := c.Part / time.Duration(pick(1, 2, 5, 8))
	if h.even {
		regular = 0
		frame = c.Part * 15 / 100
	}
	group := pick(1, 5, 30, 200)
	start := time.Unix(1<<30, 0)
	h.init()
	for i := range pick(10, 100, 500) {
		switch n := rnd.IntN(1000); {
		case n < 2:
			h.init()
		case n < 4:
			h.check(h.w.Break(), "break")
		case n < 6:
			h.check(h.w.Flush(), "flush")
		case n < 9:
			h.goOn(n == 8)
			h.init()
		default:
			f := hls.Fragment{Key: i%group == 0 ||
				rnd.IntN(500) == 0, Duration: frame, Time: start.Add(h.clock)}
			f.KeyNext = (i+1)%group == 0 && rnd.IntN(4) > 0 || rnd.IntN(500) == 0
			if rnd.IntN(100) >= regular {
				f.Duration = time.Duration(rnd.Int64N(int64(frame) + 1))
			}
			if !h.even && rnd.IntN(100) == 0 {
				f.Duration = time.Duration(rnd.Int64N(int64(2 * c.Target)))
			}
			h.add(f, pick(1, 10, 300, 3000, 3000+30_000*pick(0, 0, 0, 0, 0, 0, 0, 0, 0, 1)))
		}
	}
	h.check(h.w.End(), "end")
}

// history has everything that was added to a Window, and everything that its playlists have listed.
type history struct {
	*rig
	config    hls.Config
	even      bool // no fragment is longer than 15% of a part
	unlimited bool // MaxBytes is never reached

	media    []byte        // bytes of all fragments
	clock    time.Duration // duration of all fragments
	last     playlist
	text     string
	objects  map[string][]byte // by name
	segments map[int]*record
	inits    int
	fresh    bool // the Window has no init segment yet
	checker  *hlscheck.Checker
}

// record is a segment that has been listed.
type record struct {
	segment
	from     int           // its offset in media
	since    time.Duration // time at which it was first listed
	longest  int           // longest playlist that listed it, in ms
	partsEnd time.Duration // when its parts or the segment left the playlist; 0 before
}

// goOn continues with another Window, which only knows the listed segments of the previous one.
// Before that, the segment in progress is flushed, or becomes a gap.
func (h *history) goOn(flush bool) {
	if flush {
		h.check(h.w.Flush(), "flush")
	}
	c, list := h.config, h.w.Listed()
	if len(list) == 0 {
		return
	}
	c.FirstMSN, _ = h.w.Next()
	if !flush {
		gap := h.w.Opening()
		gap.Gap, gap.Duration, gap.Time = true, c.Segment, time.Time{}
		list = append(list, gap)
		delete(h.segments, int(c.FirstMSN))
		c.FirstMSN++
		h.clock += c.Segment
	}
	for _, s := range h.segments {
		s.parts, s.partsEnd = nil, h.clock
	}
	c.Epoch, c.Past = c.Epoch+1, list
	h.w.Release()
	added := h.added
	h.config, h.rig, h.fresh = c, newRig(h.t, c), true
	h.added = added
	text := string(h.w.AppendPlaylist(nil, false))
	h.last.segments = slices.DeleteFunc(h.last.segments,
		func(s segment) bool { return s.uri == "" })
	h.check(text != h.text, "another window")
	h.fresh = false
}

// lost reports whether an object belongs to an earlier Window.
func (h *history) lost(name string) bool {
	o, _ := hls.ParseObject(name)
	return o.Epoch != h.config.Epoch
}

func (h *history) init() {
	c := chain([]byte(fmt.Sprintf("init %d", h.inits)))
	h.inits++
	h.check(h.w.Init(&c), "init")
}

func (h *history) add(f hls.Fragment, size int) {
	name := []byte(fmt.Sprintf("(%d)", h.added))
	h.added++
	p := append(name, bytes.Repeat([]byte{'.'}, size)...)
	h.media = append(h.media, p...)
	h.clock += min(f.Duration, h.config.Target+499*time.Millisecond)
	c := chain(p)
	h.check(h.w.Add(f, &c), fmt.Sprintf("%+v of %d bytes", f, size))
}

func (h *history) failf(format string, args ...any) {
	h.t.Helper()
	now := h.w.AppendPlaylist(nil, false)
	h.t.Fatalf("%+v\nbefore:\n%s\nnow:\n%s\n%s", h.config, h.text, now,
		fmt.Sprintf(format, args...))
}

// check compares the playlist after a call with the history.
func (h *history) check(news bool, call string) {
	h.t.Helper()
	text := string(h.w.AppendPlaylist(nil, false))
	p := parse(h.t, text)
	if news != (text != h.text) && h.text != "" {
		h.failf("%s: news is %v", call, news)
	}
	if n := h.w.Bytes(); n > h.config.MaxBytes {
		h.failf("%s: %d bytes", call, n)
	}
	if text == h.text {
		return
	}
	h.checkRules(text)
	h.checkRules(string(h.w.AppendPlaylist(nil, true)))
	h.checkHeader(p)
	h.checkOrder(p)
	for i := range p.segments {
		h.checkSegment(&p.segments[i], i == len(p.segments)-1)
	}
	h.checkParts(p)
	h.checkDelta(p, text)
	h.checkKept(p)
	h.checkStatus(p)
	h.last, h.text = p, text
}

// checkRules lets independent code check the rules of HLS.
func (h *history) checkRules(text string) {
	ps := hlscheck.Must(h.checker.Media(text))
	if !h.even { // frames that do not fill parts evenly, and fragments without parts
		ps = hlscheck.Without(ps, "part-short", "hint-broken")
	}
	if !h.unlimited {
		ps = hlscheck.Without(ps, "window-short", "part-removed-early")
	}
	if len(ps) > 0 {
		h.failf("%v", ps)
	}
}

// checkHeader checks the lines that must not change, and the numbers that may only grow.
func (h *history) checkHeader(p playlist) {
	if h.text != "" && p.constant != h.last.constant ||
		p.target != int(h.config.Target/time.Millisecond) ||
		p.partTarget != int(h.config.Part/time.Millisecond) || p.skipped != 0 {
		h.failf("header")
	}
	if p.msn < h.last.msn || p.dsn < h.last.dsn {
		h.failf("a number goes back")
	}
	if p.ended {
		return
	}
	if h.fresh {
		if p.hint != "" {
			h.failf("hint")
		}
		return
	}
	msn, index := h.w.Next()
	next := hls.Object{Kind: hls.KindPart, Epoch: h.config.Epoch, MSN: msn, Part: index}
	if p.hint != next.String() {
		h.failf("hint")
	}
	if _, ok := h.get(p.hint); ok {
		h.failf("the hinted part is there")
	}
	if p.dsn > int(h.w.Discontinuity()) {
		h.failf("discontinuity sequence")
	}
}

// checkOrder checks that segments arrive and leave in order, and that as many stay as the rules
// require.
func (h *history) checkOrder(p playlist) {
	total := 0
	for i, s := range p.segments {
		if s.msn != p.msn+i || s.uri == "" && i < len(p.segments)-1 {
			h.failf("segment %d is not alone", s.msn)
		}
		total += s.duration
	}
	last := len(h.last.segments)
	if last > 0 && h.last.segments[last-1].uri == "" {
		last--
	}
	complete := len(p.segments)
	if complete > 0 && p.segments[complete-1].uri == "" {
		complete--
	}
	if p.msn+complete < h.last.msn+last {
		h.failf("a segment at the end is missing")
	}
	if h.unlimited && p.msn > h.last.msn && h.text != "" &&
		(complete < h.config.Segments || total < 3*p.target) {
		h.failf("%d segments of %d ms remain", complete, total)
	}
	if h.unlimited && complete > h.config.Segments && total-p.segments[0].duration >= 3*p.target {
		h.failf("%d segments of %d ms are too many", complete, total)
	}
	for _, s := range p.segments[:complete] {
		if r := h.segments[s.msn]; r != nil {
			r.longest = max(r.longest, total)
		}
	}
}

// checkSegment compares a segment with the known facts and bytes.
func (h *history) checkSegment(s *segment, newest bool) {
	known := h.segments[s.msn]
	if known == nil {
		known = &record{segment: *s}
		h.segments[s.msn] = known
		if before := h.segments[s.msn-1]; before != nil && before.uri != "" && !before.gap {
			known.from = before.from + len(h.objects[before.uri])
		} else if data := h.fetch(h.anyName(s)); data != nil {
			known.from = bytes.Index(h.media, data) // earlier segments were too large to be listed
		}
	}
	if s.discontinuity != known.discontinuity || s.dsn != known.dsn || s.date != known.date ||
		s.init != known.init {
		h.failf("segment %d was %+v", s.msn, known)
	}
	if known.uri != "" && (s.uri != known.uri || s.duration != known.duration) {
		h.failf("segment %d was %+v", s.msn, known)
	}
	n := len(known.parts)
	withdrawn := s.uri != "" && len(s.parts) == 0
	if known.uri != "" && len(s.parts) > n || !withdrawn &&
		(len(s.parts) < n || !slices.Equal(s.parts[:n], known.parts)) {
		h.failf("parts of segment %d were %+v", s.msn, known.parts)
	}
	if s.gap {
		known.uri, known.duration = s.uri, s.duration
		return
	}
	if init := h.fetch(s.init); !strings.HasPrefix(string(init), "init ") {
		h.failf("%s is %s", s.init, init)
	}
	at, sum := known.from, 0
	for _, part := range s.parts {
		data := h.fetch(part.uri)
		if at < 0 || !bytes.HasPrefix(h.media[at:], data) {
			h.failf("bytes of %s", part.uri)
		}
		at += len(data)
		sum += part.duration
	}
	if s.uri != "" {
		data := h.fetch(s.uri)
		if known.from < 0 || !bytes.HasPrefix(h.media[known.from:], data) {
			h.failf("bytes of %s", s.uri)
		}
		if len(s.parts) > 0 && (at != known.from+len(data) || sum != s.duration) {
			h.failf("parts of %s: %d bytes of %d, %d ms of %d", s.uri, at-known.from, len(data),
				sum, s.duration)
		}
		if (s.duration+500)/1000*1000 > int(h.config.Target/time.Millisecond) {
			h.failf("%s is too long", s.uri)
		}
		if known.uri == "" || known.since == 0 {
			known.since = h.clock
		}
		known.uri, known.duration = s.uri, s.duration
	}
	if len(s.parts) > 0 {
		known.parts = s.parts
	} else if len(known.parts) > 0 && known.partsEnd == 0 {
		known.partsEnd = h.clock
	}
}

// anyName returns the name of the first listed object of a segment.
func (h *history) anyName(s *segment) string {
	if len(s.parts) > 0 {
		return s.parts[0].uri
	}
	return s.uri
}

// fetch returns the bytes of a listed object, which must not change.
func (h *history) fetch(name string) []byte {
	h.t.Helper()
	data, ok := h.get(name)
	if h.lost(name) && !ok {
		return h.objects[name]
	}
	if !ok {
		h.failf("%s is listed and not there", name)
	}
	if before, ok := h.objects[name]; ok && !bytes.Equal(data, before) {
		h.failf("%s has changed", name)
	}
	h.objects[name] = data
	return data
}

// checkParts checks the durations of parts, and which segments list them.
func (h *history) checkParts(p playlist) {
	end := 0 // from the end of the segment to the end of the playlist
	for i := len(p.segments) - 1; i >= 0; i-- {
		s := p.segments[i]
		for j, part := range s.parts {
			if part.duration > p.partTarget {
				h.failf("%s is too long", part.uri)
			}
			if h.even && part.duration*100 < p.partTarget*85 && !part.independent &&
				(s.uri == "" || j < len(s.parts)-1) {
				h.failf("%s is too short", part.uri)
			}
		}
		known := h.segments[s.msn]
		if len(known.parts) > 0 && (end < 3*p.target-len(p.segments)) && len(s.parts) == 0 {
			h.failf("segment %d ends %d ms before the end and lists no parts", s.msn, end)
		}
		if end > 3*p.target+len(p.segments) && len(s.parts) > 0 {
			h.failf("segment %d ends %d ms before the end and lists parts", s.msn, end)
		}
		if s.uri != "" {
			end += s.duration
		} else {
			for _, part := range s.parts {
				end += part.duration
			}
		}
	}
}

// checkDelta restores the segments that a delta has skipped.
func (h *history) checkDelta(p playlist, text string) {
	deltaText := string(h.w.AppendPlaylist(nil, true))
	delta := parse(h.t, deltaText)
	if delta.skipped == 0 {
		if deltaText != text {
			h.failf("delta without SKIP:\n%s", deltaText)
		}
		return
	}
	after := 0
	for i, s := range p.segments {
		if i >= delta.skipped {
			after += s.duration
		}
	}
	if after <= 6*p.target || p.ended {
		h.failf("a delta of %d ms:\n%s", after, deltaText)
	}
	// A player takes earlier segments, and the MAP and the discontinuities at their end, from its
	// previous playlist.
	merged := delta
	merged.segments = append([]segment(nil), p.segments[:delta.skipped]...)
	before := p.segments[delta.skipped-1]
	for _, s := range delta.segments {
		if s.init == "" {
			s.init = before.init
		}
		s.dsn += before.dsn - p.dsn
		merged.segments = append(merged.segments, s)
	}
	merged.skipped = 0
	if !reflect.DeepEqual(merged, p) {
		h.failf("delta:\n%s", deltaText)
	}
}

// checkKept checks that segments and parts stay as long as the rules require, and not much longer.
func (h *history) checkKept(p playlist) {
	for msn, s := range h.segments {
		if msn >= p.msn || s.uri == "" || h.lost(s.uri) {
			continue
		}
		if s.partsEnd == 0 {
			s.partsEnd = h.clock
		}
		kept := h.clock - s.since
		var c millrace.Chain
		o, _ := hls.ParseObject(s.uri)
		ok := h.w.Append(&c, o)
		if ok && !bytes.Equal(c.Bytes(), h.objects[s.uri]) {
			h.failf("%s has changed", s.uri)
		}
		c.Release()
		// Sums of rounded durations differ by up to a millisecond per segment.
		slack := time.Duration(len(p.segments)+s.longest/100+10) * time.Millisecond
		least := time.Duration(s.duration+s.longest)*time.Millisecond - slack
		if h.unlimited && !ok && kept < least {
			h.failf("%s is gone after %v, want %v", s.uri, kept, least)
		}
		if h.unlimited && !ok && len(s.parts) > 0 && h.clock-s.partsEnd < 3*h.config.Target-slack {
			h.failf("parts of %s left the playlist at %v, and are gone at %v", s.uri, s.partsEnd,
				h.clock)
		}
		if ok && msn < p.msn-1-2*h.config.Segments && kept > 20*h.config.Target+2*least+2*slack {
			h.failf("%s is there after %v", s.uri, kept)
		}
		if !ok {
			delete(h.segments, msn-1) // the last removed segment shows where the next one begins
		}
	}
}

// checkStatus requests segments and parts around the end. It finds the expected answer by searching
// the playlist.
func (h *history) checkStatus(p playlist) {
	next := p.msn // the segment in progress
	var open []part
	var last *segment
	for i, s := range p.segments {
		if s.uri != "" {
			next = s.msn + 1
			last = &p.segments[i]
		} else {
			open = s.parts
		}
	}
	limit := int((3*time.Second + h.config.Part - 1) / h.config.Part)
	for msn := max(0, next-2); msn < next+4; msn++ {
		for part := -1; part < len(open)+limit+3; part++ {
			m, i := msn, part
			if last != nil && m == last.msn && len(last.parts) > 0 && i >= len(last.parts) {
				m, i = m+1, 0
			}
			want := hls.Wait
			switch {
			case p.ended || m < next || m == next && i >= 0 && i < len(open):
				want = hls.Ready
			case m > next+1 || m == next && i > len(open)-1+limit || m == next+1 && i > limit-1:
				want = hls.TooFar
			}
			if got := h.w.Status(hls.Reload{MSN: uint64(msn), Part: part}); got != want {
				h.failf("%d.%d is %d, want %d", msn, part, got, want)
			}
		}
	}
}
