package chunk

import (
	"cmp"
	"os"
	"slices"
	"time"
)

// An encoding is an encoding in which a precompressed file may exist.
type encoding struct {
	name string // name in Accept-Encoding
	ext  string // extension of the encoded file
}

// encodings are in the order of preference: br has the smallest files.
var encodings = []encoding{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

// An encodedFile is an open file that holds the encoded bytes of another file.
type encodedFile struct {
	encoding
	file *os.File // may be nil
	info os.FileInfo
}

// openEncoded opens the encoded file that the client prefers to the file itself, if there is one.
// The caller closes it. plain reports whether the file itself is acceptable. openEncoded skips an
// encoded file that is older than the file, because it was made of another version.
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

// olderBySeconds compares modification times in whole seconds, because archives and copies keep
// only those.
func olderBySeconds(a, b os.FileInfo) bool {
	return a.ModTime().Truncate(time.Second).Before(b.ModTime().Truncate(time.Second))
}

// choose returns the encodings that the client wants at least as much as the file itself, the most
// wanted one first. plain reports whether the file itself is acceptable.
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
