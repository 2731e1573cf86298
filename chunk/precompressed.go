package chunk

import (
	"cmp"
	"io/fs"
	"slices"
	"time"
)

// An encoding is a compression format that a precompressed file may have, such as gzip.
type encoding struct {
	name string // name in Accept-Encoding
	ext  string
}

// encodings lists the encodings in the server's order of preference. Files in the encoding br are
// the smallest.
var encodings = []encoding{{"br", ".br"}, {"zstd", ".zst"}, {"gzip", ".gz"}}

type encodedFile struct {
	encoding
	file contentFile // nil if there is none
	info fs.FileInfo
}

// openEncoded opens a precompressed version of the named file. It chooses the version that the
// client prefers, according to the values of the Accept-Encoding headers in accept. If there is no
// such version, found.file is nil. Otherwise the caller closes found.file. The result plain reports
// whether the client also accepts the original file.
//
// openEncoded ignores a version that is older than the original file, because the file has changed
// since.
func (d fileRoot) openEncoded(name string, original fs.FileInfo,
	accept []string) (found encodedFile, plain bool) {
	wanted, plain := choose(parseAccept(accept), encodings)
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

// olderBySeconds reports whether file a is older than file b. It compares whole seconds, because
// archives and programs that copy files do not keep fractions of a second.
func olderBySeconds(a, b fs.FileInfo) bool {
	return a.ModTime().Truncate(time.Second).Before(b.ModTime().Truncate(time.Second))
}

// choose returns the available encodings that the client accepts (see AcceptsEncoding), in the
// order of the client's weights, highest first. The result plain reports whether the client accepts
// an unencoded response.
//
// If the request has no Accept-Encoding header, choose returns no encodings, and plain is true.
func choose(accept acceptance, available []encoding) (wanted []encoding, plain bool) {
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
