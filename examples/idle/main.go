// Command idle answers each line on its connections with "ok". A silent connection holds no buffer.
//
//	go run ./idle
//	printf 'hello\n' | nc localhost 7005
package main

import (
	"log"
	"net"
	"time"

	"github.com/millrace-io/millrace"
)

func main() {
	l, err := net.Listen("tcp", ":7005")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for range time.Tick(10 * time.Second) {
			s := millrace.DefaultPool().Stats()
			log.Printf("%d bytes in use, %d idle, %d blocks lost", s.InUse, s.Idle, s.Lost)
		}
	}()
	for {
		conn, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(conn)
	}
}

func serve(conn net.Conn) {
	defer conn.Close()
	r, w := millrace.NewReader(conn), millrace.NewWriter(conn)
	defer r.Release()
	defer w.Release()
	for {
		if _, err := r.ReadSlice('\n'); err != nil {
			return
		}
		w.WriteString("ok\n")
		if r.Buffered() > 0 {
			continue // answer all lines that have arrived with one write
		}
		if err := w.Flush(); err != nil {
			return
		}
	}
}
