package chunk

import (
	"cmp"
	"io/fs"
	"slices"
	"time"
)

// An encoding is a compression format of a precompressed file.
type encoding struct {
	name string // name in Accept-Encoding
	ext  string
}

// encodings lists the encodings in the server's order of preference.
var encodings = []encoding{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

type encodedFile struct {
	encoding
	file contentFile // nil if there is none
	info fs.FileInfo
}

// openEncoded opens the precompressed version of the named file that the client prefers. The
// argument accept contains the Accept-Encoding headers. The caller must close found.file, which is
// nil if there is no suitable version. The result plain reports whether the client also accepts the
// original file.
//
// openEncoded ignores a version that is older than the original file.
func (d fileRoot) openEncoded(name string, original fs.FileInfo,
	accept []string) (found encodedFile, plain bool) {
	wanted, plain := chooseEncodings(parseAccept(accept), encodings)
	for _, e := range wanted {
		f, info, err := d.open(name + e.ext)
		if err != nil {
			continue
		}
		if !olderBySeconds(info, original) {
			return encodedFile{e, f, info}, plain
		}
		_ = f.Close()
	}
	return encodedFile{}, plain
}

// olderBySeconds reports whether file a is older than file b. It ignores fractions of a second,
// which archives and copying programs often drop.
func olderBySeconds(a, b fs.FileInfo) bool {
	return a.ModTime().Truncate(time.Second).Before(b.ModTime().Truncate(time.Second))
}

// chooseEncodings returns the encodings that the client accepts, by descending weight. plain
// reports whether the client accepts an unencoded response. Without an Accept-Encoding header,
// wanted is empty.
func chooseEncodings(accept acceptance, available []encoding) (wanted []encoding, plain bool) {
	if accept.absent {
		return nil, true
	}
	for _, e := range available {
		if accept.accepts(e.name) {
			wanted = append(wanted, e)
		}
	}
	slices.SortStableFunc(wanted, func(x, y encoding) int {
		return cmp.Compare(accept.weight(y.name), accept.weight(x.name))
	})
	return wanted, accept.weight(identity) > 0
}
