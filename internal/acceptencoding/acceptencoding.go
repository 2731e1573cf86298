// Package acceptencoding reads the header Accept-Encoding.
package acceptencoding

import (
	"math"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Identity stands for no encoding.
const Identity = "identity"

// A Header is what the Accept-Encoding headers of a request say of the encodings that matter here. A
// header may have any number of others; they are not kept.
type Header struct {
	Absent  bool                    // the client has not asked for an encoding
	weights [len(encodings)]float64 // by index in encodings; below 0 if it is not named
}

const others = "*" // the encodings that are not named

// encodings are those of files, none, and all others.
var encodings = [...]string{"br", "zstd", "gzip", Identity, others}

// Parse reads the values of Accept-Encoding (RFC 9110, section 12.5.3); what it cannot read is left out.
func Parse(values []string) Header {
	if len(values) == 0 {
		return Header{Absent: true}
	}
	h := Header{weights: [len(encodings)]float64{-1, -1, -1, -1, -1}}
	for _, value := range values {
		for element := range strings.SplitSeq(value, ",") {
			name, params, _ := strings.Cut(element, ";")
			i := index(textproto.TrimString(name))
			if w, ok := parseWeight(params); ok && i >= 0 {
				h.weights[i] = w
			}
		}
	}
	return h
}

// index returns the index of a name in encodings, or -1.
func index(name string) int {
	if strings.EqualFold(name, "x-gzip") {
		name = "gzip" // RFC 9110, section 8.4.1.3
	}
	return slices.IndexFunc(encodings[:], func(s string) bool { return strings.EqualFold(s, name) })
}

// parseWeight returns the weight in the parameters of an element, 1 if there is none.
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

// Weight returns how much an encoding is wanted, 0 for not at all. name is br, zstd, gzip or
// [Identity].
func (h Header) Weight(name string) float64 {
	for _, n := range [...]string{name, others} {
		if w := h.weights[index(n)]; w >= 0 {
			return w
		}
	}
	if name == Identity {
		// Will do unless it is ruled out, but less than anything that is named.
		return math.SmallestNonzeroFloat64
	}
	return 0
}

// Takes reports whether the client takes an encoding no less than none. A client that has not asked
// for one does not.
func (h Header) Takes(name string) bool {
	w := h.Weight(name)
	return !h.Absent && w > 0 && w >= h.Weight(Identity)
}
