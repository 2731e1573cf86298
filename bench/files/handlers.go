package files

import (
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// A handler is a way to serve the files of a directory from Go.
type handler struct {
	key, name string
	make      func(dir string) (http.Handler, error)
	tuned     bool // the http.Server has a chunk.Listener, as its documentation says
}

var handlers = []handler{
	{key: "millrace", name: "chunk.FileServer", make: newMillrace, tuned: true},
	{key: "millrace-dropin", name: "chunk.FileServer, without Listener", make: newMillrace},
	{key: "millrace-tuned", name: "chunk.FileServer, SendBuffer(0)", make: newMillraceNarrow, tuned: true},
	{key: "fileserver", name: "http.FileServer", make: newFileServer},
	{key: "naive", name: "io.CopyBuffer(w, f, nil)", make: each(copyNaively)},
	{key: "length", name: "the same, and Content-Length", make: each(copyWithLength)},
	{key: "loop", name: "loop of Read and Write, 64 KiB", make: each(copyInLoop)},
	{key: "copy", name: "chunk.Copy", make: each(copyMillrace), tuned: true},
	{key: "wrapped-copy", name: "wrapped: io.Copy", make: wrapped(each(copyWithLength))},
	{key: "wrapped-fileserver", name: "wrapped: http.FileServer", make: wrapped(newFileServer)},
	{key: "wrapped-millrace", name: "wrapped: chunk.FileServer", make: wrapped(newMillrace), tuned: true},
}

func newMillrace(dir string) (http.Handler, error) { return newMillraceWith(dir) }

func newMillraceNarrow(dir string) (http.Handler, error) {
	return newMillraceWith(dir, chunk.SendBuffer(0))
}

func newMillraceWith(dir string, opts ...chunk.FileOption) (http.Handler, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return chunk.FileServer(root, opts...), nil
}

func newFileServer(dir string) (http.Handler, error) { return http.FileServer(http.Dir(dir)), nil }

// each is a handler that opens the file and has send do the rest.
func each(send func(w http.ResponseWriter, r *http.Request, f *os.File)) func(string) (http.Handler, error) {
	return func(dir string) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f, err := os.Open(filepath.Join(dir, filepath.Base(r.URL.Path)))
			if err != nil {
				http.NotFound(w, r)
				return
			}
			defer f.Close()
			send(w, r, f)
		}), nil
	}
}

func copyNaively(w http.ResponseWriter, _ *http.Request, f *os.File) { io.CopyBuffer(w, f, nil) }

func copyWithLength(w http.ResponseWriter, _ *http.Request, f *os.File) {
	info, err := f.Stat()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	io.CopyBuffer(w, f, nil)
}

func copyInLoop(w http.ResponseWriter, _ *http.Request, f *os.File) {
	buf := make([]byte, 64*1024)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			w.Write(buf[:n])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
}

func copyMillrace(w http.ResponseWriter, r *http.Request, f *os.File) { chunk.Copy(r.Context(), w, f) }

// wrapped puts a handler behind a middleware that logs, to nowhere.
func wrapped(inner func(string) (http.Handler, error)) func(string) (http.Handler, error) {
	return func(dir string) (http.Handler, error) {
		h, err := inner(dir)
		if err != nil {
			return nil, err
		}
		// Not io.Discard itself, for which a Logger does no work at all.
		l := log.New(struct{ io.Writer }{io.Discard}, "", log.LstdFlags)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			lw := &loggedResponse{ResponseWriter: w, status: http.StatusOK}
			h.ServeHTTP(lw, r)
			l.Printf("%s %s %s %d %d %v", r.RemoteAddr, r.Method, r.URL.Path, lw.status, lw.bytes, time.Since(began))
		}), nil
	}
}

// A loggedResponse is what most middlewares make of a response: it has seen
// the status and counted the bytes, and has lost its ReadFrom.
type loggedResponse struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *loggedResponse) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *loggedResponse) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *loggedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }
