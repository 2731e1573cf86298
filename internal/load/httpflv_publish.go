package load

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
)

// flvPublication sends each tag as one chunk of a request body, in one write.
type flvPublication struct {
	conn    net.Conn
	release func() error
	buf     []byte
	head    bool // the FLV header has been sent

	ready    chan struct{} // closed when the server has asked for the body
	answered chan struct{} // closed when the server has answered or gone
	mu       sync.Mutex
	refusal  error // valid once answered is closed; nil for a 2xx
}

const (
	// A server that does not know Expect says nothing. It gets the body then.
	expectTime = time.Second
	// What is left to a publisher to end its body, and to the server to answer.
	endTime = 3 * time.Second
)

// Publish implements Protocol. It asks to be let in before it sends anything,
// so that a refusal is one and not a connection that breaks.
func (h *httpFLV) Publish(ctx context.Context, name string) (Publication, error) {
	more := "Content-Type: video/x-flv\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
	conn, release, err := h.open(ctx, h.dial, h.head("POST", name, more), func(c net.Conn) {
		c.SetDeadline(time.Now().Add(endTime)) // not at once: the body is to have its end
	})
	if err != nil {
		return nil, err
	}
	p := &flvPublication{conn: conn, release: release, ready: make(chan struct{}), answered: make(chan struct{})}
	go p.listen()
	if err := p.admitted(ctx); err != nil {
		release()
		<-p.answered
		return nil, err
	}
	return p, nil
}

// admitted waits until the server asks for the body, or for as long as one may
// wait for that.
func (p *flvPublication) admitted(ctx context.Context) error {
	patience := time.NewTimer(expectTime)
	defer patience.Stop()
	select {
	case <-p.ready:
	case <-patience.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.answered:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refusal
	}
	return nil
}

// listen waits for the answer, which comes early when it is a refusal. Then
// the connection is closed, so that a writer learns of it.
func (p *flvPublication) listen() {
	defer close(p.answered)
	r := millrace.NewReaderSize(p.conn, 1024)
	defer r.Release()
	asked := false
	code, _, err := readOneHead(r)
	for err == nil && code < 200 {
		if code == http.StatusContinue && !asked {
			asked = true
			close(p.ready)
		}
		code, _, err = readOneHead(r)
	}
	if err != nil {
		p.mu.Lock()
		p.refusal = err
		p.mu.Unlock()
		p.conn.Close()
	}
}

// chunkHead is the length of a chunk in six hexadecimal digits, and CRLF.
const chunkHead = 8

func (p *flvPublication) WriteTag(t Tag) error {
	b := p.buf[:0]
	b = append(b, "000000\r\n"...)
	if !p.head {
		p.head = true
		b = append(b, "FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"...)
	}
	n := len(t.Payload)
	b = append(b, t.Kind, byte(n>>16), byte(n>>8), byte(n),
		byte(t.Timestamp>>16), byte(t.Timestamp>>8), byte(t.Timestamp), byte(t.Timestamp>>24), 0, 0, 0)
	b = append(b, t.Payload...)
	b = binary.BigEndian.AppendUint32(b, uint32(11+n))
	putHex(b[:chunkHead-2], len(b)-chunkHead)
	b = append(b, "\r\n"...)
	p.buf = b
	if _, err := p.conn.Write(b); err != nil {
		return p.explain(err)
	}
	return nil
}

// putHex fills p with the last digits of n.
func putHex(p []byte, n int) {
	for i := len(p) - 1; i >= 0; i-- {
		p[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
}

// explain prefers what the server said to what the connection did. The answer
// may be a moment behind the error that it caused.
func (p *flvPublication) explain(err error) error {
	select {
	case <-p.answered:
	case <-time.After(time.Second):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var refused *RefusedError
	if errors.As(p.refusal, &refused) || errors.Is(err, net.ErrClosed) && p.refusal != nil {
		return p.refusal
	}
	return err
}

// Close ends the body and waits a moment for the server to say that it has it.
// A server frees the stream's name before it says so.
func (p *flvPublication) Close() error {
	defer p.release()
	p.conn.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(p.conn, "0\r\n\r\n"); err != nil {
		return p.explain(err)
	}
	select {
	case <-p.answered:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refusal
	case <-time.After(2 * time.Second):
		return nil
	}
}
