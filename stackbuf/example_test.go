package stackbuf_test

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/stackbuf"
)

// The Buffer is in the stack frame of key. The string is the only allocation.
func Example() {
	key := func(user, part string) string {
		var b stackbuf.Buffer
		b.WriteString("user:")
		b.WriteString(user)
		b.WriteByte(':')
		b.WriteString(part)
		return b.String()
	}
	fmt.Println(key("42", "settings"))
	// Output: user:42:settings
}

// A Buffer is written to and read from like a bytes.Buffer.
func ExampleBuffer() {
	var b stackbuf.Buffer // the zero value is ready
	b.WriteString("GET /index.html")
	method, err := b.ReadString(' ')
	fmt.Printf("%q %v, %d bytes are left\n", method, err, b.Len())
	b.WriteByte('\n')
	b.WriteTo(os.Stdout)
	// Output:
	// "GET " <nil>, 11 bytes are left
	// /index.html
}

// A function that appends to a slice can append to the free room of a Buffer. Write then finds the
// bytes in their place. If b were passed as an io.Writer, for example to fmt.Fprintf, b would be on
// the heap.
func ExampleBuffer_AvailableBuffer() {
	var b stackbuf.Buffer
	for i := range int64(4) {
		b.Write(strconv.AppendInt(b.AvailableBuffer(), i*i, 10))
		b.WriteByte(' ')
	}
	b.Write(strconv.AppendQuote(b.AvailableBuffer(), "a\tb"))
	b.WriteByte(' ')
	b.Write(time.Unix(0, 0).UTC().AppendFormat(b.AvailableBuffer(), time.DateOnly))
	b.Write(fmt.Appendf(b.AvailableBuffer(), " %.2f", 1.0/3))
	fmt.Println(b.String())
	// Output: 0 1 4 9 "a\tb" 1970-01-01 0.33
}

// A copy of a small Buffer is independent: a common prefix is written once.
func ExampleBuffer_copy() {
	var prefix stackbuf.Buffer
	prefix.WriteString("metric.requests.")
	for _, name := range []string{"ok", "failed"} {
		b := prefix
		b.WriteString(name)
		fmt.Println(b.String())
	}
	// Output:
	// metric.requests.ok
	// metric.requests.failed
}

// If the contents are on the heap, a copy shares them. Shrink makes the two independent again.
func ExampleBuffer_copyOfTheLarge() {
	var b stackbuf.Buffer
	b.WriteString(strings.Repeat("x", 100)) // more than 64 bytes: they are on the heap
	b.Truncate(10)

	shared, own := b, b
	own.Shrink() // copies the ten bytes into the value
	b.WriteString("1")
	fmt.Println(shared.Len(), own.Len()) // both still have their ten bytes

	own.WriteString("2")
	fmt.Println(b.String(), own.String())

	shared.WriteString("3") // overwrites the byte that b has written
	fmt.Println(b.String())
	// Output:
	// 10 10
	// xxxxxxxxxx1 xxxxxxxxxx2
	// xxxxxxxxxx3
}

// Buffers in a sync.Pool keep their memory, unless they have held unusually large contents. This
// example keeps up to 4 KiB in each.
func ExampleBuffer_Shrink() {
	pool := sync.Pool{New: func() any { return new(stackbuf.Buffer) }}
	give := func(b *stackbuf.Buffer) {
		b.Reset()
		if b.Cap() > 4<<10 {
			b.Shrink()
		}
		fmt.Println("goes back with room for", b.Cap())
		pool.Put(b)
	}

	for _, n := range []int{10, 1000, 1_000_000} {
		b := pool.Get().(*stackbuf.Buffer)
		b.WriteString(strings.Repeat("x", n))
		give(b)
	}
	// Output:
	// goes back with room for 64
	// goes back with room for 1024
	// goes back with room for 64
}

// The source reports that it has 5 bytes, so b allocates nothing.
func ExampleBuffer_ReadFrom() {
	var b stackbuf.Buffer
	n, err := b.ReadFrom(io.LimitReader(strings.NewReader("hello, world"), 5))
	fmt.Println(n, err, b.Cap())
	b.WriteTo(os.Stdout)
	// Output:
	// 5 <nil> 64
	// hello
}

// Printf leaves the Buffer on the stack. fmt.Fprintf would move it to the heap.
func ExampleBuffer_Printf() {
	var b stackbuf.Buffer
	b.Printf("%s:%d", "user", 42)
	fmt.Println(b.String())
	// Output: user:42
}
