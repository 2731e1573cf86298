// Command files serves a directory behind a middleware that logs requests. Files are still sent
// with sendfile, because the middleware has an Unwrap method.
//
//	go run ./files /usr/share/doc
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (c *statusWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *statusWriter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, start := &statusWriter{w, http.StatusOK}, time.Now()
		next.ServeHTTP(c, r)
		log.Println(r.Method, r.URL.Path, c.status, time.Since(start))
	})
}

func main() {
	root, err := os.OpenRoot(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":7004", logged(chunk.FileServer(root))))
}
