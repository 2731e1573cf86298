package millrace_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/millrace-io/millrace"
)

// A message is cut out of a stream, gets a header, and is sent to two receivers without a copy.
func Example() {
	r := millrace.NewReader(strings.NewReader("hello, world; the next message"))
	defer r.Release()

	var message millrace.Chain
	defer message.Release() // releases the rest if WriteTo fails, or nothing
	message.AppendCopy([]byte("a message: "))
	if err := r.ReadChain(&message, len("hello, world")); err != nil {
		fmt.Println(err)
		return
	}

	var share millrace.Chain
	defer share.Release()
	message.CloneTo(&share)
	for i, c := range []*millrace.Chain{&message, &share} {
		fmt.Printf("to %d: ", i)
		c.WriteTo(os.Stdout) // over TCP this would be one writev
		fmt.Println()
	}
	// Output:
	// to 0: a message: hello, world
	// to 1: a message: hello, world
}

func ExamplePool() {
	pool := millrace.NewPool(millrace.IdleLimit(1 << 20))

	draft := pool.Get(1000) // a block with one writer
	n := copy(draft.Bytes(), "hello, world")
	ref := draft.Freeze(n) // from now on it is read-only

	fmt.Printf("in use: %d bytes\n", pool.Stats().InUse)
	ref.Release()
	s := pool.Stats()
	fmt.Printf("in use: %d bytes, idle: %d bytes\n", s.InUse, s.Idle)
	// Output:
	// in use: 1024 bytes
	// in use: 0 bytes, idle: 1024 bytes
}

func ExampleRef() {
	draft := millrace.DefaultPool().Get(100)
	whole := draft.Freeze(copy(draft.Bytes(), "key=value"))

	key := whole.Slice(0, 3)   // shares of the same memory,
	value := whole.Slice(4, 9) // with its own owner
	whole.Release()

	done := make(chan bool)
	go func(v millrace.Ref) { // takes ownership
		defer v.Release()
		fmt.Printf("%s has ", v.Bytes())
		done <- true
	}(key)
	<-done
	fmt.Printf("%s\n", value.Bytes())
	value.Release() // the last share returns the block
	// Output: key has value
}

func ExampleChain() {
	var c millrace.Chain // the zero Chain is ready to use
	defer c.Release()
	c.AppendCopy([]byte("header|body|trailer"))

	var header, body millrace.Chain
	c.CutTo(&header, len("header")) // moves the first bytes
	c.Discard(1)
	c.SliceTo(&body, 0, len("body")) // shares bytes with c
	fmt.Printf("%s, %s, %s\n", header.Bytes(), body.Bytes(), c.Bytes())

	body.Merge(&header) // takes all of header
	fmt.Printf("%d bytes in %d pieces, header has %d\n", body.Len(), body.Pieces(), header.Len())
	for piece := range body.All() {
		fmt.Printf("%s\n", piece)
	}
	body.Release()
	// Output:
	// header, body, body|trailer
	// 10 bytes in 2 pieces, header has 0
	// body
	// header
}

// Adjacent bytes form one piece, whichever way they are joined.
func ExampleChain_Merge() {
	r := millrace.NewReader(strings.NewReader("one two three "))
	defer r.Release()
	var batch millrace.Chain
	for _, n := range []int{4, 4, 6} {
		var packet millrace.Chain
		if err := r.ReadChain(&packet, n); err != nil {
			fmt.Println(err)
		}
		batch.Merge(&packet)
	}
	fmt.Printf("%q is %d piece\n", batch.Bytes(), batch.Pieces())
	batch.Release()
	// Output: "one two three " is 1 piece
}

func ExampleChain_Reader() {
	var c millrace.Chain
	defer c.Release()
	c.AppendCopy([]byte(strings.Repeat("a line\n", 3)))
	view := c.Reader() // reads without consuming
	lines := bufio.NewScanner(view)
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
	fmt.Println(c.Len(), "bytes are still there")
	// Output:
	// a line
	// a line
	// a line
	// 21 bytes are still there
}

