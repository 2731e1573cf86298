package chunk

import (
	"math"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

const identity = "identity" // no encoding

// An acceptance holds the weights that a request's Accept-Encoding headers give to the encodings in
// acceptNames.
type acceptance struct {
	absent  bool                      // the request has no Accept-Encoding header
	weights [len(acceptNames)]float64 // negative for an encoding that is not in the headers
}

const others = "*" // stands for all encodings that the headers do not name

var acceptNames = [...]string{"br", "zstd", "gzip", identity, others}

// parseAccept parses Accept-Encoding headers (RFC 9110, section 12.5.3), and ignores invalid
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

func acceptIndex(name string) int {
	if strings.EqualFold(name, "x-gzip") {
		name = "gzip" // RFC 9110, section 8.4.1.3
	}
	return slices.IndexFunc(acceptNames[:], func(s string) bool {
		return strings.EqualFold(s, name)
	})
}

// parseWeight parses the parameters of an element of Accept-Encoding, such as "q=0.5". If there are
// no parameters, the weight is 1. If the parameters are invalid, parseWeight returns false.
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

// weight returns the weight of an encoding in acceptNames, or 0 if the client does not accept it.
func (h acceptance) weight(name string) float64 {
	for _, n := range [...]string{name, others} {
		if w := h.weights[acceptIndex(n)]; w >= 0 {
			return w
		}
	}
	if name == identity {
		// A client accepts identity by default, but prefers every other encoding that it accepts.
		return math.SmallestNonzeroFloat64
	}
	return 0
}

// AcceptsEncoding reports whether a client accepts a response in the given encoding: "br", "zstd"
// or "gzip". Pass the request's Accept-Encoding headers as the first argument:
// r.Header["Accept-Encoding"].
//
// AcceptsEncoding returns false if the client prefers an unencoded response. It also returns false
// if there is no Accept-Encoding header, although RFC 9110 then allows every encoding.
func AcceptsEncoding(values []string, encoding string) bool {
	return parseAccept(values).accepts(encoding)
}

func (h acceptance) accepts(encoding string) bool {
	w := h.weight(encoding)
	return !h.absent && w > 0 && w >= h.weight(identity)
}
