// Package helpers passes slices and owners to functions of the same package. Beside each mistake
// stands the corrected code.
package helpers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"sync"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/websocket"
	"github.com/millrace-io/millrace/media/rtmp"
)

type cache struct {
	mu    sync.Mutex
	byKey map[string][]byte
	list  [][]byte
	out   chan []byte
	cur   []byte
}

func (c *cache) put(key string, p []byte) { c.mu.Lock(); defer c.mu.Unlock(); c.byKey[key] = p }
func (c *cache) add(p []byte)             { c.list = append(c.list, p) }
func (c *cache) add2(p []byte)            { c.add(p[1:]) }
func (c *cache) send(p []byte)            { c.out <- p }
func (c *cache) set(p []byte)             { c.cur = p }
func (c *cache) copied(p []byte)          { c.list = append(c.list, bytes.Clone(p)) }
func (c *cache) clear()                   { c.list = c.list[:0] }

var index = map[string][]byte{}

func remember(p []byte) { index[string(p)] = p }

func keptRef(r *millrace.Reader, c *cache) error {
	ref, err := r.ReadRef(10)
	if err != nil {
		return err
	}
	p := ref.Bytes()
	c.put("key", p[2:]) // want `a slice of ref, which this function releases, is stored in a map`
	ref.Release()
	return nil
}

func keptLines(r *millrace.Reader, c *cache) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		c.add2(line)   // want `a slice that is valid only until the next read is stored in a field`
		remember(line) // want `a slice that is valid only until the next read is stored in a map`
	}
}

func keptInChannel(r *millrace.Reader, c *cache) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		c.send(line) // want `a slice that is valid only until the next read is sent on a channel`
	}
}

func keptRange(r *millrace.Reader, c *cache) error {
	return r.ReadRange(100, func(p []byte) {
		c.put("key", p) // want `a slice that is valid only during this call is stored in a map`
	})
}

func notKept(r *millrace.Reader, c *cache) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		c.copied(line)
		c.put("key", bytes.Clone(line))
		c.set(line)
		c.print()
		var own cache
		own.add(line)
		own.print()
	}
}

func cleared(ref millrace.Ref, c *cache) {
	defer ref.Release()
	c.add(ref.Bytes())
	c.print()
	c.clear()
}

func (c *cache) print() { fmt.Println(c.list, c.cur) }

// Parts in structs.

type pair struct{ k, v []byte }
type group struct {
	pairs []pair
	ref   millrace.Ref
}

func split(p []byte) (all []pair) {
	for line := range bytes.Lines(p) {
		k, v, _ := bytes.Cut(line, []byte("="))
		all = append(all, pair{k, v})
	}
	return all
}

func splitCopies(p []byte) (all []pair) {
	for line := range bytes.Lines(p) {
		all = append(all, pair{k: line})
	}
	for i := range all {
		all[i].k = bytes.Clone(all[i].k)
	}
	return all
}

func sendGroups(r *millrace.Reader, out chan<- group, results chan<- []pair) error {
	for {
		ref, err := r.ReadRef(10)
		if err != nil {
			return err
		}
		out <- group{pairs: split(ref.Bytes())} // want `a slice of ref, which this function releases, is sent on a channel`
		results <- split(ref.Bytes())           // want `a slice of ref, which this function releases, is sent on a channel`
		results <- splitCopies(ref.Bytes())
		ref.Release()
	}
}

func sendWithRef(r *millrace.Reader, out chan<- group) error {
	for {
		ref, err := r.ReadRef(10)
		if err != nil {
			return err
		}
		out <- group{pairs: split(ref.Bytes()), ref: ref}
	}
}

func countGroups(r *millrace.Reader, out chan<- int) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		n := 0
		for _, p := range split(line) {
			n += len(p.k)
		}
		out <- n
	}
}

func sendPrevious(r *millrace.Reader, out chan<- []pair) error {
	var batch []pair
	for {
		out <- batch
		batch = nil
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		for word := range bytes.FieldsSeq(line) {
			batch = append(batch, pair{k: bytes.Clone(word)})
		}
	}
}

// Printing.

func printed(ref millrace.Ref, c millrace.Chain, r *millrace.Reader) {
	p, q := ref.Bytes(), c.Bytes()
	h, _ := r.Peek(4)
	ref.Release()
	c.Release()
	r.ReadByte()
	slog.Info("ref", "p", p) // want `use of p, which is valid only until`
	log.Printf("%x", q[:4])  // want `use of q, which is valid only until`
	fmt.Println(len(h), h)   // want `use of h, which is valid only until`
}

func printedBefore(ref millrace.Ref, r *millrace.Reader) {
	p := ref.Bytes()
	defer fmt.Println(len(p))
	log.Print(p)
	ref.Release()
	h, _ := r.Peek(4)
	slog.Info("header", "h", h)
	r.Discard(4)
	log.Print(h)
	if h, _ = r.Peek(2); len(h) > 0 {
		log.Print(h)
	}
}