// Bytes that are used once need not be copied.
func ExampleReader_ReadRange() {
	r := millrace.NewReader(strings.NewReader("\x00\x0chello, worldand more"))
	defer r.Release()
	n, err := r.ReadBE(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = r.ReadRange(int(n), func(p []byte) { // p is valid until this returns
		fmt.Printf("%s", p)
	})
	fmt.Println(err)
	// Output: hello, world<nil>
}

// Lines are kept without a copy. A line may be longer than the Reader's size, but not than a limit.
func ExampleReader_ReadChainDelim() {
	r := millrace.NewReader(strings.NewReader("short\n" + strings.Repeat("long ", 2000) + "\n"))
	defer r.Release()
	for _, limit := range []int{100, 100, 20_000} {
		var line millrace.Chain
		if err := r.ReadChainDelim(&line, '\n', limit); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("a line of", line.Len(), "bytes")
		line.Release()
	}
	// Output:
	// a line of 6 bytes
	// millrace: no delimiter '\n' within the limit of 100 bytes
	// a line of 10001 bytes
}

// A request shares the bytes of a Chain. The Chain may be released when Do has returned, even if
// the Transport still reads the Body.
func ExampleChain_Body() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := io.ReadAll(r.Body)
		fmt.Printf("%d bytes of %d: %s, %v\n", len(p), r.ContentLength, p, err)
	}))
	defer server.Close()

	var c millrace.Chain
	defer c.Release()
	c.AppendCopy([]byte("a received message"))
	req, err := http.NewRequest("PUT", server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Body = c.Body()
	req.ContentLength = int64(c.Len())
	req.GetBody = func() (io.ReadCloser, error) { return c.Body(), nil } // redirects, retries
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output: 18 bytes of 18: a received message, <nil>
}

// A stream of unknown length is uploaded in parts. No more than two of them are in memory at once.
func ExampleSpool() {
	spool := millrace.NewSpool(10, 2)
	r := millrace.NewReader(strings.NewReader("a stream of unknown length"))
	defer r.Release()
	for {
		part, err := spool.Next(context.Background(), r)
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		p, _ := io.ReadAll(part) // usually an upload, which may repeat the part
		fmt.Printf("%d: %q\n", part.Len(), p)
		part.Close()
	}
	// Output:
	// 10: "a stream o"
	// 10: "f unknown "
	// 6: "length"
}

// Of many small messages, a few are kept. Their copies share a block.
func ExampleSlab() {
	var slab millrace.Slab
	defer slab.Release()
	r := millrace.NewReader(strings.NewReader("1 ok\n2 failed\n3 ok\n4 failed\n"))
	defer r.Release()
	var failed []millrace.Ref
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			break
		}
		if bytes.Contains(line, []byte("failed")) {
			failed = append(failed, slab.Copy(line))
		}
	}
	for i := range failed {
		fmt.Printf("%s", failed[i].Bytes())
		failed[i].Release()
	}
	// Output:
	// 2 failed
	// 4 failed
}

// Pop takes a Chain apart, for example to pass its pieces to several goroutines.
func ExampleChain_Pop() {
	var c millrace.Chain
	for _, text := range []string{"one", "two"} {
		d := millrace.DefaultPool().Get(3)
		r := d.Freeze(copy(d.Bytes(), text))
		c.Append(&r)
	}
	for c.Len() > 0 {
		r := c.Pop()
		fmt.Printf("%s, ", r.Bytes())
		r.Release()
	}
	fmt.Println(&c)
	// Output: one, two, 0 bytes in 0 pieces
}

// A Chain is an io.Writer, and AppendTo copies its bytes to a slice.
func ExampleChain_AppendTo() {
	var c millrace.Chain
	defer c.Release()
	fmt.Fprintf(&c, "%d, %d", 1, 2)
	p := c.AppendTo([]byte("> "))
	fmt.Printf("%s: %v\n", p, &c)
	// Output: > 1, 2: 4 bytes in 1 pieces
}

