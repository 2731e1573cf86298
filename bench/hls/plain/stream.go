package plain

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
)

const (
	initFile       = "init.mp4"
	targetDuration = 2 // in seconds
	skipUntil      = 6 * targetDuration * time.Second
	maxAhead       = 1 // number of segments that a request may be ahead, as in gohlslib
)

type stream struct {
	server *Server

	mu       sync.Mutex
	cond     sync.Cond // uses mu; signals a new part or the end of the stream
	closed   bool
	files    map[string][]byte // by name: the init segment, the complete segments and the parts
	segments []*segment        // the complete segments, oldest first
	msn      uint64            // number of the open segment
	open     *segment          // nil before the first fragment
	made     uint64            // number of parts so far

	// Only the publisher's goroutine uses these fields.
	part  part   // the part that is being made
	buf   []byte // copies of the samples of part
	ended uint32 // end of the last fragment, in ms of the stream's time
	begun bool   // whether ended is set
}

type segment struct {
	msn      uint64
	name     string
	began    time.Time
	duration time.Duration
	parts    []part
}

type part struct {
	name        string
	duration    time.Duration
	independent bool
}

func (st *stream) close() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	st.cond.Broadcast()
}

func (st *stream) setInit(init []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.files[initFile] = init
}

// add appends a fragment to the part that is being made. It ignores a fragment without samples. The
// fragment ends at timestamp, in ms of the stream's time. add releases body.
func (st *stream) add(f mp4.Fragment, body *millrace.Chain, timestamp uint32) {
	defer body.Release()
	duration := time.Duration(timestamp-st.ended) * time.Millisecond
	st.ended = timestamp
	if begun := st.begun; !begun || f.Samples == 0 {
		st.begun = true
		return
	}
	if f.Key && st.open != nil && st.open.duration+st.part.duration >= segmentTarget {
		st.endPart()
		st.endSegment()
	}
	if st.open == nil {
		st.openSegment()
	}
	if len(st.buf) == 0 {
		st.part = part{independent: f.Key}
	}
	for p := range body.All() {
		st.buf = append(st.buf, p...)
	}
	st.part.duration += duration
	if st.part.duration+duration > partTarget {
		st.endPart()
	}
}

func (st *stream) openSegment() {
	open := &segment{msn: st.msn, name: "seg" + strconv.FormatUint(st.msn, 10) + ".mp4",
		began: time.Now()}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.open = open
}

func (st *stream) endPart() {
	if len(st.buf) == 0 {
		return
	}
	p := st.part
	st.mu.Lock()
	defer st.mu.Unlock()
	p.name = st.hintedPart()
	st.made++
	st.files[p.name] = st.buf
	st.open.parts = append(st.open.parts, p)
	st.open.duration += p.duration
	st.server.parts.Add(1)
	st.cond.Broadcast()
	st.part, st.buf = part{}, nil
}

// endSegment publishes the open segment, and keeps at most maxSegments complete segments. The
// caller must call endPart first.
func (st *stream) endSegment() {
	var whole []byte
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, p := range st.open.parts {
		whole = append(whole, st.files[p.name]...)
	}
	st.files[st.open.name] = whole
	st.segments = append(st.segments, st.open)
	st.open = nil
	st.msn++
	if len(st.segments) > maxSegments {
		old := st.segments[0]
		st.segments = st.segments[1:]
		delete(st.files, old.name)
		for _, p := range old.parts {
			delete(st.files, p.name)
		}
	}
	st.cond.Broadcast()
}

func (st *stream) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	st.mu.Lock()
	body, ok := st.files[name]
	for !ok && !st.closed && name == st.hintedPart() { // the part in EXT-X-PRELOAD-HINT
		st.cond.Wait()
		body, ok = st.files[name]
	}
	st.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	send(w, mediaType, mediaCache, body)
}

// hintedPart returns the name of the part that is being made. The caller must hold st.mu.
func (st *stream) hintedPart() string { return "part" + strconv.FormatUint(st.made, 10) + ".mp4" }

