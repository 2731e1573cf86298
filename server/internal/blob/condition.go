package blob

import (
	"net/http"
	"net/textproto"
	"strings"
)

// A Condition says whether a key may be written to when its value has this entity tag, which is ""
// if there is no value. A nil Condition allows everything.
type Condition func(tag string) bool

// ConditionOf returns the condition that If-Match and If-None-Match set for a write, or nil without
// these headers. Both must hold. An invalid list of entity tags matches nothing.
func ConditionOf(h http.Header) Condition {
	match, noneMatch := h.Values("If-Match"), h.Values("If-None-Match")
	if len(match) == 0 && len(noneMatch) == 0 {
		return nil
	}
	return func(tag string) bool {
		// If-Match compares strongly: a client that changes a value must have had all of its bytes.
		if len(match) > 0 && !matches(strings.Join(match, ","), tag, false) {
			return false
		}
		return len(noneMatch) == 0 || !matches(strings.Join(noneMatch, ","), tag, true)
	}
}

// allows reports whether c holds.
func (c Condition) allows(tag string) bool { return c == nil || c(tag) }

// matches reports whether a list of entity tags has tag, which is strong, or is a star and there is
// one.
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
