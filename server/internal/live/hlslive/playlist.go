package hlslive

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"
	"time"
)

// A Playlist has the text of a playlist. Several requests share it, so it must not be changed.
type Playlist struct {
	Text   []byte
	Gzip   []byte        // Text, compressed with gzip
	Target time.Duration // the target duration
	Late   bool          // the requested part is missing: no part has been added for a while
}

// gzipWriters reuses gzip writers, which take about a megabyte each.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func newPlaylist(text []byte, target time.Duration) *Playlist {
	var b bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(&b)
	_, _ = z.Write(text) // a Buffer accepts everything
	_ = z.Close()
	return &Playlist{Text: text, Gzip: b.Bytes(), Target: target}
}
