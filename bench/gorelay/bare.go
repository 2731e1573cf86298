package gorelay

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/internal/load"
)

// A Bare relays live streams with as little work as possible outside the kernel. At a fixed
// interval, the goroutine of a publisher reads the bytes that have arrived and writes them to each
// viewer with one Write. A Bare parses only the lengths of tags, so that each viewer's stream
// begins with a complete tag. It has no limits, and a viewer that stops reading blocks the other
// viewers of the stream.
//
// The body of a publisher's POST request is a sequence of tags, without the FLV header and without
// chunked encoding. It ends when the publisher closes the connection.
type Bare struct {
	beat time.Duration

	mu      sync.Mutex
	streams map[string]*bareStream
}

// NewBare returns a Bare that reads from each publisher at the interval beat. If beat is 0, the
// Bare reads bytes as soon as they arrive.
func NewBare(beat time.Duration) *Bare {
	return &Bare{beat: beat, streams: make(map[string]*bareStream)}
}

// Serve accepts publishers and viewers until the listener fails.
func (b *Bare) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go b.serve(c)
	}
}

func (b *Bare) serve(c net.Conn) {
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	switch {
	case err != nil:
		c.Close()
	case req.Method == http.MethodPost:
		b.publish(c, r, req.URL.Path)
		c.Close()
	default:
		b.stream(req.URL.Path).join(c)
	}
}

func (b *Bare) stream(name string) *bareStream {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.streams[name]
	if st == nil {
		st = new(bareStream)
		b.streams[name] = st
	}
	return st
}

// bareBuffer is enough for 50 ms of a stream of 40 Mbit/s.
const bareBuffer = 256 << 10

// publish relays a stream until the publisher disconnects. The reader r may already hold the first
// bytes of the body.
func (b *Bare) publish(c net.Conn, r *bufio.Reader, name string) {
	st := b.stream(name)
	defer st.end()
	buf := make([]byte, bareBuffer)
	n, err := io.ReadFull(r, buf[:r.Buffered()])
	for next := time.Now(); err == nil; {
		n = copy(buf, buf[st.send(buf[:n]):n])
		if b.beat > 0 {
			next = next.Add(b.beat)
			time.Sleep(time.Until(next))
		}
		var more int
		more, err = c.Read(buf[n:])
		n += more
	}
}

type bareStream struct {
	rest    int        // number of bytes of the current tag that have not arrived
	viewers []net.Conn // viewers that have received the start of the current tag

	mu     sync.Mutex
	joined []net.Conn // viewers that have not received a tag yet
}

// send passes p to the viewers, except for an incomplete tag header at the end. It returns the
// number of bytes sent.
func (st *bareStream) send(p []byte) int {
	first := st.rest // index of the first tag that begins in p
	n := first
	for len(p)-n >= tagHeader {
		size := int(binary.BigEndian.Uint32(p[n:]) & 0xffffff)
		n += tagHeader + size + tagFooter
	}
	if n > len(p) {
		st.rest = n - len(p)
		n = len(p)
	} else {
		st.rest = 0
	}
	st.viewers = slices.DeleteFunc(st.viewers, func(c net.Conn) bool {
		_, err := c.Write(p[:n])
		return err != nil
	})
	if first < n {
		for _, c := range st.takeJoined() {
			if _, err := c.Write(append([]byte(hijackedHead), p[first:n]...)); err == nil {
				st.viewers = append(st.viewers, c)
			}
		}
	}
	return n
}

func (st *bareStream) join(c net.Conn) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.joined = append(st.joined, c)
}

func (st *bareStream) takeJoined() []net.Conn {
	st.mu.Lock()
	defer st.mu.Unlock()
	joined := st.joined
	st.joined = nil
	return joined
}

func (st *bareStream) end() {
	st.rest = 0
	for _, c := range append(st.viewers, st.takeJoined()...) {
		c.Close()
	}
	st.viewers = nil
}

// A BareClient is a client of the [Bare] server at the address Addr.
type BareClient struct {
	load.Protocol // HTTP-FLV, for viewers
	Addr          string
}

// Publish implements load.Protocol. It sends the request that a [Bare] expects.
func (b BareClient) Publish(ctx context.Context, name string) (load.Publication, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", b.Addr)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(c, "POST /live/%s HTTP/1.1\r\nHost: %s\r\n\r\n", name, b.Addr)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &barePublication{c, nil}, nil
}

type barePublication struct {
	net.Conn
	tag []byte
}

func (p *barePublication) WriteTag(t load.Tag) error {
	p.tag = httpflv.AppendTag(p.tag[:0], t)
	_, err := p.Write(p.tag)
	return err
}
