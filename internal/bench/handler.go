package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/chunk"
)

// A fileHandler is a way to serve the files of a directory, used as its documentation says.
type fileHandler struct {
	http.Handler
	connContext func(context.Context, net.Conn) context.Context // of the http.Server; may be nil
	close       func() error
}

// The names of the handlers in orders; the first is ours.
var fileHandlers = []struct{ key, name string }{
	{"millrace", "chunk.FileServer"},
	{"fileserver", "http.FileServer"},
	{"copybuffer", "handler with io.CopyBuffer"},
}

func (o order) handler() (fileHandler, error) {
	nothing := func() error { return nil }
	switch o.Handler {
	case "millrace":
		root, err := os.OpenRoot(o.Dir)
		if err != nil {
			return fileHandler{}, err
		}
		files := chunk.FileServer(root)
		return fileHandler{files, chunk.ConnContext, root.Close}, nil
	case "fileserver":
		return fileHandler{http.FileServer(http.Dir(o.Dir)), nil, nothing}, nil
	case "copybuffer":
		return fileHandler{copyBuffer(o.Dir), nil, nothing}, nil
	}
	return fileHandler{}, fmt.Errorf("bench: no file server is called %q", o.Handler)
}

// copyBuffer is what is written first: open the file and copy it. A response of no known length leaves in chunks.
func copyBuffer(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(filepath.Join(dir, filepath.Base(r.URL.Path)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer f.Close()
		_, _ = io.CopyBuffer(w, f, nil) // who went away is no news
	})
}
