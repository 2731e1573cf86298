// Command logship follows a log and sends its lines to a TCP server. It continues after a rotation
// to access.log.1, and after a restart, from the position in access.log.position. A chunk ends at
// the end of a line, so the server can process each one separately. A restart may repeat a chunk. A
// chunk is lost if the receiver's machine or the connection fails after the write.
//
//	go run ./logship access.log localhost:514
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"os"

	"github.com/millrace-io/millrace/chunk"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: logship FILE ADDRESS")
	}
	name, addr := os.Args[1], os.Args[2]
	rotated := chunk.Rotated(name + ".?")
	state := name + ".position"
	var position chunk.Position
	if p, err := os.ReadFile(state); err == nil {
		check(json.Unmarshal(p, &position))
	}
	tail, err := chunk.OpenTail(name, position, rotated)
	if errors.Is(err, chunk.ErrNoPosition) {
		log.Print("lines may be missing: ", err)
		tail, err = chunk.OpenTail(name, chunk.Position{}, rotated)
	}
	check(err)
	conn, err := net.Dial("tcp", addr)
	check(err)
	r := chunk.NewReader(tail, chunk.At(chunk.Lines()))
	for {
		c, err := r.Next(context.Background())
		check(err)
		_, err = conn.Write(c.Bytes())
		check(err)
		c.Release()
		p, err := json.Marshal(tail.Position(r.Offset()))
		check(err)
		check(os.WriteFile(state+".new", p, 0o644))
		check(os.Rename(state+".new", state))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