// A Writer replaces a bufio.Writer. Between a Flush and the next byte it holds no memory.
func ExampleWriter() {
	w := millrace.NewWriter(os.Stdout)
	fmt.Fprintf(w, "%s, ", "hello")
	w.WriteString("world\n")
	fmt.Println(w.Buffered(), "bytes wait for Flush")
	if err := w.Flush(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 13 bytes wait for Flush
	// hello, world
}

// A header and a body that other code owns are sent with one system call, without copying the body.
func ExampleWriter_WriteChain() {
	var body millrace.Chain
	body.AppendCopy([]byte("a received packet"))
	defer body.Release()

	w := millrace.NewWriter(os.Stdout) // usually a connection
	for range 2 {
		fmt.Fprintf(w, "%d bytes: ", body.Len())
		var c millrace.Chain
		body.CloneTo(&c)
		w.WriteChain(&c) // owns c
		w.WriteString("\n")
		if err := w.Flush(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 17 bytes: a received packet
	// 17 bytes: a received packet
}

// A Ref is one contiguous slice that may be kept and passed to another goroutine.
func ExampleReader_ReadRef() {
	r := millrace.NewReader(strings.NewReader("key=value"))
	defer r.Release()
	key, err := r.ReadRef(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer key.Release()
	fmt.Printf("%s, %d bytes are left\n", key.Bytes(), r.Buffered())
	// Output: key, 6 bytes are left
}

// One packet for three subscribers: each gets a share, and releases it after use.
func ExampleReader_ReadChain() {
	r := millrace.NewReader(strings.NewReader("packet"))
	defer r.Release()
	subscribers := make([]chan millrace.Chain, 3)
	for i := range subscribers {
		subscribers[i] = make(chan millrace.Chain, 1)
	}

	var packet millrace.Chain
	if err := r.ReadChain(&packet, 6); err != nil {
		fmt.Println(err) // packet is unchanged
		return
	}
	for _, s := range subscribers {
		var share millrace.Chain
		packet.CloneTo(&share)
		s <- share // a Chain is a value: sending it moves it
	}
	packet.Release()

	for i, s := range subscribers {
		share := <-s
		fmt.Printf("%d got %s\n", i, share.Bytes())
		share.Release()
	}
	// Output:
	// 0 got packet
	// 1 got packet
	// 2 got packet
}

// A message with a length prefix is passed on together with the prefix: Peek reads the length
// without consuming it. The announced length is checked first. Memory is taken only as bytes
// arrive.
func ExampleReader_ReadChain_prefixed() {
	const prefix, most = 4, 1 << 20
	r := millrace.NewReader(strings.NewReader("\x00\x00\x00\x05first\x00\x00\x00\x06second"))
	defer r.Release()
	var message millrace.Chain
	defer message.Release()
	for {
		p, err := r.Peek(prefix)
		if err == io.EOF && len(p) == 0 {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		n := binary.BigEndian.Uint32(p)
		if n > most {
			fmt.Println("a message of", n, "bytes is refused")
			return
		}
		if err := r.ReadChain(&message, prefix+int(n)); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q\n", message.Bytes()) // or a WriteTo, a Clone for each receiver, ...
		message.Release()
	}
	// Output:
	// "\x00\x00\x00\x05first"
	// "\x00\x00\x00\x06second"
}

// Blocks that arrive over a channel are read like a stream.
func ExampleNewReaderFrom() {
	blocks := make(chan millrace.Chain, 3)
	for _, text := range []string{"first li", "ne\nsecond ", "line\n"} {
		var c millrace.Chain
		c.AppendCopy([]byte(text))
		blocks <- c
	}
	close(blocks)

	r := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		c, ok := <-blocks
		if !ok {
			return io.EOF
		}
		dst.Merge(&c)
		return nil
	})
	defer r.Release()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break
		}
		fmt.Print(line)
	}
	// Output:
	// first line
	// second line
}

// A Reader is fed by another Reader: with the bytes that the other has received, in pieces of at
// most 16 bytes, without a copy.
func ExampleNewReaderFrom_anotherReader() {
	first := millrace.NewReader(strings.NewReader("a header\nand what stands behind it"))
	defer first.Release()
	if _, err := first.ReadString('\n'); err != nil {
		fmt.Println(err)
	}

	second := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		if _, err := first.Peek(1); err != nil { // waits until a byte has arrived
			return err
		}
		return first.ReadChain(dst, min(first.Buffered(), 16))
	})
	defer second.Release()
	text, err := io.ReadAll(second)
	fmt.Printf("%s, %v\n", text, err)
	// Output: and what stands behind it, <nil>
}

// A slice that is used after the release of its memory.
func ExamplePoison() {
	pool := millrace.NewPool(millrace.Poison())
	d := pool.Get(5)
	kept := d.Bytes()[:5]
	copy(kept, "hello")
	d.Release()
	fmt.Printf("%x\n", kept)
	// Output: dbdbdbdbdb
}
