// Command sidecar serves the values of a Redis server over HTTP: GET /KEY returns the value of KEY,
// and PUT /KEY sets it. The kernel moves GET values between the sockets. PUT values pass through
// one pooled block.
//
//	go run ./sidecar localhost:6379
package main

import (
	"errors"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/redisbuf"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: sidecar ADDRESS")
	}
	c, err := redisbuf.New(redis.NewClient(&redis.Options{Addr: os.Args[1]}))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("GET /{key}", func(w http.ResponseWriter, r *http.Request) {
		n, err := c.GetTo(r.Context(), r.PathValue("key"), w) // sets Content-Length
		switch {
		case err == nil:
		case errors.Is(err, redis.Nil):
			http.NotFound(w, r)
		case n > 0:
			panic(http.ErrAbortHandler) // the client sees that the value is incomplete
		default:
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	http.HandleFunc("PUT /{key}", func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 {
			http.Error(w, "a Content-Length is required", http.StatusLengthRequired)
			return
		}
		switch err := c.SetFrom(r.Context(), r.PathValue("key"), r.Body, r.ContentLength); {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.As(err, new(*redisbuf.ReaderError)): // a part of the value; the key is unchanged
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	server := http.Server{Addr: "localhost:8081", WriteTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}
