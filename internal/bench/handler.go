package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/plainrelay"
)

// A childHandler is what a child serves: mostly the files of a directory, in a way that its documentation advises.
type childHandler struct {
	http.Handler
	listens bool // the http.Server gets its connections from a chunk.Listener
	close   func() error
}

// plainRelayHandler is the name in orders of a relay that is not ours.
const plainRelayHandler = "plainrelay"

// The names of the file servers in orders; the first is ours.
var fileHandlers = []struct{ key, name string }{
	{"millrace", "chunk.FileServer"},
	{"fileserver", "http.FileServer"},
	{"copybuffer", "handler with io.CopyBuffer"},
}

func (o order) handler() (childHandler, error) {
	nothing := func() error { return nil }
	switch o.Handler {
	case "millrace":
		root, err := os.OpenRoot(o.Dir)
		if err != nil {
			return childHandler{}, err
		}
		files := chunk.FileServer(root)
		return childHandler{files, true, root.Close}, nil
	case "fileserver":
		return childHandler{http.FileServer(http.Dir(o.Dir)), false, nothing}, nil
	case "copybuffer":
		return childHandler{copyBuffer(o.Dir), false, nothing}, nil
	case plainRelayHandler:
		return childHandler{new(plainrelay.Relay), false, nothing}, nil
	}
	return childHandler{}, fmt.Errorf("bench: no handler is called %q", o.Handler)
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
		_, _ = io.CopyBuffer(w, f, nil) // a client that went away is no news
	})
}
