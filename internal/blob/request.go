package blob

import (
	"context"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// maxRanges is how many parts an answer of Redis may have, as with chunk.FileServer: each is a command for as little as one
// byte. A Range that asks for more is ignored.
const maxRanges = 64

var (
	// listHeaders may come in several lines, which mean the same as one with commas. Code that answers looks at the
	// first line only.
	listHeaders = [...]string{"If-Match", "If-None-Match"}

	// timeHeaders mean nothing here: nobody is told when a value was put.
	timeHeaders = [...]string{"If-Modified-Since", "If-Unmodified-Since"}
)

// conditions returns the header of a request with each list in one line, and without conditions of time. It is h itself
// if nothing has to be changed; h never is changed.
func conditions(h http.Header) http.Header {
	change := false
	for _, name := range listHeaders {
		change = change || len(h[name]) > 1
	}
	for _, name := range timeHeaders {
		change = change || len(h[name]) > 0
	}
	if !change {
		return h
	}
	own := h.Clone()
	for _, name := range listHeaders {
		if lines := own[name]; len(lines) > 1 {
			own[name] = []string{strings.Join(lines, ", ")}
		}
	}
	for _, name := range timeHeaders {
		delete(own, name)
	}
	return own
}

const noRange = "bytes=?" // which net/http calls invalid

// strictRange returns a Range header that makes net/http do with a value of size bytes what chunk.FileServer does with
// the given header. net/http by itself takes numbers with a sign, and regards no bytes from the end (-0) as a part that
// is there.
func strictRange(header string, size int64) string {
	list, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return header
	}
	parts := strings.Split(list, ",")
	there := 0
	for i, part := range parts {
		if textproto.TrimString(part) == "" {
			continue
		}
		first, last, ok := strings.Cut(part, "-")
		first, last = textproto.TrimString(first), textproto.TrimString(last)
		from, isFrom := number(first)
		to, isTo := number(last)
		switch {
		case ok && first == "" && isTo: // so many from the end
			if from = size - min(to, size); from == size {
				parts[i] = strconv.FormatInt(size, 10) + "-" // which net/http does not find either
			}
		case !ok || !isFrom || from < size && last != "" && (!isTo || to < from):
			return noRange
		}
		if from < size {
			there++
		}
		if there > maxRanges {
			return ""
		}
	}
	return "bytes=" + strings.Join(parts, ",")
}

// number returns the number that s is, which has no sign.
func number(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// ContextOf returns the context of what a Store does for r. A client that says nothing more, and still waits for its answer,
// has ended the context of its HTTP/1 request. One that is gone is found out about when its body or its answer is.
func ContextOf(r *http.Request) context.Context {
	if r.ProtoMajor == 1 {
		return context.WithoutCancel(r.Context())
	}
	return r.Context()
}
