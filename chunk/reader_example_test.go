package chunk_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
)

// Count the non-empty lines of a log, one chunk at a time.
func Example() {
	log := strings.NewReader("GET /\nGET /favicon.ico\r\nPOST /form\nGET /last, without an end")
	r := chunk.NewReader(log, chunk.At(chunk.Lines()))
	defer r.Close()

	n := 0
	for lines, err := range r.Chunks(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for line := range bytes.Lines(lines) { // each chunk has only whole lines
			if bytes.HasPrefix(line, []byte("GET ")) {
				n++
			}
		}
	}
	fmt.Println(n, "times GET")
	// Output:
	// 3 times GET
}

// Next returns chunks to keep. Here workers own and release them.
func ExampleReader_Next() {
	src := strings.NewReader(strings.Repeat(`{"bytes": 10} {"bytes": 32}`+"\n", 1000))
	r := chunk.NewReader(src, chunk.At(chunk.JSON()), chunk.Size(4096))
	defer r.Close()

	var total atomic.Int64
	work := make(chan millrace.Ref)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for values := range work {
				d := json.NewDecoder(bytes.NewReader(values.Bytes()))
				var v struct{ Bytes int64 }
				for d.Decode(&v) == nil {
					total.Add(v.Bytes)
				}
				values.Release()
			}
		})
	}
	for {
		values, err := r.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			break
		}
		work <- values // the worker owns it
	}
	close(work)
	workers.Wait()
	fmt.Println(total.Load(), "bytes")
	// Output:
	// 42000 bytes
}

// A function that cuts records with a length prefix.
func ExampleCutFunc() {
	frames := chunk.CutFunc(func(data []byte) int {
		if len(data) < 2 {
			return 0 // length not known yet
		}
		return 2 + int(binary.BigEndian.Uint16(data))
	})
	r := chunk.NewReader(strings.NewReader("\x00\x05hello\x00\x00\x00\x06frames"), chunk.At(frames),
		chunk.Size(9))
	defer r.Close()
	for p, err := range r.Chunks(context.Background()) {
		fmt.Printf("%q %v\n", p, err)
	}
	// Output:
	// "\x00\x05hello\x00\x00" <nil>
	// "\x00\x06frames" <nil>
}

// A record without an end is refused before it uses much memory.
func ExampleRecordError() {
	r := chunk.NewReader(strings.NewReader("short\n"+strings.Repeat("endless ", 1000)),
		chunk.At(chunk.Lines()), chunk.Size(512), chunk.MaxRecord(1024))
	defer r.Close()
	for lines, err := range r.Chunks(context.Background()) {
		if bad := (*chunk.RecordError)(nil); errors.As(err, &bad) {
			fmt.Println(err)
			fmt.Println("read on behind it from", bad.Offset)
			return
		}
		fmt.Printf("%q\n", lines)
	}
	// Output:
	// "short\n"
	// chunk: record at offset 6: longer than the limit of 1024 bytes
	// read on behind it from 6
}
