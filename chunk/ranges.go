package chunk

import (
	"errors"
	"fmt"
	"math"
	"mime/multipart"
	"net/textproto"
	"strconv"
	"strings"
)

// maxRanges is how many parts an answer may have. Each is a header and one or two system calls for as little as one
// byte, and a client that asks for more than a player or a download manager does wants to see how long that takes. Such
// a Range is ignored, as RFC 9110, section 14.2, allows.
const maxRanges = 64

var (
	errBadRange      = errors.New("invalid range")
	errNoOverlap     = errors.New("invalid range: failed to overlap")
	errTooManyRanges = errors.New("too many ranges")
)

// parseRanges returns what a Range header asks for of a file of size bytes, in the header's order, without what is not
// there. An empty list asks for all. errNoOverlap says that nothing of what is asked for is there.
//
// The syntax is that of RFC 9110, section 14.1.2, with spaces around numbers and empty elements allowed.
func parseRanges(header string, size int64) ([]span, error) {
	if header == "" {
		return nil, nil
	}
	list, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return nil, errBadRange
	}
	var spans []span
	missed := false
	for part := range strings.SplitSeq(list, ",") {
		part = textproto.TrimString(part)
		if part == "" {
			continue
		}
		s, there, err := parseRange(part, size)
		if err != nil {
			return nil, err
		}
		if !there {
			missed = true
			continue
		}
		if len(spans) == maxRanges {
			return nil, errTooManyRanges
		}
		spans = append(spans, s)
	}
	if missed && len(spans) == 0 {
		return nil, errNoOverlap
	}
	return spans, nil
}

// parseRange returns what one element asks for, and whether any of that is there.
func parseRange(part string, size int64) (s span, there bool, err error) {
	first, last, ok := strings.Cut(part, "-")
	if !ok {
		return span{}, false, errBadRange
	}
	first, last = textproto.TrimString(first), textproto.TrimString(last)
	if first == "" {
		n, ok := parseOffset(last)
		if !ok {
			return span{}, false, errBadRange
		}
		n = min(n, size)
		return span{size - n, size}, n > 0, nil
	}
	from, ok := parseOffset(first)
	if !ok {
		return span{}, false, errBadRange
	}
	if from >= size {
		return span{}, false, nil // whatever the end is, as with http.FileServer
	}
	end := int64(math.MaxInt64)
	if last != "" {
		if end, ok = parseOffset(last); !ok || end < from {
			return span{}, false, errBadRange
		}
	}
	return span{from, min(end, size-1) + 1}, true, nil
}

// parseOffset returns the number that s is.
func parseOffset(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' { // no sign
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func (s span) len() int64 { return s.to - s.from }

// contentRange returns the header's value for this part of a file of size bytes.
func (s span) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", s.from, s.to-1, size)
}

// partHeader returns the header of this part in an answer that has several.
func (s span) partHeader(contentType string, size int64) textproto.MIMEHeader {
	return textproto.MIMEHeader{
		"Content-Range": {s.contentRange(size)},
		"Content-Type":  {contentType},
	}
}

// totalLen returns how many bytes spans have together, at most math.MaxInt64.
func totalLen(spans []span) (n int64) {
	for _, s := range spans {
		if n > math.MaxInt64-s.len() {
			return math.MaxInt64
		}
		n += s.len()
	}
	return n
}

// multipartLen returns how long an answer with these parts is.
func multipartLen(spans []span, boundary, contentType string, size int64) int64 {
	var count byteCount
	w := multipart.NewWriter(&count)
	_ = w.SetBoundary(boundary) // it comes from a multipart.Writer
	for _, s := range spans {
		_, _ = w.CreatePart(s.partHeader(contentType, size))
	}
	_ = w.Close()
	return int64(count) + totalLen(spans)
}

// byteCount counts what is written to it.
type byteCount int64

func (c *byteCount) Write(p []byte) (int, error) {
	*c += byteCount(len(p))
	return len(p), nil
}
