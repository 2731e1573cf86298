package leak

import (
	"errors"
	"io"
	"net/http"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/frame"
)

var errShort = errors.New("short")

func earlyReturn(r *millrace.Reader) error {
	var c millrace.Chain
	if err := r.ReadChain(&c, 10); err != nil { // want `c is not released on the path that ends at line 23`
		return err
	}
	if c.Len() < 10 {
		return errShort
	}
	c.Release()
	return nil
}

func makeRef(p *millrace.Pool) millrace.Ref {
	d := p.Get(10)
	return d.Freeze(10)
}

func fromHelper(p *millrace.Pool) int {
	r := makeRef(p) // want `r is not released`
	return len(r.Bytes())
}

func fromHelperWithError(read func() (millrace.Ref, error)) (int, error) {
	r, err := read() // want `r is not released`
	if err != nil {
		return 0, err
	}
	return len(r.Bytes()), nil
}

func inLoop(refs chan int, p *millrace.Pool) {
	for n := range refs {
		r := makeRef(p) // want `r is not released on the path that ends at line`
		if n == 0 {
			continue
		}
		r.Release()
	}
}

func inSwitch(kind int, p *millrace.Pool, out chan millrace.Ref) {
	r := makeRef(p) // want `r is not released on the path that ends at line 65`
	switch kind {
	case 1:
		out <- r
	case 2:
		r.Release()
	case 3:
		println(r.Len())
	}
}

func received(in chan millrace.Ref) (n int) {
	for r := range in { // want `r is not released`
		n += len(r.Bytes())
	}
	return n
}

func overwritten(p *millrace.Pool) {
	r := makeRef(p) // want `r is not released before it is overwritten at line`
	r = makeRef(p)
	r.Release()
}

func ignored(p *millrace.Pool) {
	makeRef(p)      // want `the millrace.Ref that this call returns is not released`
	_ = makeRef(p)  // want `the millrace.Ref that this call returns is not released`
	_ = p.Get(1000) // want `the millrace.Draft that this call returns is not released`
}

func builder(w io.Writer, lines []string) {
	var c millrace.Chain
	for _, line := range lines {
		c.AppendCopy([]byte(line)) // want `c is not released`
	}
	for p := range c.All() {
		w.Write(p)
	}
}

func partialWrite(w io.Writer, p []byte) error {
	var c millrace.Chain
	c.AppendCopy(p) // want `c is not released on the path that ends at line`
	if _, err := c.WriteTo(w); err != nil {
		return err
	}
	return nil
}

func show(c *millrace.Chain) { println(len(c.Bytes())) }

func borrowedByHelper() {
	var c millrace.Chain
	c.AppendCopy([]byte("text")) // want `c is not released`
	show(&c)
}

func inClosure(p *millrace.Pool) func() int {
	return func() int {
		r := makeRef(p) // want `r is not released`
		return len(r.Bytes())
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func generic(r *millrace.Reader) int {
	ref := must(r.ReadRef(5)) // want `ref is not released`
	return len(ref.Bytes())
}

func body(c *millrace.Chain) []byte {
	b := c.Body() // want `the millrace.Body is not ended with Close`
	p, _ := io.ReadAll(b)
	return p
}

func bodyOnError(c *millrace.Chain, url string) (*http.Request, error) {
	b := c.Body() // want `the millrace.Body is not ended with Close on the path`
	if url == "" {
		return nil, errShort
	}
	return http.NewRequest("PUT", url, b)
}

func newReader(src io.Reader) *millrace.Reader { return millrace.NewReader(src) }

func readerOfHelper(src io.Reader) (byte, error) {
	r := newReader(src) // want `the millrace.Reader is not released`
	return r.ReadByte()
}

func arenaFrame(p *arena.Pool) int {
	p.Write([]byte("text"))
	s := p.Take() // want `s is not released`
	return len(s.Bytes())
}

func decoded(d *frame.Decoder, p *arena.Pool) error {
	s, h, err := d.NextInto(p) // want `s is not released on the path`
	if err != nil {
		return err
	}
	if h.Payload == 0 {
		return errShort
	}
	s.Release()
	return nil
}

func cursor(r *broadcast.Ring) int {
	c := r.Cursor() // want `the broadcast.Cursor is not ended with Close`
	return c.Lag().Frames
}

func chunks(r *chunk.Reader, req *http.Request) error {
	for {
		ref, err := r.Next(req.Context()) // want `ref is not released on the path`
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(ref.Bytes()) == 0 {
			break
		}
		ref.Release()
	}
	return nil
}

func unflushed(conn io.Writer) error {
	w := millrace.NewWriter(conn) // want `the millrace.Writer is not flushed or released`
	if _, err := w.WriteString("text"); err != nil {
		return err
	}
	return nil
}

func readInto(p *millrace.Pool, src io.Reader) (millrace.Ref, error) {
	d := p.Get(100) // want `d is not released on the path`
	n, err := io.ReadFull(src, d.Bytes()[:100])
	if err != nil {
		return millrace.Ref{}, err
	}
	return d.Freeze(n), nil
}

func popped(c *millrace.Chain, w io.Writer) {
	for c.Len() > 0 {
		r := c.Pop() // want `r is not released`
		w.Write(r.Bytes())
	}
}

func borrowedByGoroutine(p *millrace.Pool, handle func([]byte)) {
	r := makeRef(p) // want `r is not released`
	go func() { handle(r.Bytes()) }()
}

func fullQueue(p *millrace.Pool, queue chan millrace.Ref) {
	for range 10 {
		r := makeRef(p) // want `the millrace.Ref is not released on the path`
		select {
		case queue <- r:
		default:
			println("the queue is full")
		}
	}
}

func onlySent(p *millrace.Pool, queue chan<- millrace.Ref, yes bool) {
	r := makeRef(p) // want `the millrace.Ref is not released`
	if yes {
		queue <- r
	}
}

func decoder(conn io.Reader) (n int, err error) {
	r := millrace.NewReader(conn) // want `the millrace.Reader is not released`
	d := frame.NewDecoder(r, frame.Uint16(nil))
	var c millrace.Chain
	defer c.Release()
	_, err = d.Next(&c)
	return c.Len(), err
}

func tail(p []byte) (int, error) {
	t, err := chunk.OpenTail("access.log", chunk.Position{}) // want `the chunk.Tail is not ended with Close on the path`
	if err != nil {
		return 0, err
	}
	return t.Read(p)
}

func closedTail(p []byte) (int, error) {
	t, err := chunk.OpenTail("access.log", chunk.Position{})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	return t.Read(p)
}
