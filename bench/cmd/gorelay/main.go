// Command gorelay serves one of the relays of package gorelay. The relay program of bench starts
// it.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"

	"github.com/millrace-io/millrace/bench/gorelay"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081", "address")
	kind := flag.String("kind", "copy",
		"copy (each viewer has its own), share (viewers share what was read), or bare (one read and one write per beat)")
	beat := flag.Duration("beat", 0, "bare: time between two reads of a publisher; 0 to read at once")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	switch *kind {
	case "copy", "share":
		err = http.Serve(l, &gorelay.Relay{Share: *kind == "share"})
	case "bare":
		err = gorelay.NewBare(*beat).Serve(l)
	default:
		log.Fatalf("-kind %q", *kind)
	}
	log.Fatal(err)
}
