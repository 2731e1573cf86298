// Package outage decides which failures of a service are logged when it fails again and again.
package outage

import (
	"regexp"
	"slices"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// maxReasons bounds the reasons that are logged of one outage.
const maxReasons = 8

// port matches the part that differs between two attempts.
var port = regexp.MustCompile(`:[0-9]+`)

// An Outage is the state of a service. The zero value is a service that works.
type Outage struct {
	mu      lock.Mutex
	reasons []string // that were logged since the last success, without ports
}

// Note takes the result of a call. It reports whether that is news: the first success after a
// failure, or a failure for another reason than those before it. Another port is not another
// reason.
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
