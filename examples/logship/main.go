// Command logship follows a log and sends its lines to a TCP server. It continues after a rotation
// to access.log.1, and after a restart, from the position in access.log.position. A chunk ends at
// the end of a line, so the server can process each one separately. A restart may repeat a chunk.
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
	"os/signal"

	"github.com/millrace-io/millrace/chunk"
)

func main() {
	name, addr := os.Args[1], os.Args[2]
	state := name + ".position"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var position chunk.Position
	if p, err := os.ReadFile(state); err == nil {
		check(json.Unmarshal(p, &position))
	}
	tail, err := chunk.OpenTail(name, position, chunk.Rotated(name+".?"))
	if errors.Is(err, chunk.ErrNoPosition) {
		log.Print("lines may be missing: ", err)
		tail, err = chunk.OpenTail(name, chunk.Position{})
	}
	check(err)
	conn, err := net.Dial("tcp", addr)
	check(err)
	r := chunk.NewReader(tail, chunk.At(chunk.Lines()))
	for {
		c, err := r.Next(ctx)
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
