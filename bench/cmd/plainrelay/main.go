// Command plainrelay is a relay as it is written with net/http: see internal/plainrelay.
package main

import (
	"flag"
	"log"
	"net/http"

	"github.com/millrace-io/millrace/internal/plainrelay"
)

func main() {
	var r plainrelay.Relay
	listen := flag.String("listen", "127.0.0.1:8081", "address")
	flag.BoolVar(&r.Share, "share", false, "viewers share what was read, and have hijacked connections")
	flag.Parse()
	log.Fatal(http.ListenAndServe(*listen, &r))
}
