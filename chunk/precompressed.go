package chunk

import (
	"cmp"
	"math"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An encoding is one in which a file may be there already.
type encoding struct {
	name string // as in Accept-Encoding
	ext  string // what the name of the encoded file ends with
}

// encodings are in the order of preference: br makes the smallest files.
var encodings = []encoding{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

const identity = "identity"

// An encodedFile is an open file that has the bytes of another one, encoded.
type encodedFile struct {
	encoding
	file *os.File // nil if there is none
	info os.FileInfo
}

// openEncoded opens the form of a file that the client prefers to the file itself, if there is one. The caller closes it.
// plain reports whether the file itself is acceptable. A form that is older than the file was made of another version.
func (h *FileHandler) openEncoded(name string, of os.FileInfo, accept []string) (found encodedFile, plain bool) {
	wanted, plain := parseAccept(accept).choose(encodings)
	for _, e := range wanted {
		f, info, err := h.open(name + e.ext)
		if err != nil {
			continue
		}
		if !olderBySeconds(info, of) {
			return encodedFile{e, f, info}, plain
		}
		_ = f.Close()
	}
	return encodedFile{}, plain
}

// olderBySeconds compares times of change in whole seconds, which is what archives and copies keep of them.
func olderBySeconds(a, b os.FileInfo) bool {
	return a.ModTime().Truncate(time.Second).Before(b.ModTime().Truncate(time.Second))
}

// An acceptance is what an Accept-Encoding header says of the names that matter here. A header may have any number of
// others; they are not kept.
type acceptance struct {
	weights [len(acceptNames)]float64 // by index in acceptNames; below 0 if it is not named
	absent  bool                      // there is no such header: the client has not asked for an encoding
}

const others = "*" // the encodings that are not named

// acceptNames are the encodings, the file itself, and all others.
var acceptNames = [...]string{"br", "zstd", "gzip", identity, others}

// parseAccept reads an Accept-Encoding header (RFC 9110, section 12.5.3); what it cannot read is left out.
func parseAccept(headers []string) acceptance {
	if len(headers) == 0 {
		return acceptance{absent: true}
	}
	a := acceptance{weights: [len(acceptNames)]float64{-1, -1, -1, -1, -1}}
	for _, header := range headers {
		for element := range strings.SplitSeq(header, ",") {
			name, params, _ := strings.Cut(element, ";")
			i := acceptIndex(textproto.TrimString(name))
			if w, ok := parseWeight(params); ok && i >= 0 {
				a.weights[i] = w
			}
		}
	}
	return a
}

// acceptIndex returns the index of a name in acceptNames, or -1.
func acceptIndex(name string) int {
	if strings.EqualFold(name, "x-gzip") {
		name = "gzip" // RFC 9110, section 8.4.1.3
	}
	return slices.IndexFunc(acceptNames[:], func(s string) bool { return strings.EqualFold(s, name) })
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

// weight returns how much an encoding is wanted, 0 for not at all.
func (a acceptance) weight(name string) float64 {
	for _, n := range [...]string{name, others} {
		if w := a.weights[acceptIndex(n)]; w >= 0 {
			return w
		}
	}
	if name == identity {
		// Will do unless it is ruled out, but less than anything that is named.
		return math.SmallestNonzeroFloat64
	}
	return 0
}

// choose returns the encodings that are wanted no less than the file itself, the most wanted one first, and whether the
// file itself is acceptable.
func (a acceptance) choose(from []encoding) (wanted []encoding, plain bool) {
	if a.absent {
		return nil, true
	}
	least := a.weight(identity)
	for _, e := range from {
		if w := a.weight(e.name); w > 0 && w >= least {
			wanted = append(wanted, e)
		}
	}
	slices.SortStableFunc(wanted, func(x, y encoding) int { return cmp.Compare(a.weight(y.name), a.weight(x.name)) })
	return wanted, least > 0
}
