package redisbuf_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/redisbuf"
)

// A Client next to the go-redis client of a program.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	c, err := redisbuf.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	buf := make([]byte, 1<<20)
	if err := c.SetFromBuffer(ctx, "key", buf, redisbuf.Expire(time.Hour)); err != nil {
		log.Fatal(err)
	}
	n, err := c.GetToBuffer(ctx, "key", buf)
	var small *redisbuf.BufferTooSmallError
	switch {
	case err == redis.Nil:
		fmt.Println("no such key")
	case errors.As(err, &small):
		fmt.Println("a buffer of", small.Need, "bytes is needed")
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(n, "bytes")
}

// A chain is filled with pooled blocks. Its owner releases them.
func ExampleClient_GetChain() {
	var c *redisbuf.Client // from New
	var chain millrace.Chain
	defer chain.Release()
	if err := c.GetChain(context.Background(), "key", &chain, 32<<20); err != nil {
		log.Print(err)
		return
	}
	for p := range chain.All() {
		fmt.Println(len(p), "bytes")
	}
}

// net/http serves a value with ranges, without holding it in memory. Its length is the
// Content-Length. Each version has its own key, so the ETag identifies the version, and all ranges
// are of the same version.
func ExampleClient_ReaderAt() {
	var c *redisbuf.Client // from New
	const version = "7"
	http.HandleFunc("/video", func(w http.ResponseWriter, req *http.Request) {
		r, err := c.ReaderAt(req.Context(), "video:"+version)
		switch {
		case err == redis.Nil:
			http.NotFound(w, req)
			return
		case err != nil:
			http.Error(w, "try again later", http.StatusBadGateway)
			return
		}
		defer r.Close()
		w.Header().Set("ETag", strconv.Quote(version))
		http.ServeContent(w, req, "video.mp4", time.Time{}, r)
		if r.Err() != nil {
			panic(http.ErrAbortHandler) // the client must not mistake a part for the whole
		}
	})
}

// A value is copied to a response. GetTo sets the Content-Length. If the copy fails halfway, the
// response must not look complete.
func ExampleClient_GetTo() {
	var c *redisbuf.Client // from New
	http.HandleFunc("/report", func(w http.ResponseWriter, req *http.Request) {
		n, err := c.GetTo(req.Context(), "report", w)
		switch {
		case err == nil:
		case n > 0:
			panic(http.ErrAbortHandler)
		case err == redis.Nil:
			http.NotFound(w, req)
		default:
			http.Error(w, "try again later", http.StatusBadGateway)
		}
	})
}

// A value is sent to a connection after its length.
func ExampleOnLength() {
	var c *redisbuf.Client // from New
	var conn net.Conn
	prefix := redisbuf.OnLength(func(n int64) error {
		return binary.Write(conn, binary.BigEndian, n)
	})
	if _, err := c.GetTo(context.Background(), "key", conn, prefix); err != nil {
		log.Print(err) // the connection may have received a part of the value
	}
}

// A pipeline sends calls of any kind together.
func ExampleClient_Pipeline() {
	var c *redisbuf.Client // from New
	one, two := make([]byte, 1<<20), make([]byte, 1<<20)
	p := c.Pipeline()
	first := p.GetToBuffer("one", one)
	second := p.GetToBuffer("two", two)
	_ = p.Exec(context.Background())
	for _, r := range []*redisbuf.Result{first, second} {
		if r.Err() != nil {
			fmt.Println(r.Err())
		}
	}
}

// Several values share one buffer.
func ExampleClient_MGet() {
	var c *redisbuf.Client // from New
	buf := make([]byte, 1<<20)
	slots := make([]redisbuf.Slot, 2)
	if _, err := c.MGet(context.Background(), []string{"one", "two"}, buf, slots); err != nil {
		log.Print(err)
		return
	}
	for _, s := range slots {
		fmt.Println(len(buf[s.Start:s.End]), "bytes")
	}
}
