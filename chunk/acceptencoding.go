package chunk

import (
	"math"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

const identity = "identity" // no encoding

// An acceptance is the result of parsing a request's Accept-Encoding headers for the encodings in
// acceptNames. Other encodings are dropped.
type acceptance struct {
	absent  bool                      // the request has no Accept-Encoding header
	weights [len(acceptNames)]float64 // by index in acceptNames; below 0 if not named
}

const others = "*" // all encodings that are not named

// acceptNames are the encodings that files may have, the name for no encoding, and the name for all
// others.
var acceptNames = [...]string{"br", "zstd", "gzip", identity, others}

// parseAccept parses the values of Accept-Encoding (RFC 9110, section 12.5.3), and skips invalid
// elements.
func parseAccept(values []string) acceptance {
	if len(values) == 0 {
		return acceptance{absent: true}
	}
	h := acceptance{weights: [len(acceptNames)]float64{-1, -1, -1, -1, -1}}
	for _, value := range values {
		for element := range strings.SplitSeq(value, ",") {
			name, params, _ := strings.Cut(element, ";")
			i := acceptIndex(textproto.TrimString(name))
			if w, ok := parseWeight(params); ok && i >= 0 {
				h.weights[i] = w
			}
		}
	}
	return h
}

// acceptIndex returns the index of a name in acceptNames, or -1.
func acceptIndex(name string) int {
	if strings.EqualFold(name, "x-gzip") {
		name = "gzip" // x-gzip means gzip: RFC 9110, section 8.4.1.3
	}
	return slices.IndexFunc(acceptNames[:], func(s string) bool {
		return strings.EqualFold(s, name)
	})
}

// parseWeight returns the weight in the parameters of an element, 1 by default.
func parseWeight(params string) (float64, bool) {
	params = textproto.TrimString(params)
	if params == "" {
		return 1, true
	}
	key, value, _ := strings.Cut(params, "=")
	if !strings.EqualFold(textproto.TrimString(key), "q") {
		return 0, false
	}
	w, err := strconv.ParseFloat(textproto.TrimString(value), 64)
	return w, err == nil && w >= 0 && w <= 1 && !math.IsNaN(w)
}

// weight returns the client's weight for an encoding; 0 means that the client refuses it. name is
// br, zstd, gzip or identity.
func (h acceptance) weight(name string) float64 {
	for _, n := range [...]string{name, others} {
		if w := h.weights[acceptIndex(n)]; w >= 0 {
			return w
		}
	}
	if name == identity {
		// Acceptable unless it is refused, but less than anything that is named.
		return math.SmallestNonzeroFloat64
	}
	return 0
}

// AcceptsEncoding reports whether a client accepts a response in an encoding at least as readily as
// a response without one. values are the values of its Accept-Encoding headers, and name is br,
// zstd or gzip. If the client sent no such header, the result is false, because the client has not
// requested an encoding.
func AcceptsEncoding(values []string, name string) bool { return parseAccept(values).takes(name) }

// takes is AcceptsEncoding for the headers that h was parsed from.
func (h acceptance) takes(name string) bool {
	w := h.weight(name)
	return !h.absent && w > 0 && w >= h.weight(identity)
}
