// Package outage decides which failures of a service are logged while it fails repeatedly.
package outage

import (
	"regexp"
	"slices"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// maxReasons is the maximum number of different failures that are logged for one outage.
const maxReasons = 8

// port matches a port number. The local port in an error message differs from one attempt to the
// next.
var port = regexp.MustCompile(`:[0-9]+`)

// An Outage records the failures of a service since its last success. The zero value is a service
// that works.
type Outage struct {
	mu      lock.Mutex
	reasons []string // texts of the logged errors since the last success, without ports
}

// Note records the result of a call. It reports whether the result is news: the first success after
// a failure, or a failure for a reason that the outage has not had yet. Reasons that differ only in
// a port are equal. After maxReasons reasons, no failure is news.
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
