package live

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

var (
	errEmpty = errors.New("the body is empty")
	// errSecondHeader refuses a second FLV file in a body, because its timestamps restart and its
	// codecs may differ.
	errSecondHeader = errors.New(
		"a second FLV header in the body: files do not become one stream by standing one behind the " +
			"other, join them first (ffmpeg -f concat), or send one after the other")
	// ErrPanic is the error for a publisher or viewer that ended with a panic.
	ErrPanic = errors.New("internal error")
	// errUnwatched is the error of a pull that ends because the stream has no viewers at this node.
	errUnwatched = errors.New("it has no viewers")
	// errOwnerEnded is the error of a pull that ends because the stream has ended at its owner.
	errOwnerEnded = errors.New("the stream has ended at its owner")
	errNotFLV     = refuse.New(http.StatusUnsupportedMediaType,
		"this stream is FLV, and waits for its publisher to come back: "+
			"it cannot continue with another format")
)

// ErrSlowMessage returns the error for a publisher that takes longer than the given limit to send
// one message or tag.
func ErrSlowMessage(limit time.Duration) error {
	return refuse.New(http.StatusRequestTimeout,
		"a message has not come to its end within %v (--publish-timeout)", limit)
}

// PublishStatus returns the HTTP status for a publisher that ended with the error err.
func PublishStatus(err error) int {
	var limit *flv.LimitError
	var rtmpLimit *rtmp.LimitError
	var refused *refuse.Refusal
	switch {
	case err == nil, err == errUnwatched, err == errOwnerEnded:
		return http.StatusOK
	case errors.As(err, &refused):
		return refused.Status
	case errors.As(err, &limit), errors.As(err, &rtmpLimit):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case err == ErrPanic:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// Explain returns a message that explains why a stream ended. err is the error with which the
// stream ended, or nil if the stream ended normally. If the stream exceeded the limit of
// --max-tag-bytes, the message names this flag.
func Explain(err error) string {
	if err == nil {
		return "end of the stream"
	}
	var limit *flv.LimitError
	var rtmpLimit *rtmp.LimitError
	if errors.As(err, &limit) && strings.HasPrefix(limit.What, "tag data") ||
		errors.As(err, &rtmpLimit) && strings.HasPrefix(rtmpLimit.What, "bytes of") {
		return fmt.Sprintf("%v (--max-tag-bytes)", err)
	}
	return err.Error()
}

var errTakenOver = refuse.New(http.StatusConflict, "another publisher took over this stream")

var errMoved = refuse.New(http.StatusConflict, "this stream is published at another node now")

var errOperator = refuse.New(http.StatusForbidden,
	"the operator has ended this stream").For(refuse.ByOperator)

func errNotOwner(name string) error {
	return refuse.New(http.StatusMisdirectedRequest, "this node does not own the stream %q", name)
}

var errTimeUp = refuse.New(http.StatusForbidden, "the time is up that this publisher was allowed")
