// Package correct has no mistakes.
package correct

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/frame"
)

type conn struct {
	r    *millrace.Reader
	out  millrace.Chain
	ref  millrace.Ref
	line []byte
}

func (c *conn) open(nc net.Conn) { c.r = millrace.NewReader(nc) }

// scan is a method of the owner of the Reader, like bufio.Scanner.Scan.
func (c *conn) scan() (err error) {
	c.line, err = c.r.ReadSlice('\n')
	return err
}

func (c *conn) refill() {
	c.ref.Release()
	c.reset()
	println(len(c.ref.Bytes()))
}

func (c *conn) reset() { c.ref = millrace.Ref{} }

func errorPaths(r *millrace.Reader, w io.Writer) (err error) {
	var c millrace.Chain
	if err = r.ReadChain(&c, 10); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	defer c.Release()
	_, err = c.WriteTo(w)
	return err
}

func switchOnError(r *millrace.Reader) (millrace.Ref, error) {
	ref, err := r.ReadRef(10)
	switch {
	case err == io.EOF:
		return millrace.Ref{}, nil
	case err != nil:
		return millrace.Ref{}, err
	}
	return ref, nil
}

func conditional(p *millrace.Pool, yes bool) {
	var r millrace.Ref
	if yes {
		d := p.Get(1)
		r = d.Freeze(1)
	}
	println(r.Len())
	if yes {
		r.Release()
	}
}

func flag(p *millrace.Pool, out chan millrace.Ref) {
	d := p.Get(1)
	r := d.Freeze(1)
	moved := false
	select {
	case out <- r:
		moved = true
	default:
	}
	if !moved {
		r.Release()
	}
}

func ifNotEmpty(src io.Reader) {
	var c millrace.Chain
	c.ReadFrom(src)
	if c.Len() > 0 {
		c.Release()
	}
}

func deferredClosure(r *millrace.Reader) (err error) {
	var c millrace.Chain
	defer func() {
		if err != nil {
			c.Release()
		}
	}()
	if err := r.ReadChain(&c, 10); err != nil {
		return err
	}
	return nil
}

func cleanup(t *testing.T, p *millrace.Pool) {
	d := p.Get(10)
	t.Cleanup(d.Release)
	r := millrace.NewReader(bytes.NewReader(nil))
	t.Cleanup(func() { r.Release() })
	r.ReadByte()
}

func batch(r *millrace.Reader, w io.Writer) error {
	var c millrace.Chain
	defer c.Release()
	for {
		if err := r.ReadChain(&c, 10); err != nil {
			return err
		}
		if c.Len() < 1000 && r.Buffered() > 0 {
			continue
		}
		if _, err := c.WriteTo(w); err != nil {
			return err
		}
	}
}

func copied(r *millrace.Reader) (all [][]byte, names map[string]bool) {
	names = map[string]bool{}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return all, names
		}
		all = append(all, bytes.Clone(line))
		names[string(line)] = true
	}
}

func flat(r *millrace.Reader) (all []byte, err error) {
	err = r.ReadRange(100, func(p []byte) { all = append(all, p...) })
	return all, err
}

func vectors(refs []millrace.Ref, c net.Conn) error {
	var v net.Buffers
	for i := range refs {
		v = append(v, refs[i].Bytes())
	}
	_, err := v.WriteTo(c)
	for i := range refs {
		refs[i].Release()
	}
	return err
}

func peekThenSkip(r *millrace.Reader) (int, error) {
	p, err := r.Peek(2)
	if err != nil {
		return 0, err
	}
	n := int(p[0])<<8 | int(p[1])
	return n, r.Skip(2)
}

func clones(c *millrace.Chain, conns []net.Conn) {
	var wg sync.WaitGroup
	for _, conn := range conns {
		var share millrace.Chain
		c.CloneTo(&share)
		wg.Go(func() {
			share.WriteTo(conn)
			share.Release()
		})
	}
	wg.Wait()
	c.Release()
}

