package store

import (
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"os"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// FilesPath is the prefix of the paths of files.
const FilesPath = "/files/"

const errNoRoot = "no files are served here: that takes millrace serve --root DIR"

// FilesConfig selects a directory of static files, and configures how a [Files] serves them.
type FilesConfig struct {
	Root          string // directory of the files
	Listing       bool   // list directories without an index.html
	Precompressed bool   // send name.br, name.zst or name.gz for name if the client accepts it
	// DropBehind is a length in bytes. A response of at least this length does not stay in the page
	// cache. 0 means that all responses may stay.
	DropBehind int64
	Downloads  DownloadConfig
}

// Files serves the files in a directory. A nil Files has no files.
type Files struct {
	downloads *downloads
	log       *slog.Logger
	listing   bool
	root      *os.Root
	handler   *chunk.FileHandler
	answer    http.Handler // passes the path after FilesPath to handler

	answered statusCounts
}

// OpenFiles opens the directory of static files that cfg configures. The caller must call Close on
// the result.
func OpenFiles(cfg FilesConfig, budget *answer.Budget) (*Files, error) {
	// The playlists of recordings have this extension.
	if err := mime.AddExtensionType(".m3u8", "application/vnd.apple.mpegurl"); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("--root: %w", err)
	}
	f := &Files{
		downloads: newDownloads("files", cfg.Downloads, budget), log: cfg.Downloads.Log,
		listing: cfg.Listing, root: root,
	}
	opts := []chunk.FileOption{
		chunk.Listing(cfg.Listing),
		chunk.OnServed(f.served),
	}
	if cfg.Precompressed {
		opts = append(opts, chunk.Precompressed())
	}
	if cfg.DropBehind > 0 {
		opts = append(opts, chunk.DropBehind(cfg.DropBehind))
	}
	f.handler = chunk.FileServer(root, opts...)
	// StripPrefix keeps the slash at the start of the path.
	f.answer = http.StripPrefix(FilesPath[:len(FilesPath)-1], f.handler)
	return f, nil
}

// ServeHTTP serves GET and HEAD requests for /files/NAME.
func (f *Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f == nil {
		refuse.Write(w, http.StatusNotFound, errNoRoot)
		return
	}
	if err := f.downloads.acquire(); err != nil {
		refuse.Write(w, refuse.SetHeader(w.Header(), err), err.Error())
		return
	}
	defer f.downloads.Release()
	p, err := f.downloads.begin(w, r)
	if err != nil {
		f.downloads.budget.RefuseFull(w, r, err)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	defer f.downloads.end(p, r)
	f.answer.ServeHTTP(p, r)
}

// served counts and logs a request. The file handler calls it at the end of each request.
func (f *Files) served(r *http.Request, sent chunk.Report, status int) {
	f.answered.add(status)
	log := f.log
	if !log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	attrs := []any{
		"client", r.RemoteAddr, "method", r.Method, "path",
		FilesPath[:len(FilesPath)-1] + r.URL.Path, "status", status,
		"bytes", sent.Bytes, "sendfile", sent.Sendfile, "splice", sent.Splice, "copied",
		sent.Copied,
	}
	if err := sent.FastPath(); err != nil && kernelSends(r) {
		attrs = append(attrs, "slow", err)
	}
	log.Log(r.Context(), slog.LevelDebug, "file served", attrs...)
}

// SetLimit sets the maximum number of concurrent downloads. If the maximum is lowered, running
// downloads continue.
func (f *Files) SetLimit(n int) {
	if f != nil {
		f.downloads.setLimit(n)
	}
}

// Held returns the number of downloads in progress.
func (f *Files) Held() int {
	if f == nil {
		return 0
	}
	return f.downloads.Held()
}

// Drain makes f refuse new requests, and returns a channel that is closed when all running requests
// have ended.
func (f *Files) Drain() <-chan struct{} {
	if f == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return f.downloads.Close()
}

// Close closes the directory.
func (f *Files) Close() error {
	if f == nil {
		return nil
	}
	return f.root.Close()
}

// Offer returns "off" if f is nil, "listed" if f lists directories, and "named" otherwise.
func (f *Files) Offer() string {
	switch {
	case f == nil:
		return "off"
	case f.listing:
		return "listed"
	}
	return "named"
}

// BlockBytes returns the size in bytes of the memory blocks that downloads use.
func (f *Files) BlockBytes() int64 {
	if f == nil {
		return 0
	}
	return f.downloads.blocks.Stats().InUse
}

// FilesStats has the counters of Files.
type FilesStats struct {
	Requests  map[string]int64 // answered requests by class of status ("1xx" to "5xx")
	Sent      chunk.Report
	Downloads int   // at present
	Refused   int64 // refused because of the limit
	Stalled   int64 // ended because the client accepted no data
}

// Stats returns the counters of f. f must not be nil.
func (f *Files) Stats() FilesStats {
	return FilesStats{
		Requests: f.answered.byClass(), Sent: f.handler.Sent(), Downloads: f.downloads.Held(),
		Refused: f.downloads.Refused(), Stalled: f.downloads.stalled.Load(),
	}
}
