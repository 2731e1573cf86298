package hls

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Reload is the query of a playlist request.
type Reload struct {
	MSN  uint64 // _HLS_msn
	Part int    // _HLS_part, or -1 if the query names a complete segment
	Skip bool   // _HLS_skip: the client accepts a delta update
}

var (
	errNumber  = errors.New("hls: _HLS_msn or _HLS_part is not a decimal integer, or is there twice")
	errPartial = errors.New("hls: _HLS_part without _HLS_msn")
)

// ParseReload parses the query of a playlist request, without the "?". If the query names a segment
// or part, ParseReload returns true for blocking, and the request may have to wait; see
// [Window.Status]. Values of _HLS_skip other than YES and v2 are ignored. If ParseReload returns an
// error, answer the request with 400 Bad Request.
func ParseReload(query string) (r Reload, blocking bool, err error) {
	r.Part = -1
	hasSkip := false
	for query != "" {
		var parameter string
		parameter, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(parameter, "=")
		name, badName := url.QueryUnescape(name)
		value, badValue := url.QueryUnescape(value)
		if badName != nil || badValue != nil || strings.Contains(parameter, ";") {
			continue // as url.ParseQuery does
		}
		switch {
		case name == "_HLS_msn":
			r.MSN, err = parseNumber(value, maxNumber, blocking)
			blocking = true
		case name == "_HLS_part":
			var part uint64
			part, err = parseNumber(value, 1<<30, r.Part >= 0)
			r.Part = int(part)
		case name == "_HLS_skip" && !hasSkip:
			r.Skip = value == "YES" || value == "v2"
			hasSkip = true
		}
		if err != nil {
			return Reload{}, false, err
		}
	}
	if r.Part >= 0 && !blocking {
		return Reload{}, false, errPartial
	}
	return r, blocking, nil
}

// parseNumber parses a decimal integer. If the integer is larger than limit, parseNumber returns
// limit, because no stream has that many segments or parts. The argument twice is true if the
// parameter has been in the query before, which is an error.
func parseNumber(value string, limit uint64, twice bool) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if twice || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errNumber
	}
	return min(n, limit), nil
}

// Status says how to answer a playlist request that names a segment or part.
type Status uint8

// The answers to a playlist request that names a segment or part.
const (
	Ready  Status = iota // answer now: the playlist has the requested media, or newer media
	Wait                 // wait, and call Status again when the playlist has changed
	TooFar               // answer 400 Bad Request: the media is too far ahead
)

// Status returns how to answer the playlist request r. If the stream has ended, the answer is
// always Ready.
//
// If r names a part after the last part of a complete segment, Status treats r as a request for the
// first part of the next segment.
func (w *Window) Status(r Reload) Status {
	msn, next := w.Next()
	switch {
	case w.ended:
		return Ready
	case r.MSN < msn:
		// If r.Part is after the last part of the newest complete segment, the request is for the
		// first part of the next segment, which is not complete yet.
		last := w.find(r.MSN)
		if msn-r.MSN == 1 && next == 0 && last != nil && len(last.parts) > 0 &&
			r.Part >= len(last.parts) {
			return Wait
		}
		return Ready
	case r.MSN-msn > 1:
		return TooFar
	}
	if r.MSN == msn && r.Part >= 0 && r.Part < next {
		return Ready
	}
	// ahead is the number of parts, up to the requested one, that are not complete yet.
	ahead := r.Part + 1
	if r.MSN == msn {
		ahead -= next
	}
	if ahead > w.partLimit() {
		return TooFar
	}
	return Wait
}

// partLimit returns the Advance Part Limit: the number of parts in three seconds, but at least 3.
func (w *Window) partLimit() int {
	return max(3, int((3*time.Second+w.config.Part-1)/w.config.Part))
}
