package download

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/internal/retry"
)

// action is what is to be done after an answer.
type action uint8

const (
	begin    action = iota // the body is the file, from its first byte; what there is is of another version
	repeat                 // the body is the file, from its first byte; what there is is the same, and to be skipped
	resume                 // the body is what comes behind the bytes that there are
	complete               // there is all of it already
	discard                // what there is cannot be the file's beginning: to be asked again, for all of it
)

// A verdict is what an answer amounts to.
type verdict struct {
	action action
	origin origin // of the bytes, from now on, but for their address; with discard, nothing
	length int64  // of the body; unknown: to its end
	all    int64  // that the file has, as this answer says; or unknown
}

// maxReason bounds how much of an error page is read for its first line.
const maxReason = 512

// judge says what an answer to a request for everything behind the first have bytes amounts to. If have is not 0, and known
// has a validator, that was asked for on the condition that the file is known's version; otherwise the whole file was.
//
// An error is a *fatalError, or else a *busyError.
func judge(res *http.Response, have int64, known origin) (verdict, error) {
	ranged := have > 0 && known.validator() != ""
	switch res.StatusCode {
	case http.StatusOK:
		return judgeWhole(res, have, known, ranged), nil
	case http.StatusPartialContent:
		if !ranged {
			return verdict{}, &fatalError{err: errors.New("the server sends a part of the file, and was asked for all of it")}
		}
		return judgePart(res, have, known)
	case http.StatusRequestedRangeNotSatisfiable:
		if ranged {
			return judgeEnd(res, have, known), nil
		}
	}
	return verdict{}, refusal(res)
}

// judgeWhole judges a 200.
func judgeWhole(res *http.Response, have int64, known origin, ranged bool) verdict {
	v := verdict{action: begin, origin: originOf(res), length: res.ContentLength, all: res.ContentLength}
	if !ranged || !known.same(v.origin) {
		return v
	}
	if v.all == unknown { // which an earlier answer may have told
		v.origin.Length, v.length = known.Length, known.Length
	}
	if v.length == unknown || v.length >= have {
		v.action = repeat
	}
	return v
}

// judgeEnd judges a 416: there is nothing behind the bytes that there are, or they are not the file's.
func judgeEnd(res *http.Response, have int64, known origin) verdict {
	v := verdict{action: discard, all: unknown}
	if r, err := parseContentRange(res.Header.Get("Content-Range")); err == nil && r.to == 0 {
		v.all = r.all
	}
	all := v.all
	if all == unknown {
		all = known.Length
	}
	switch {
	case !known.agrees(res.Header):
		return v
	case all == have && (known.Length == unknown || known.Length == have):
		known.Length = have
	case all == unknown && known.ETag != "" && known.ETag == res.Header.Get("Etag"):
		// Nobody says how long the file is, but that it is this one, and that it does not go on.
	default:
		return v
	}
	v.action, v.origin = complete, known
	return v
}

// judgePart judges a 206.
func judgePart(res *http.Response, have int64, known origin) (verdict, error) {
	r, err := parseContentRange(res.Header.Get("Content-Range"))
	if err != nil {
		return verdict{}, &fatalError{err: fmt.Errorf("the server sends a part of the file with %w", err)}
	}
	length := r.to - r.from
	switch {
	case r.from != have || length == 0:
		return verdict{}, &fatalError{err: fmt.Errorf(
			"the server was asked for what comes behind %d bytes, and sends what comes behind %d", have, r.from)}
	case res.ContentLength >= 0 && res.ContentLength != length:
		return verdict{}, &fatalError{err: fmt.Errorf("the server sends %d bytes, and says that they are %d", res.ContentLength, length)}
	case !known.agrees(res.Header), encoding(res.Header) != known.Encoding,
		known.Length != unknown && (r.to > known.Length || r.all != unknown && r.all != known.Length):
		// It was asked for this version or else for the whole file. Only a try without that question can help.
		return verdict{action: discard, all: r.all}, nil
	}
	if known.Length == unknown {
		known.Length = r.all
	}
	return verdict{action: resume, origin: known, length: length, all: r.all}, nil
}

// refusal makes an error of an answer that has no file.
func refusal(res *http.Response) error {
	reason := "the server answers " + strconv.Itoa(res.StatusCode)
	if text := http.StatusText(res.StatusCode); text != "" {
		reason += " " + text
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxReason))
		if line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n"); line != "" {
			reason += fmt.Sprintf(": %q", line) // quoted, because a terminal would obey it
		}
	}
	switch res.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &busyError{reason: reason, after: retry.After(res.Header)}
	}
	return &fatalError{err: errors.New(reason)}
}
