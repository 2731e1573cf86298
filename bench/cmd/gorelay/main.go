// Command gorelay serves one of the relays of package gorelay. Program relay of bench starts it.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/bench/gorelay"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "address")
	kind := flag.String("kind", "copy",
		"copy (each viewer has its own), share (viewers share what was read), or bare (relays nothing)")
	rate := flag.Int("bitrate", 2_150_000, "of bare: bits a second of each stream")
	key := flag.Duration("key", 2*time.Second, "of bare: keyframe interval")
	batch := flag.Duration("batch", 0, "of bare: gather what falls due in this time")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	switch *kind {
	case "copy", "share":
		err = http.Serve(l, &gorelay.Relay{Share: *kind == "share"})
	case "bare":
		err = gorelay.NewBare(*rate, *key, *batch).Serve(l)
	default:
		log.Fatalf("-kind %q", *kind)
	}
	log.Fatal(err)
}
