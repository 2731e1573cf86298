package server

import (
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/server/internal/limit"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// filesPath is where the files under --root are.
const filesPath = "/files/"

// errNoRoot says why there is nothing at filesPath.
const errNoRoot = "no files are served here: that takes millrace serve --root DIR"

// A fileService serves the files under a directory, and counts what it does.
type fileService struct {
	budget  *budget
	log     *slog.Logger
	listing bool // directories without an index.html are listed
	root    *os.Root
	handler *chunk.FileHandler
	answer  http.Handler // handler, for paths that begin with filesPath

	downloads *limit.Limiter // of requests that are being answered

	answered statusCounts
	stalled  atomic.Int64 // cut because the client took nothing
}

// openFiles returns nil if the configuration names no root. The call that ends the service's life is close.
func openFiles(cfg *Config, budget *budget) (*fileService, error) {
	if cfg.Root == "" {
		return nil, nil
	}
	if err := mime.AddExtensionType(".m3u8", playlistType); err != nil { // which recordings have
		return nil, err
	}
	root, err := os.OpenRoot(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("--root: %w", err)
	}
	f := &fileService{budget: budget, log: cfg.Log, listing: cfg.FilesListing, root: root,
		downloads: limit.New(cfg.MaxDownloads, tooMany("files", "sent", cfg.MaxDownloads, "downloads"), refuse.ErrShutdown)}
	opts := []chunk.FileOption{
		chunk.Listing(cfg.FilesListing),
		chunk.OnServed(f.served),
	}
	if cfg.FilesPrecompressed {
		opts = append(opts, chunk.Precompressed())
	}
	if cfg.FilesDropBehind > 0 {
		opts = append(opts, chunk.DropBehind(cfg.FilesDropBehind))
	}
	f.handler = chunk.FileServer(root, opts...)
	// The path keeps its leading slash.
	f.answer = http.StripPrefix(filesPath[:len(filesPath)-1], f.handler)
	return f, nil
}

// serve answers GET and HEAD /files/NAME. f may be nil.
func (f *fileService) serve(w http.ResponseWriter, r *http.Request) {
	if f == nil {
		refuse.Write(w, http.StatusNotFound, errNoRoot)
		return
	}
	if err := f.budget.acquire(f.downloads); err != nil {
		refuse.Write(w, refuse.SetHeader(w.Header(), err), err.Error())
		return
	}
	defer f.downloads.Release()
	p, err := f.budget.beginDownload(w, r, f.budget.fileBlocks)
	if err != nil {
		f.budget.refuseFull(w, r, err)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	defer f.budget.endDownload(p, r, &f.stalled)
	f.answer.ServeHTTP(p, r)
}

// served is called after each request.
func (f *fileService) served(r *http.Request, sent chunk.Report, status int) {
	f.answered.add(status)
	log := f.log
	if !log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	attrs := []any{
		"client", r.RemoteAddr, "method", r.Method, "path", filesPath[:len(filesPath)-1] + r.URL.Path, "status", status,
		"bytes", sent.Bytes, "sendfile", sent.Sendfile, "splice", sent.Splice, "copied", sent.Copied,
	}
	if err := sent.FastPath(); err != nil && kernelSends(r) {
		attrs = append(attrs, "slow", err)
	}
	log.Log(r.Context(), slog.LevelDebug, "file served", attrs...)
}

// count returns how many downloads there are. f may be nil.
func (f *fileService) count() int {
	if f == nil {
		return 0
	}
	return f.downloads.Held()
}

// drain refuses further requests, and returns a channel that is closed when all present ones have ended. f may be nil.
func (f *fileService) drain() <-chan struct{} {
	if f == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return f.downloads.Close()
}

// close closes the root.
func (f *fileService) close() error {
	if f == nil {
		return nil
	}
	return f.root.Close()
}

// offer says in a word what a visitor of the page finds at filesPath: nothing ("off"), files whose names have to be
// known ("named"), or lists of them ("listed").
func (f *fileService) offer() string {
	switch {
	case f == nil:
		return "off"
	case f.listing:
		return "listed"
	}
	return "named"
}

// collect reports the metrics of files.
func (f *fileService) collect(c scrape) {
	sent := f.handler.Sent()
	c.counters("files_requests_total", "Requests for files that were answered, by the first digit of the status.",
		"status", f.answered.byClass())
	c.counters("files_bytes_total", "Bytes of files that were sent: by sendfile, or copied through the server's memory.",
		"path", map[string]int64{"sendfile": sent.Sendfile, "copied": sent.Copied})
	c.gauge("files_downloads", "Requests for files that are being answered.", int64(f.count()))
	c.counter("files_refused_total", "Requests for files that were refused because there were too many at a time.",
		f.downloads.Refused())
	c.counter("files_stalled_total", "Downloads that were cut because the client took nothing for the stall timeout.",
		f.stalled.Load())
}