func (st *stream) servePlaylist(w http.ResponseWriter, r *http.Request) {
	msn, part, blocking, err := parseBlocking(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	delta := strings.Contains(r.URL.RawQuery, "_HLS_skip=")
	body, status := st.awaitPlaylist(msn, part, blocking, delta)
	if body == nil {
		w.WriteHeader(status)
		return
	}
	send(w, playlistType, "no-cache", body)
}

// parseBlocking parses the query of a playlist request. The parameters _HLS_msn and _HLS_part are
// the segment and the part that the request waits for. If _HLS_msn is missing, the request does not
// wait, and blocking is false.
func parseBlocking(q url.Values) (msn, part uint64, blocking bool, err error) {
	if !q.Has("_HLS_msn") {
		return 0, 0, false, nil
	}
	if msn, err = strconv.ParseUint(q.Get("_HLS_msn"), 10, 64); err == nil && q.Has("_HLS_part") {
		part, err = strconv.ParseUint(q.Get("_HLS_part"), 10, 64)
	}
	return msn, part, true, err
}

// awaitPlaylist waits until there is a complete segment and, if blocking is set, until the
// requested part is available. It returns the playlist. If the request fails, body is nil and
// status is the HTTP status.
func (st *stream) awaitPlaylist(msn, part uint64, blocking, delta bool) (body []byte, status int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		if st.closed {
			return nil, http.StatusNotFound
		}
		if blocking && (msn > st.msn+maxAhead || msn+uint64(len(st.segments)) < st.msn) {
			return nil, http.StatusBadRequest
		}
		if len(st.segments) > 0 && (!blocking || st.hasPart(msn, part)) {
			return st.render(delta), http.StatusOK
		}
		st.cond.Wait()
	}
}

// hasPart reports whether a part is available. The parameters are the number of the segment, and
// the index of the part in the segment. An index beyond the last part of a complete segment means
// the first part of the next segment. The caller must hold st.mu.
func (st *stream) hasPart(msn, part uint64) bool {
	for _, seg := range st.segments {
		if msn == seg.msn && part >= uint64(len(seg.parts)) {
			msn, part = msn+1, 0
		}
	}
	return msn < st.msn || msn == st.msn && st.open != nil && part < uint64(len(st.open.parts))
}

// render returns the playlist, or a delta update if delta is set. The caller must hold st.mu.
func (st *stream) render(delta bool) []byte {
	st.server.rendered.Add(1)
	b := make([]byte, 0, 8<<10)
	b = append(b, "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:"...)
	b = strconv.AppendInt(b, targetDuration, 10)
	b = append(b, "\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK="...)
	b = appendSeconds(b, 3*partTarget)
	b = append(b, ",CAN-SKIP-UNTIL="...)
	b = appendSeconds(b, skipUntil)
	b = append(b, "\n#EXT-X-PART-INF:PART-TARGET="...)
	b = appendSeconds(b, partTarget)
	b = append(b, "\n#EXT-X-MEDIA-SEQUENCE:"...)
	b = strconv.AppendUint(b, st.segments[0].msn, 10)
	b = append(b, '\n')
	skipped := 0
	if delta {
		skipped = st.skippable()
	}
	if skipped > 0 {
		b = append(b, "#EXT-X-SKIP:SKIPPED-SEGMENTS="...)
		b = strconv.AppendInt(b, int64(skipped), 10)
		b = append(b, '\n')
	} else {
		b = append(b, "#EXT-X-MAP:URI=\""+initFile+"\"\n"...)
	}
	for i := skipped; i < len(st.segments); i++ {
		seg := st.segments[i]
		b = append(b, "#EXT-X-PROGRAM-DATE-TIME:"...)
		b = seg.began.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
		b = append(b, '\n')
		if len(st.segments)-i <= partSegments {
			b = appendParts(b, seg)
		}
		b = append(b, "#EXTINF:"...)
		b = appendSeconds(b, seg.duration)
		b = append(b, ",\n"...)
		b = append(b, seg.name...)
		b = append(b, '\n')
	}
	if st.open != nil {
		b = appendParts(b, st.open)
	}
	b = append(b, "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\""...)
	b = append(b, st.hintedPart()...)
	return append(b, "\"\n"...)
}

// skippable returns the number of segments that a delta update skips. The caller must hold st.mu.
func (st *stream) skippable() int {
	var behind time.Duration
	if st.open != nil {
		behind = st.open.duration
	}
	for i := len(st.segments) - 1; i >= 0; i-- {
		if behind >= skipUntil {
			return i + 1
		}
		behind += st.segments[i].duration
	}
	return 0
}

func appendParts(b []byte, seg *segment) []byte {
	for _, p := range seg.parts {
		b = append(b, "#EXT-X-PART:DURATION="...)
		b = appendSeconds(b, p.duration)
		b = append(b, ",URI=\""...)
		b = append(b, p.name...)
		b = append(b, '"')
		if p.independent {
			b = append(b, ",INDEPENDENT=YES"...)
		}
		b = append(b, '\n')
	}
	return b
}

func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Seconds(), 'f', 3, 64)
}
