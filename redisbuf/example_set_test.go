package redisbuf_test

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/redisbuf"
)

// The kernel sends a file. IfAbsent does not replace an existing value.
func ExampleClient_SetFile() {
	var c *redisbuf.Client // from New
	f, err := os.Open("film.mp4")
	if err != nil {
		log.Print(err)
		return
	}
	defer f.Close()
	err = c.SetFile(context.Background(), "film", f, redisbuf.Expire(time.Hour),
		redisbuf.IfAbsent())
	var sent *redisbuf.SentError
	switch {
	case err == redis.Nil:
		log.Print("there is one already")
	case errors.As(err, &sent):
		log.Print("whether it was set is not known: ", err)
	case err != nil:
		log.Print("it was not set: ", err)
	}
}

// The body of a request is sent to Redis without being collected first. Its length must be known.
func ExampleClient_SetFrom() {
	var c *redisbuf.Client // from New
	http.HandleFunc("PUT /values/{key}", func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > 32<<20 {
			http.Error(w, "a length of at most 32 MiB is needed", http.StatusLengthRequired)
			return
		}
		if err := c.SetFrom(r.Context(), r.PathValue("key"), r.Body, r.ContentLength); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
}

// A received chain is sent without a copy. SetChain borrows it.
func ExampleClient_SetChain() {
	var c *redisbuf.Client // from New
	var r *millrace.Reader // from millrace.NewReader(conn)
	var packet millrace.Chain
	defer packet.Release()
	if err := r.ReadChain(&packet, 100_000); err != nil {
		log.Print(err)
		return
	}
	if err := c.SetChain(context.Background(), "packet", &packet, redisbuf.KeepTTL()); err != nil {
		log.Print(err)
	}
}
