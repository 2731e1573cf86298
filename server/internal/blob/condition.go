package blob

import (
	"net/http"
	"net/textproto"
	"strings"
)

// A Condition reports whether a key may be written if its value has the given entity tag. The tag
// is "" if the key has no value. A nil Condition allows every write.
type Condition func(tag string) bool

// ConditionOf returns the condition that the headers If-Match and If-None-Match set for a write, or
// nil if h has neither. With both headers, both must hold. An invalid list of entity tags matches
// nothing.
func ConditionOf(h http.Header) Condition {
	match, noneMatch := h.Values("If-Match"), h.Values("If-None-Match")
	if len(match) == 0 && len(noneMatch) == 0 {
		return nil
	}
	return func(tag string) bool {
		// If-Match uses the strong comparison, because a client may change a value only if it has
		// received exactly the bytes of that value.
		if len(match) > 0 && !matches(strings.Join(match, ","), tag, false) {
			return false
		}
		return len(noneMatch) == 0 || !matches(strings.Join(noneMatch, ","), tag, true)
	}
}

// allows reports whether c holds.
func (c Condition) allows(tag string) bool { return c == nil || c(tag) }

// matches reports whether list, a list of entity tags, contains the strong tag. The list "*"
// contains every tag but "", the tag of a missing value. If weakly is set, a weak tag in the list
// matches too.
func matches(list, tag string, weakly bool) bool {
	if tag == "" {
		return false
	}
	for {
		list = strings.TrimLeft(textproto.TrimString(list), ", \t")
		if strings.HasPrefix(list, "*") {
			return true
		}
		opaque, weak := strings.CutPrefix(list, "W/")
		if !strings.HasPrefix(opaque, `"`) {
			return false
		}
		end := strings.IndexByte(opaque[1:], '"')
		if end < 0 {
			return false
		}
		if opaque[:end+2] == tag && (weakly || !weak) {
			return true
		}
		list = opaque[end+2:]
	}
}
