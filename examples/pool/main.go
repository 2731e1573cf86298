// Command pool accepts every share that a miner sends over encrypted Stratum V2. It prints its URL.
//
//	go run ./pool
package main

import (
	"log"
	"net"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
	"github.com/millrace-io/millrace/with/sv2noise"
)

func main() {
	key, now := sv2noise.GenerateKey(), time.Now() // for the authority and for this server
	certificate, _ := sv2noise.Sign(key, key.Public(), now, now.AddDate(0, 1, 0))
	server := sv2noise.NewResponder(key, certificate)
	log.Print("stratum2+tcp://localhost:7008/", key.Public())
	l, err := net.Listen("tcp", ":7008")
	for err == nil {
		var conn net.Conn
		if conn, err = l.Accept(); err == nil {
			go serve(conn, server)
		}
	}
	log.Fatal(err)
}

var arenas = sync.Pool{New: func() any { return arena.NewPool(4 << 10) }} // of all connections

func serve(conn net.Conn, server *sv2noise.Responder) {
	defer conn.Close()
	r := millrace.NewReader(conn)
	defer r.Release()
	conn.SetDeadline(time.Now().Add(10 * time.Second)) // for the handshake
	sealer, opener, err := server.Respond(r, conn, frame.Deadlines(conn, time.Second, time.Second))
	conn.SetDeadline(time.Time{})
	wait := func() bool { _, err := r.Peek(1); return err == nil } // holds no arena
	for err == nil && wait() {
		buf := arenas.Get().(*arena.Pool)
		s, h, openErr := opener.NextInto(buf)
		if err = openErr; h.MessageType == 0x1a && h.Length == 24 { // SubmitSharesStandard
			answer, _ := sealer.Seal(buf, sv2.Header{MessageType: 0x1c, Channel: true},
				func(buf arena.Buffer) error { // SubmitShares.Success: channel, number, one share
					_, err := buf.Write(append(s.Bytes()[6:14], 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0))
					return err
				})
			conn.Write(answer.Bytes())
			answer.Release()
		}
		s.Release()
		arenas.Put(buf)
	}
}
