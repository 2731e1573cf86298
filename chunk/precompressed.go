package chunk

import (
	"cmp"
	"os"
	"slices"
	"time"
)

// An encoding is a compression format that a precompressed file may have, such as gzip.
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

// openEncoded opens the precompressed file, such as name.gz, that the client prefers to the file
// with the given name. The caller closes found.file, which is nil if there is no such precompressed
// file. A precompressed file that is older than the original file is ignored, because it was made
// from another version. plain reports whether the client also accepts the original file.
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

// choose returns the encodings that the client accepts, in the order of the client's weights,
// highest first. It omits each encoding with a lower weight than a response without encoding
// (identity). plain reports whether the client accepts a response without encoding.
//
// If the request has no Accept-Encoding header, choose returns no encodings, and plain is true.
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
