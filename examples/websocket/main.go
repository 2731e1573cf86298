// Command websocket sends the lines of its standard input to all WebSocket clients.
//
//	ping localhost | go run ./websocket
//	new WebSocket("ws://localhost:7002/").onmessage = e => console.log(e.data)
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/websocket"
)

var ring = broadcast.New(broadcast.Latency(20 * time.Millisecond))

func main() {
	http.HandleFunc("/", serve)
	go func() { log.Fatal(http.ListenAndServe(":7002", nil)) }()
	r := millrace.NewReader(os.Stdin)
	for {
		var line, frames millrace.Chain
		if err := r.ReadChainDelim(&line, '\n', 1<<20); err != nil {
			log.Fatal(err)
		}
		websocket.AppendMessage(&frames, websocket.Text, &line) // encoded once, for all clients
		ring.Publish(&frames, broadcast.Frame{Key: true})       // any line may be a client's first
	}
}

func serve(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	cursor := ring.Cursor(broadcast.FromHead())
	defer cursor.Close()
	go func() {
		defer conn.NetConn().Close() // ends Next below
		var frames millrace.Chain
		for {
			if _, err := cursor.Next(context.Background(), &frames); err != nil {
				return
			}
			if err := conn.WriteFrames(&frames); err != nil {
				return
			}
		}
	}()
	for err == nil { // answers pings, and notices that the client leaves
		var message millrace.Chain
		_, err = conn.Next(&message)
		message.Release()
	}
}
