package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/chunk"
)

// filesPath is where the files under --root are.
const filesPath = "/files/"

// errNoRoot says why there is nothing at filesPath.
const errNoRoot = "no files are served here: that takes millrace serve --root DIR"

// A shelf serves the files under a directory, and counts what it does.
type shelf struct {
	server  *Server
	root    *os.Root
	handler *chunk.FileHandler
	answer  http.Handler // handler, for paths that begin with filesPath

	tuner     *chunk.Tuner // moves the number of cold readers; nil if that is fixed
	stopTuner func()       // and waits until it has stopped

	downloads *places // of requests that are being answered

	answered [statusClasses]atomic.Int64 // by the first digit of their status
	stalled  atomic.Int64                // cut because the client took nothing
}

// tunedColdReaders is how many cold readers a Tuner may try: as many as a disk of many flash chips can use.
const tunedColdReaders = 64

// statusClasses is 1 more than the first digit of the highest status.
const statusClasses = 6

// openShelf returns nil if the configuration names no root. The call that ends a shelf's life is close.
func openShelf(s *Server) (*shelf, error) {
	cfg := &s.cfg
	if cfg.Root == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("--root: %w", err)
	}
	f := &shelf{server: s, root: root, downloads: newPlaces(cfg.MaxDownloads,
		"%d files are being sent already, which is as many as may be (--max-downloads)")}
	opts := []chunk.FileOption{
		// A download that broke off goes on only if the client can tell that the file is the same.
		chunk.StatETags(),
		chunk.Listing(cfg.FilesListing),
		chunk.OpenFiles(cfg.FilesOpen),
		chunk.ColdReaders(cfg.FilesColdReaders),
		chunk.SendBuffer(int(cfg.FilesSendBuffer)),
		chunk.OnServed(f.served),
	}
	if cfg.FilesTune {
		f.tune()
		opts = append(opts, chunk.ColdReadersBy(f.tuner))
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

// tune has the number of cold readers moved from now on. Neither size nor depth of chunks mean anything to files that are
// sent by the kernel.
func (f *shelf) tune() {
	const size, depth = 64 << 10, 1
	f.tuner = chunk.NewTuner(
		chunk.StartAt(chunk.Setting{Workers: f.server.cfg.FilesColdReaders, ChunkSize: size, Depth: depth}),
		chunk.WorkersBetween(1, max(tunedColdReaders, f.server.cfg.FilesColdReaders)),
		chunk.SizeBetween(size, size), chunk.DepthBetween(depth, depth),
	)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.tuner.Run(ctx) })
	f.stopTuner = func() {
		stop()
		running.Wait()
	}
}

// files answers GET and HEAD /files/NAME.
func (s *Server) files(w http.ResponseWriter, r *http.Request) {
	f := s.shelf
	if f == nil {
		refuse(w, http.StatusNotFound, errNoRoot)
		return
	}
	if err := f.downloads.enter(); err != nil {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer f.downloads.leave()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	watch := newStallWatch(w, r, s.cfg.StallTimeout)
	defer s.endWatch(watch, r, &f.stalled)
	f.answer.ServeHTTP(watch.w, r)
}

// served is called after each request.
func (f *shelf) served(r *http.Request, sent chunk.Report, status int) {
	f.answered[min(max(status/100, 0), statusClasses-1)].Add(1)
	log := f.server.log
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

// count returns how many downloads there are.
func (f *shelf) count() int {
	if f == nil {
		return 0
	}
	return f.downloads.count()
}

// drain lets nobody else in, and returns a channel that is closed when all have left.
func (f *shelf) drain() <-chan struct{} {
	if f == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return f.downloads.drain()
}

// close closes the files that nobody uses any more, and the root.
func (f *shelf) close() error {
	if f == nil {
		return nil
	}
	if f.tuner != nil {
		f.stopTuner()
	}
	return errors.Join(f.handler.Close(), f.root.Close())
}

// offer says in a word what a visitor of the page finds at filesPath: nothing ("off"), files whose names have to be
// known ("named"), or lists of them ("listed").
func (f *shelf) offer() string {
	switch {
	case f == nil:
		return "off"
	case f.server.cfg.FilesListing:
		return "listed"
	}
	return "named"
}
