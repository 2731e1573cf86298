package blob

import (
	"net/http"
	"net/textproto"
	"strings"
)

// A Condition reports whether a key may be written. tag is the entity tag of the key's value, or ""
// if the key has no value. A nil Condition allows every write.
type Condition func(tag string) bool

// ConditionOf returns the condition that the headers If-Match and If-None-Match in h set for a
// write. It returns nil if h has neither header. If h has both, both must be met. An invalid list
// of entity tags matches no value.
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

func (c Condition) allows(tag string) bool { return c == nil || c(tag) }

// matches reports whether list, which is a list of entity tags, contains tag. The list "*" contains
// every tag except "", the tag of a missing value. tag is strong. If weakly is set, an equal weak
// tag in the list matches, too.
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
