package chunk_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/chunk"
)

// lineKey is the key of a request's logLine in its context.
type lineKey struct{}

// A logLine is what is known of an answer when it is over.
type logLine struct {
	sent   chunk.Report
	status int
}

// logEach writes a line for each request that next answers. It wraps no response, and so it hides no connection.
func logEach(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := new(logLine)
		defer func() { // also when the answer is given up
			fmt.Printf("%s %s %d: %d bytes, %d by sendfile\n",
				r.Method, r.URL.Path, line.status, line.sent.Bytes, line.sent.Sendfile)
		}()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), lineKey{}, line)))
	})
}

// A middleware that writes an access log learns from OnServed which way the bytes went: it puts a place for that into the
// request's context. The request may have got another URL in between, but its context has the place still.
func ExampleOnServed_accessLog() {
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "a.bin"), make([]byte, 32<<10), 0o644); err != nil {
		log.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()

	files := chunk.FileServer(root, chunk.OnServed(func(r *http.Request, sent chunk.Report, status int) {
		if line, ok := r.Context().Value(lineKey{}).(*logLine); ok {
			line.sent, line.status = sent, status
		}
	}))
	defer files.Close()
	server := httptest.NewServer(logEach(http.StripPrefix("/files", files)))
	for _, name := range []string{"/files/a.bin", "/files/b.bin"} {
		res, err := http.Get(server.URL + name)
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	server.Close() // waits for the last line
	// Output:
	// GET /files/a.bin 200: 32768 bytes, 32768 by sendfile
	// GET /files/b.bin 404: 0 bytes, 0 by sendfile
}
