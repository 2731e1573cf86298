// Command mqtt prints the type, flags and length of each packet that an MQTT client sends. It
// accepts packets of up to 64 KiB, and answers only CONNECT.
//
//	go run ./mqtt
//	mosquitto_pub -p 7003 -t room -m hot
package main

import (
	"fmt"
	"log"
	"net"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame"
)

func main() {
	l, err := net.Listen("tcp", ":7003")
	if err != nil {
		log.Fatal(err)
	}
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
	r := millrace.NewReader(conn)
	defer r.Release()
	d := frame.NewVarDecoder(r, frame.MQTT(), frame.MaxPayload(64<<10),
		frame.Deadlines(conn, 5*time.Second, 30*time.Second))
	e := frame.NewVarEncoder(frame.MQTT())
	for {
		var packet millrace.Chain
		h, err := d.Next(&packet)
		if err != nil {
			fmt.Println(conn.RemoteAddr(), err)
			return
		}
		fmt.Printf("%v: type %d, flags %#x, %v\n", conn.RemoteAddr(), h.Kind, h.Info, packet)
		packet.Release()
		if h.Kind == 1 { // CONNECT: answer with CONNACK, accepted
			var answer, payload millrace.Chain
			payload.AppendCopy([]byte{0, 0})
			e.Append(&answer, frame.Header{Kind: 2}, &payload)
			answer.WriteTo(conn)
			answer.Release()
		}
	}
}
