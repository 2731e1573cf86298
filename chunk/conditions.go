package chunk

import (
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// validators are what a client may compare what it has with: the entity tag and the date of last change, "" and zero if
// there is none.
type validators struct {
	etag     string
	modified time.Time
}

// verdict is what a condition says.
type verdict int8

const (
	absent verdict = iota // there is no such condition, or it means nothing here
	holds
	fails
)

// evaluate applies the conditions of a request in the order of RFC 9110, section 13.2.2. It returns the status to answer
// with, 304 or 412, or 0 to go on, and then the Range to answer to, "" if all is to be sent.
func (v validators) evaluate(r *http.Request) (status int, ranges string) {
	match := v.ifMatch(r.Header.Get("If-Match"))
	if match == absent {
		match = v.ifUnmodifiedSince(r.Header.Get("If-Unmodified-Since"))
	}
	if match == fails {
		return http.StatusPreconditionFailed, ""
	}
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch v.ifNoneMatch(r.Header.Get("If-None-Match")) {
	case fails:
		if reading {
			return http.StatusNotModified, ""
		}
		return http.StatusPreconditionFailed, ""
	case absent:
		if reading && v.ifModifiedSince(r.Header.Get("If-Modified-Since")) == fails {
			return http.StatusNotModified, ""
		}
	}
	ranges = r.Header.Get("Range")
	if ranges != "" && reading && v.ifRange(r.Header.Get("If-Range")) == fails {
		ranges = ""
	}
	return 0, ranges
}

// ifMatch compares strongly: a client that changes a file must have had all of its bytes.
func (v validators) ifMatch(header string) verdict {
	return anyTag(header, func(tag string) bool { return tag == v.etag && !strings.HasPrefix(tag, "W/") })
}

// ifNoneMatch compares weakly, and fails when the client has this version already.
func (v validators) ifNoneMatch(header string) verdict {
	switch anyTag(header, func(tag string) bool {
		return v.etag != "" && strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(v.etag, "W/")
	}) {
	case holds:
		return fails
	case fails:
		return holds
	}
	return absent
}

func (v validators) ifUnmodifiedSince(header string) verdict {
	at, ok := v.since(header)
	switch {
	case !ok:
		return absent
	case v.modified.Truncate(time.Second).After(at): // the header has whole seconds
		return fails
	}
	return holds
}

func (v validators) ifModifiedSince(header string) verdict {
	at, ok := v.since(header)
	switch {
	case !ok:
		return absent
	case v.modified.Truncate(time.Second).After(at):
		return holds
	}
	return fails
}

// since returns the date in a header, if both it and the file's are known.
func (v validators) since(header string) (at time.Time, ok bool) {
	if header == "" || isZero(v.modified) {
		return at, false
	}
	at, err := http.ParseTime(header)
	return at, err == nil
}

// ifRange fails when the client's part is of another version, or may be: a weak tag does not promise the same bytes.
func (v validators) ifRange(header string) verdict {
	if header == "" {
		return absent
	}
	if tag, _ := cutTag(header); tag != "" {
		if tag == v.etag && !strings.HasPrefix(tag, "W/") {
			return holds
		}
		return fails
	}
	if at, ok := v.since(header); ok && at.Unix() == v.modified.Unix() {
		return holds
	}
	return fails
}

// anyTag reports whether a list of entity tags has one that fits, or is a star.
func anyTag(list string, fits func(tag string) bool) verdict {
	if list == "" {
		return absent
	}
	for {
		list = strings.TrimLeft(textproto.TrimString(list), ",")
		list = textproto.TrimString(list)
		if strings.HasPrefix(list, ",") {
			continue
		}
		if strings.HasPrefix(list, "*") {
			return holds
		}
		var tag string
		if tag, list = cutTag(list); tag == "" {
			return fails
		}
		if fits(tag) {
			return holds
		}
	}
}

// cutTag returns the entity tag that s begins with, and what comes after it; or "" if it begins with none.
func cutTag(s string) (tag, rest string) {
	s = textproto.TrimString(s)
	opaque := strings.TrimPrefix(s, "W/")
	if !strings.HasPrefix(opaque, `"`) {
		return "", ""
	}
	for i := 1; i < len(opaque); i++ {
		switch c := opaque[i]; {
		case c == '"':
			n := len(s) - len(opaque) + i + 1
			return s[:n], s[n:]
		case c < 0x21 || c == 0x7F:
			return "", ""
		}
	}
	return "", ""
}

// isZero reports whether a file's time is none: file systems that have no times say so in one of two ways.
func isZero(t time.Time) bool { return t.IsZero() || t.Unix() == 0 && t.Nanosecond() == 0 }
