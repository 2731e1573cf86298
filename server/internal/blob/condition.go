package blob

import (
	"net/http"
	"net/textproto"
	"strings"
)

// A Condition reports whether a key may be written. The argument tag is the entity tag of the key's
// value, or "" if the key has no value. A nil Condition allows every write.
type Condition func(tag string) bool

// ConditionOf returns the write condition in the headers If-Match and If-None-Match of h. It
// returns nil if h has neither header. If h has both headers, both conditions must be met. An
// invalid list of entity tags matches no value.
func ConditionOf(h http.Header) Condition {
	match, noneMatch := h.Values("If-Match"), h.Values("If-None-Match")
	if len(match) == 0 && len(noneMatch) == 0 {
		return nil
	}
	return func(tag string) bool {
		// If-Match uses the strong comparison, because a client may change a value only if it has
		// received exactly the bytes of that value.
		if len(match) > 0 && !listMatches(strings.Join(match, ","), tag, false) {
			return false
		}
		return len(noneMatch) == 0 || !listMatches(strings.Join(noneMatch, ","), tag, true)
	}
}

func (c Condition) allows(tag string) bool { return c == nil || c(tag) }

// listMatches reports whether list contains tag. The argument list is the value of the header
// If-Match or If-None-Match. The argument tag is the strong entity tag of a blob, or "" if the blob
// does not exist.
//
//   - The list "*" contains every tag except "".
//   - If allowWeak is set, a weak tag such as W/"1" in the list matches the strong tag "1".
//     Otherwise weak tags in the list are ignored.
func listMatches(list, tag string, allowWeak bool) bool {
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
		if opaque[:end+2] == tag && (allowWeak || !weak) {
			return true
		}
		list = opaque[end+2:]
	}
}
