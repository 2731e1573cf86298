package files

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/chunk"
)

type handler struct {
	key, name string
	make      func(dir string) (http.Handler, error)
}

var handlers = []handler{
	{"fileserver", "http.FileServer", newFileServer},
	{"millrace", "chunk.FileServer", newMillrace},
	{"naive", "io.CopyBuffer(w, f, nil)", each(copyNaively)},
	{"length", "the same, and Content-Length", each(copyWithLength)},
	{"wrapped-copy", "behind a middleware: io.Copy", withLogging(each(copyWithLength))},
	{"wrapped-millrace", "behind a middleware: chunk.FileServer", withLogging(newMillrace)},
}

func newMillrace(dir string) (http.Handler, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return chunk.FileServer(root), nil
}

func newFileServer(dir string) (http.Handler, error) { return http.FileServer(http.Dir(dir)), nil }

func each(send func(w http.ResponseWriter, r *http.Request, f *os.File)) func(string) (http.Handler,
	error) {
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

// withLogging puts a logging middleware, which discards its output, in front of each handler.
func withLogging(inner func(string) (http.Handler, error)) func(string) (http.Handler, error) {
	return func(dir string) (http.Handler, error) {
		h, err := inner(dir)
		if err != nil {
			return nil, err
		}
		// If a Logger's output is io.Discard itself, the Logger skips all work.
		l := log.New(struct{ io.Writer }{io.Discard}, "", log.LstdFlags)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			lw := &loggedResponse{ResponseWriter: w, status: http.StatusOK}
			h.ServeHTTP(lw, r)
			l.Printf("%s %s %s %d %d %v", r.RemoteAddr, r.Method, r.URL.Path, lw.status, lw.bytes,
				time.Since(began))
		}), nil
	}
}

// A loggedResponse wraps a response as most middlewares do: it records the status and counts the
// bytes, and has no ReadFrom method.
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

// Unwrap implements the interface that http.ResponseController uses.
func (w *loggedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// start serves the handler in a child process, so that the measured CPU time and memory do not
// include the benchmark itself.
func (h handler) start(ctx context.Context, _, root string) (*measure.Server, error) {
	addr, err := measure.FreeAddr()
	if err != nil {
		return nil, err
	}
	cmd, err := measure.Self(serverChild, h.key, addr, root)
	if err != nil {
		return nil, err
	}
	return measure.StartServer(ctx, addr, cmd)
}

var serverChild = measure.RegisterChild("files-server", func(args []string) error {
	i := slices.IndexFunc(handlers, func(h handler) bool { return h.key == args[0] })
	if i < 0 {
		return fmt.Errorf("files: no handler %q", args[0])
	}
	files, err := handlers[i].make(args[2])
	if err != nil {
		return err
	}
	// Discard the log. Clients that disconnect at the end of a turn may cause errors.
	srv := &http.Server{Addr: args[1], Handler: files, ErrorLog: log.New(io.Discard, "", 0)}
	return srv.ListenAndServe()
})
