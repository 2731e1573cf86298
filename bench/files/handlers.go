package files

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/chunk"
)

// A handler is a way to serve the files of a directory from Go.
type handler struct {
	key, name string
	make      func(dir string) (http.Handler, error)
}

var handlers = []handler{
	{"fileserver", "http.FileServer", newFileServer},
	{"millrace", "chunk.FileServer", newMillrace},
	{"naive", "io.CopyBuffer(w, f, nil)", each(copyNaively)},
	{"length", "the same, and Content-Length", each(copyWithLength)},
	{"loop", "loop of Read and Write, 64 KiB", each(copyInLoop)},
	{"wrapped-copy", "behind a middleware: io.Copy", wrapped(each(copyWithLength))},
	{"wrapped-fileserver", "behind a middleware: http.FileServer", wrapped(newFileServer)},
	{"wrapped-millrace", "behind a middleware: chunk.FileServer", wrapped(newMillrace)},
}

func newMillrace(dir string) (http.Handler, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return chunk.FileServer(root), nil
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

// A goServer is a handler served by net/http in a process of its own, so that CPU time and memory are the server's alone.
type goServer struct{ handler }

func (g goServer) Key() string  { return g.key }
func (g goServer) Name() string { return g.name }
func (g goServer) Check() error { return nil }

// Start implements contender.
func (g goServer) Start(ctx context.Context, _ string, s site) (*measure.Server, error) {
	addr, err := measure.FreeAddr()
	if err != nil {
		return nil, err
	}
	cmd, err := measure.Self(goServerChild, g.key, addr, s.Dir, s.Cert, s.Key)
	if err != nil {
		return nil, err
	}
	return measure.StartServer(ctx, addr, cmd)
}

var goServerChild = measure.RegisterChild("files-server", func(args []string) error {
	for _, h := range handlers {
		if h.key == args[0] {
			return h.serve(args[1], site{Dir: args[2], Cert: args[3], Key: args[4]})
		}
	}
	return fmt.Errorf("files: no handler %q", args[0])
})

func (h handler) serve(addr string, s site) error {
	files, err := h.make(s.Dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: files, ErrorLog: log.New(io.Discard, "", 0)} // clients leave at the end of a turn
	if s.Cert == "" {
		return srv.Serve(l)
	}
	srv.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13}
	return srv.ServeTLS(l, s.Cert, s.Key)
}