func handedToGoroutine(p *millrace.Pool, handle func([]byte)) {
	d := p.Get(10)
	r := d.Freeze(10)
	go func() {
		defer r.Release()
		handle(r.Bytes())
	}()
}

func put(c *millrace.Chain, url string, client *http.Client) error {
	req, err := http.NewRequest("PUT", url, c.Body())
	if err != nil {
		return err
	}
	req.GetBody = func() (io.ReadCloser, error) { return c.Body(), nil }
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func lock(mu *sync.Mutex, c *millrace.Chain) {
	for range 2 {
		go func() {
			mu.Lock()
			defer mu.Unlock()
			c.AppendCopy([]byte("text"))
		}()
	}
}

func workers(ctx context.Context, r *chunk.Reader, handle func([]byte)) error {
	for p, err := range r.Chunks(ctx) {
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		for part := range bytes.SplitSeq(p, []byte("\n\n")) {
			wg.Go(func() { handle(part) })
		}
		wg.Wait()
	}
	return nil
}

func passOn(d *frame.Decoder, p *arena.Pool, out chan<- arena.Slice) error {
	for {
		s, _, err := d.NextInto(p)
		if err != nil {
			return err
		}
		select {
		case out <- s:
		default:
			s.Release()
		}
	}
}

func again(c *millrace.Chain) {
	c.Release()
	c.AppendCopy([]byte("filled again"))
	println(len(c.Bytes()))
}

func named() (c millrace.Chain, err error) {
	c.AppendCopy([]byte("text"))
	return c, nil
}

func inner(r *millrace.Reader) (c millrace.Chain, err error) {
	for range 3 {
		var part millrace.Chain
		if err := r.ReadChain(&part, 10); err != nil {
			c.Release()
			return c, err
		}
		c.Merge(&part)
	}
	return c, nil
}

func writer(conn net.Conn, lines []string) error {
	w := millrace.NewWriter(conn)
	for _, line := range lines {
		if _, err := w.WriteString(line); err != nil {
			return err // a Writer that has failed holds no memory
		}
	}
	return w.Flush()
}

func takenAndFilled(conns []*millrace.Writer, c *millrace.Chain) {
	var share millrace.Chain
	for _, w := range conns {
		c.CloneTo(&share)
		w.WriteChain(&share)
	}
	share.Release()
}

func drain(refs []millrace.Ref) {
	for i := range refs {
		refs[i].Release()
	}
	for len(refs) > 0 {
		refs[0].Release()
		refs = refs[1:]
	}
}

func pieces(c *millrace.Chain, w io.Writer) {
	var head millrace.Chain
	c.CutTo(&head, 10)
	for p := range head.All() {
		w.Write(p)
	}
	head.Release()
}

func constantLoop(p *millrace.Pool, use func(*millrace.Draft)) {
	d := p.Get(1)
	for range 4 {
		use(&d)
	}
}

func TestFailure(t *testing.T) {
	r := millrace.NewReader(bytes.NewReader(nil))
	defer r.Release()
	ref, err := r.ReadRef(1)
	if err == nil {
		t.Errorf("%q without an error", ref.Bytes())
	}
}

func tryQueue(p *millrace.Pool, queue chan millrace.Ref, done chan bool) bool {
	d := p.Get(1)
	r := d.Freeze(1)
	select {
	case queue <- r:
		return true
	case <-done:
		r.Release()
	default:
		r.Release()
	}
	return false
}

type client struct{ d *frame.Decoder }

func wrapped(conn net.Conn) *client {
	return &client{d: frame.NewDecoder(millrace.NewReader(conn), frame.Uint16(nil))}
}

func failover(c *millrace.Chain, conns []net.Conn) (err error) {
	var share millrace.Chain
	c.CloneTo(&share)
	defer share.Release()
	for _, conn := range conns {
		if _, err = share.WriteTo(conn); err == nil {
			return nil
		}
	}
	return err
}

func dropBody(c, body *millrace.Chain, drop bool) {
	if drop {
		body.Release()
	}
	c.Merge(body)
}

func eitherSource(a, b *millrace.Reader, yes bool) (err error) {
	var ref millrace.Ref
	if yes {
		ref, err = a.ReadRef(1)
	} else {
		ref, err = b.ReadRef(1)
	}
	if err != nil {
		return err
	}
	defer ref.Release()
	_, err = io.Discard.Write(ref.Bytes())
	return err
}

func retry(r *millrace.Reader) (ref millrace.Ref, err error) {
	for range 3 {
		if ref, err = r.ReadRef(1); err == nil {
			break
		}
	}
	return ref, err
}

func untilDone(c *millrace.Chain, w io.Writer) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.WriteTo(w)
	}()
	for range done {
	}
	c.Release()
}

