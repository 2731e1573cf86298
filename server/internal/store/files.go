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

// FilesPath is where the files are.
const FilesPath = "/files/"

// errNoRoot says why there is nothing at FilesPath.
const errNoRoot = "no files are served here: that takes millrace serve --root DIR"

// FilesConfig says which files are served, and how.
type FilesConfig struct {
	Root          string // the directory
	Listing       bool   // directories without an index.html are listed
	Precompressed bool   // name.br, name.zst or name.gz is sent for name to clients that accept it
	// Responses of at least this many bytes leave the page cache as it was; 0: none do.
	DropBehind int64
	Downloads  DownloadConfig
}

// Files serves the files under a directory. A nil Files has none.
type Files struct {
	downloads *downloads
	log       *slog.Logger
	listing   bool // directories without an index.html are listed
	root      *os.Root
	handler   *chunk.FileHandler
	answer    http.Handler // handler, for paths that begin with FilesPath

	answered statusCounts
}

// OpenFiles returns the files of a directory. The call that ends their life is Close.
func OpenFiles(cfg FilesConfig, budget *answer.Budget) (*Files, error) {
	// Which recordings have.
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
	// The path keeps its leading slash.
	f.answer = http.StripPrefix(FilesPath[:len(FilesPath)-1], f.handler)
	return f, nil
}

// ServeHTTP answers GET and HEAD /files/NAME.
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

// served is called after each request.
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

// SetLimit replaces how many downloads there may be at a time. Those above a lower limit stay.
func (f *Files) SetLimit(n int) {
	if f != nil {
		f.downloads.setLimit(n)
	}
}

// Held returns how many downloads there are.
func (f *Files) Held() int {
	if f == nil {
		return 0
	}
	return f.downloads.Held()
}

// Drain refuses further requests, and returns a channel that is closed when all present ones have
// ended.
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

// Offer describes FilesPath in a word: no files ("off"), files without lists ("named"), or files
// with lists ("listed").
func (f *Files) Offer() string {
	switch {
	case f == nil:
		return "off"
	case f.listing:
		return "listed"
	}
	return "named"
}

// BlockBytes returns the bytes of the blocks that downloads hold.
func (f *Files) BlockBytes() int64 {
	if f == nil {
		return 0
	}
	return f.downloads.blocks.Stats().InUse
}

// FilesStats has the counters of Files.
type FilesStats struct {
	Requests  map[string]int64 // that were answered, by the first digit of the status
	Sent      chunk.Report
	Downloads int   // at present
	Refused   int64 // because there were too many at a time
	Stalled   int64 // cut because the client took nothing
}

// Stats returns what f, which is not nil, has done.
func (f *Files) Stats() FilesStats {
	return FilesStats{
		Requests: f.answered.byClass(), Sent: f.handler.Sent(), Downloads: f.downloads.Held(),
		Refused: f.downloads.Refused(), Stalled: f.downloads.stalled.Load(),
	}
}
