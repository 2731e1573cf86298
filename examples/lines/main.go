// Command lines CERT KEY is a chat server over TLS: each line goes to all clients.
package main

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"os"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

var ring = broadcast.New()

func main() {
	cert, err := tls.LoadX509KeyPair(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	l, err := tls.Listen("tcp", ":7000", &tls.Config{Certificates: []tls.Certificate{cert}})
	for err == nil {
		var conn net.Conn
		if conn, err = l.Accept(); err == nil {
			go serve(conn)
		}
	}
	log.Fatal(err)
}

func serve(conn net.Conn) {
	defer conn.Close()
	r := millrace.NewReader(conn) // holds no memory while the client is silent
	defer r.Release()
	cursor := ring.Cursor(broadcast.FromHead())
	defer cursor.Close()
	go send(conn, cursor)
	for {
		var line millrace.Chain
		if err := r.ReadChainDelim(&line, '\n', 64<<10); err != nil {
			return // io.EOF, or a line above 64 KiB
		}
		ring.Publish(&line, broadcast.Frame{Key: true}) // any line may be a client's first
	}
}

func send(conn net.Conn, cursor *broadcast.Cursor) {
	defer conn.Close()
	var lines millrace.Chain
	defer lines.Release()
	for err := error(nil); err == nil; {
		if _, err = cursor.Next(context.Background(), &lines); err == nil {
			conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
			_, err = lines.WriteTo(conn)
		}
	}
}
