package chunk

import (
	"cmp"
	"os"
	"slices"
	"time"
)

// An encoding is an encoding of precompressed files.
type encoding struct {
	name string // name in Accept-Encoding
	ext  string // extension of the encoded file
}

// encodings is in the order of preference. br files are the smallest.
var encodings = []encoding{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

// An encodedFile is an open precompressed file.
type encodedFile struct {
	encoding
	file *os.File // nil if there is none
	info os.FileInfo
}

// openEncoded opens the encoded file of name that the client prefers to the file itself. If there
// is none, found.file is nil. The caller closes the file. plain reports whether the client accepts
// the file itself. openEncoded ignores an encoded file that is older than the file, because it was
// made from another version.
func (d fileRoot) openEncoded(name string, of os.FileInfo, accept []string) (found encodedFile,
	plain bool) {
	wanted, plain := choose(parseAccept(accept), encodings)
	for _, e := range wanted {
		f, info, err := d.open(name + e.ext)
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

// olderBySeconds reports whether a is older than b. It compares whole seconds, because archives and
// copies keep only those.
func olderBySeconds(a, b os.FileInfo) bool {
	return a.ModTime().Truncate(time.Second).Before(b.ModTime().Truncate(time.Second))
}

// choose returns the encodings that have at least the client's weight for identity, in the order of
// their weights. plain reports whether the client accepts identity.
func choose(accept acceptance, from []encoding) (wanted []encoding, plain bool) {
	if accept.absent {
		return nil, true
	}
	for _, e := range from {
		if accept.takes(e.name) {
			wanted = append(wanted, e)
		}
	}
	slices.SortStableFunc(wanted, func(x, y encoding) int {
		return cmp.Compare(accept.weight(y.name), accept.weight(x.name))
	})
	return wanted, accept.weight(identity) > 0
}
