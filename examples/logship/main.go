// Command logship sends the lines of a file to a TCP server. A chunk ends at the end of a line, so
// the server can process each chunk separately. Reading continues while a chunk is sent.
//
//	go run ./logship access.log localhost:514
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"os/signal"

	"github.com/millrace-io/millrace/chunk"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: logship FILE ADDRESS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := ship(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func ship(ctx context.Context, name, addr string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := chunk.NewReader(f, chunk.At(chunk.Lines()))
	defer r.Close()
	for {
		c, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = conn.Write(c.Bytes())
		c.Release()
		if err != nil {
			return err
		}
	}
}
