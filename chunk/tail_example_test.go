package chunk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// A program that follows a log stops, and later continues where it stopped. Meanwhile, the log has
// been rotated.
func ExampleOpenTail() {
	dir, err := os.MkdirTemp("", "logs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "app.log")
	write := func(s string) {
		if err := os.WriteFile(name, []byte(s), 0o644); err != nil {
			log.Fatal(err)
		}
	}

	var position chunk.Position // store it with encoding/json
	follow := func(lines int) {
		tail, err := chunk.OpenTail(name, position, chunk.Rotated(name+".?"),
			chunk.PollInterval(10*time.Millisecond))
		if errors.Is(err, chunk.ErrNoPosition) {
			log.Print("lines are missing")
			tail, err = chunk.OpenTail(name, chunk.Position{})
		}
		if err != nil {
			log.Fatal(err)
		}
		defer tail.Close()
		r := chunk.NewReader(tail, chunk.At(chunk.Lines()), chunk.Size(4))
		defer r.Close()
		for range lines {
			line, err := r.Next(context.Background())
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%q\n", line.Bytes())
			line.Release()
			position = tail.Position(r.Offset())
		}
	}
	write("one\ntwo\n")
	follow(1)
	if err := os.Rename(name, name+".1"); err != nil {
		log.Fatal(err)
	}
	write("six\n")
	follow(2)
	// Output:
	// "one\n"
	// "two\n"
	// "six\n"
}
