package upload

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/retry"
)

// maxReason bounds how much of an error page is read for its first line.
const maxReason = 512

// errNoBlob is for a server that has not said that it keeps the file.
var errNoBlob = errors.New("the server answers 200 OK, with no entity tag for what was sent: is that the URL of a blob?")

// A laterError is an answer which says that nothing was done, and that the same may be tried again.
type laterError struct {
	reason string
	after  time.Duration // the server's wish, or 0
}

func (e *laterError) Error() string { return e.reason }

// judge returns nil if an answer says that the body stands at the URL now.
func judge(res *http.Response, ifAbsent bool) error {
	switch res.StatusCode {
	case http.StatusCreated, http.StatusNoContent:
		return nil
	case http.StatusOK:
		// So does a server that has done something else with it, such as to relay it as a stream.
		if res.Header.Get("Etag") != "" {
			return nil
		}
		return errNoBlob
	case http.StatusPreconditionFailed:
		if ifAbsent {
			return fmt.Errorf("there is something at the URL already (--if-absent)")
		}
	}
	reason := "the server answers " + strconv.Itoa(res.StatusCode)
	if text := http.StatusText(res.StatusCode); text != "" {
		reason += " " + text
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		page, _ := io.ReadAll(io.LimitReader(res.Body, maxReason))
		if line, _, _ := strings.Cut(strings.TrimSpace(string(page)), "\n"); line != "" {
			reason += fmt.Sprintf(": %q", line) // quoted, because a terminal would obey it
		}
	}
	switch res.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%s: see --token", reason)
	case http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return &laterError{reason: reason, after: retry.After(res.Header)}
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		// To follow would show the token to whoever is there.
		return fmt.Errorf("%s, to %.200q: put to that URL", reason, res.Header.Get("Location"))
	}
	return fmt.Errorf("%s", reason)
}