func longLine(r *millrace.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, io.ErrShortBuffer) {
			return line, err
		}
	}
}

func pooled(p *sync.Pool, r *millrace.Reader) error {
	c := p.Get().(*millrace.Chain)
	defer p.Put(c)
	if err := r.ReadChain(c, 1); err != nil {
		return err
	}
	c.Release()
	return nil
}

func stack(refs *[]millrace.Ref, r *millrace.Reader) error {
	ref, err := r.ReadRef(1)
	if err != nil {
		return err
	}
	*refs = append(*refs, ref)
	return nil
}

type field struct{ name, value []byte }

func parse(line []byte) (f field) {
	f.name, f.value, _ = bytes.Cut(line, []byte(":"))
	return f
}

func parsedAndCopied(r *millrace.Reader) (all []field, names [][]byte, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return all, names, err
		}
		f := parse(line)
		f.name, f.value = bytes.Clone(f.name), bytes.Clone(f.value)
		all = append(all, f)
		words := bytes.Fields(line)
		for i := range words {
			words[i] = bytes.Clone(words[i])
		}
		names = append(names, words...)
	}
}

func linesOfChunk(ctx context.Context, r *chunk.Reader, handle func([][]byte)) error {
	for p, err := range r.Chunks(ctx) {
		if err != nil {
			return err
		}
		var all [][]byte
		var last field
		for line := range bytes.Lines(p) {
			all = append(all, line)
			last.value = line
		}
		handle(append(all, last.value))
	}
	return nil
}

func linesOfSlice(r *millrace.Reader, handle func([][]byte)) error {
	for {
		p, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		var all [][]byte
		byName := map[string][]byte{}
		for word := range bytes.FieldsSeq(p) {
			all = append(all, word)
			byName[string(word)] = word
		}
		handle(append(all, byName["host"]))
	}
}

func skipComments(r *millrace.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	for err == nil && line[0] == '#' {
		line, err = r.ReadSlice('\n')
	}
	if err != nil {
		return "", err
	}
	if len(line) > 100 {
		line = bytes.Clone(line)
		if _, err := r.ReadByte(); err != nil {
			return "", err
		}
	}
	return string(line), nil
}

func previous(r *millrace.Reader) (n int) {
	var last []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return n
		}
		if bytes.Equal(line, last) {
			n++
		}
		last = append(last[:0], line...)
	}
}

func lengthAfterCall(c *millrace.Chain, w *millrace.Writer) error {
	n := c.Len()
	if err := w.WriteChain(c); err != nil {
		return err
	}
	if c.Len() != 0 {
		panic("not empty")
	}
	c.AppendCopy([]byte("text"))
	println(n, c.Len())
	return nil
}

func sliceUsedAgain(r *millrace.Reader, handle func([][]byte)) error {
	var words [][]byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		words = words[:0]
		for _, word := range bytes.Fields(line) {
			words = append(words, word)
		}
		handle(words)
	}
}
