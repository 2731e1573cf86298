// Package outage decides which failures are logged while a service fails repeatedly.
package outage

import (
	"regexp"
	"slices"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// maxReasons is the maximum number of failures that are logged for one outage.
const maxReasons = 8

// port matches a port number. [Outage.Note] ignores port numbers when it compares errors, because
// the local port differs with each attempt.
var port = regexp.MustCompile(`:[0-9]+`)

// An Outage records the failures of a service since its last success. The zero value has no
// failures.
type Outage struct {
	mu      lock.Mutex
	reasons []string // texts of the logged errors since the last success, without ports
}

// Note records the result of a call, and reports whether the result should be logged. The first
// success after a failure should be logged. A failure should be logged if no earlier failure of the
// outage had the same reason. Reasons that differ only in port numbers count as the same reason.
// After maxReasons different reasons, no more failures are logged.
func (o *Outage) Note(err error) (news bool) {
	reason := ""
	if err != nil {
		reason = port.ReplaceAllString(err.Error(), "")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		news = len(o.reasons) > 0
		o.reasons = nil
		return news
	}
	if slices.Contains(o.reasons, reason) || len(o.reasons) == maxReasons {
		return false
	}
	o.reasons = append(o.reasons, reason)
	return true
}
