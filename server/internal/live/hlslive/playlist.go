package hlslive

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"
	"time"
)

// A Playlist is the text of a playlist. It is shared, and never changes.
type Playlist struct {
	Text   []byte
	Gzip   []byte        // Text, compressed
	Target time.Duration // the longest segment
	Late   bool          // it lacks the requested part, because nothing new came for a while
}

// gzipWriters are expensive to make: each has about a megabyte.
var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// newPlaylist returns the playlist with a text.
func newPlaylist(text []byte, target time.Duration) *Playlist {
	var b bytes.Buffer
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	z.Reset(&b)
	_, _ = z.Write(text) // a Buffer takes all
	_ = z.Close()
	return &Playlist{Text: text, Gzip: b.Bytes(), Target: target}
}
