package websocket_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/websocket"
)

// An echo server sends each message back, by reference.
func ExampleAccept() {
	http.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // Accept has answered
		}
		for {
			var message millrace.Chain
			t, err := conn.Next(&message)
			if err != nil {
				return // the connection is closed
			}
			if err := conn.Write(t, &message); err != nil {
				conn.NetConn().Close() // ends Next
			}
		}
	})
}

// Each message is encoded once and sent to all clients by reference. A slow client delays no other.
func ExampleConn_WriteFrames() {
	ring := broadcast.New()
	defer ring.Close()
	http.HandleFunc("/news", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		cursor := ring.Cursor(broadcast.FromHead())
		go func() { // sends
			defer conn.NetConn().Close()
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
		var c millrace.Chain
		for err == nil { // answers pings, and notices that the client leaves
			_, err = conn.Next(&c)
			c.Release()
		}
		cursor.Close()
	})

	var message, frames millrace.Chain
	io.WriteString(&message, "news for all")
	websocket.AppendMessage(&frames, websocket.Text, &message)
	err := ring.Publish(&frames, broadcast.Frame{Key: true})
	fmt.Println(err)
	// Output: <nil>
}