func skipped(r *millrace.Reader) (byte, byte) {
	h, _ := r.Peek(4)
	i, _ := r.Peek(8)
	println(h[0], i[0])
	r.Skip(4)
	j, _ := r.Peek(4)
	return j[0], h[0] // want `use of h, which is valid only until`
}

// Taken memory.

func taken(c *millrace.Chain, w *millrace.Writer, conn *websocket.Conn, ring *broadcast.Ring) {
	p := c.Bytes()
	var d millrace.Chain
	d.Merge(c)
	fmt.Println(p)
	w.WriteChain(&d)
	fmt.Println(p) // want `use of p, which is valid only until`
	c.AppendCopy(nil)
	p = c.Bytes()
	conn.WriteFrames(c)
	println(p[0]) // want `use of p, which is valid only until`
	c.AppendCopy([]byte("text"))
	p = c.Bytes()
	println(p[0])
	ring.Publish(c, broadcast.Frame{})
	println(string(p)) // want `use of p, which is valid only until`
}

func takenRef(ref millrace.Ref, c *millrace.Chain, w io.Writer) {
	p := ref.Bytes()
	c.Append(&ref)
	w.Write(p)
	c.Release()
	w.Write(p) // want `use of p, which is valid only until`
}

// Frames of a ring.

func viewers(ctx context.Context, c *broadcast.Cursor, w io.Writer) error {
	var out millrace.Chain
	b, err := c.Take(&out) // want `out is not released`
	if err != nil {
		return err
	}
	if b.Missed.Why == broadcast.NotMissed {
		_, err = out.WriteTo(w)
	}
	return err
}

func viewersCorrect(ctx context.Context, c *broadcast.Cursor, w io.Writer) error {
	var out millrace.Chain
	for {
		b, err := c.Take(&out)
		if err != nil {
			return err
		}
		if b.Frames == 0 {
			return nil
		}
		if _, err := out.WriteTo(w); err != nil {
			out.Release()
			return err
		}
	}
}

func messages(d *rtmp.Decoder) error {
	var body millrace.Chain
	for {
		m, err := d.Next(&body) // want `body is not released`
		if err != nil {
			return err
		}
		if m.Type == 8 {
			return nil
		}
		body.Release()
	}
}

// Bodies that a function only reads.

type uploader interface{ upload(r io.ReadSeeker) error }
type closer interface{ take(r io.Reader) error }
type disk struct{ w io.Writer }
type remote struct{}

func (d disk) upload(r io.ReadSeeker) error { r.Seek(0, io.SeekStart); return count(r) }
func (d disk) take(r io.Reader) error       { return count(r) }
func (remote) take(r io.Reader) error {
	_, err := http.Post("http://localhost", "", r)
	return err
}

func count(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }

func readAndClose(r io.ReadCloser) error { defer r.Close(); return count(r) }

func bodies(u uploader, b *millrace.Body) {
	u.upload(b.Clone()) // want `the millrace.Body is not ended with Close`
	c := b.Clone()      // want `the millrace.Body is not ended with Close`
	count(c)
	d := b.Clone() // want `the millrace.Body is not ended with Close`
	readTwice(d)
}

func readTwice(r io.ReadSeeker) { count(r); count(r) }

func bodiesClosed(u uploader, t closer, b *millrace.Body) {
	c := b.Clone()
	u.upload(c)
	c.Close()
	readAndClose(b.Clone())
	t.take(b.Clone())
	d := b.Clone()
	defer d.Close()
	readTwice(d)
}

// Frames in an arena.

func text(p *arena.Pool, s string) { copy(p.Writable(len(s)), s) }

func texts(p *arena.Pool, all []string) {
	for _, s := range all {
		if s != "" {
			text(p, s)
		}
	}
}

func frameOf(p *arena.Pool, s string) arena.Slice {
	head := p.Writable(2)
	text(p, s)
	head[1] = byte(len(s)) // want `use of head, which is valid only until`
	return p.Take()
}

func frameOfAll(p *arena.Pool, all []string) arena.Slice {
	head := p.Writable(2)
	for _, s := range all { // not reported: all may be empty
		p.Write([]byte(s))
	}
	copy(head, "ab")
	return p.Take()
}

func frameCorrect(p *arena.Pool, all []string) arena.Slice {
	head := p.Writable(2)
	copy(head, "ab")
	texts(p, all)
	p.Data(2)[1] = byte(p.Len())
	return p.Take()
}

func untilComment(r *millrace.Reader) string {
	line, err := r.ReadSlice('\n')
	for err == nil && line[0] == '#' {
		fmt.Println(line)
		line, err = r.ReadSlice('\n')
	}
	log.Print(line)
	return string(line)
}
