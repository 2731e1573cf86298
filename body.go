package millrace

import (
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
)

// A Body reads the bytes of a Chain as the body of a request. A Body has its own share of the
// bytes, and Close releases that share. A Body implements io.ReadSeekCloser, io.ReaderAt and
// io.WriterTo, as HTTP clients and S3 libraries expect.
//
// The net/http Transport may still read a request body after Do has returned, for example if the
// server answered early. The Transport closes the body when it has finished. A Body therefore stays
// valid until Close, even if the Chain is released earlier.
//
// All methods may be called on any goroutine, and Close may be called during any of them. After
// Close, the other methods return an error that wraps [fs.ErrClosed].
type Body struct {
	size int

	mu     sync.Mutex
	chain  *Chain // from takeChain; nil after Close
	reader ChainReader
	closed bool
	place  *place // nil if the Body does not belong to a Spool
}

// A place is the slot that one part occupies in its Spool. All Bodies of the part share the place.
type place struct {
	users atomic.Int32 // open Bodies, and running calls to WriteTo
	spool *Spool
}

func (p *place) add() {
	if p != nil {
		p.users.Add(1)
	}
}

// done must be called once by each user of the place. The last call frees the place's slot in the
// Spool.
func (p *place) done() {
	if p != nil && p.users.Add(-1) == 0 {
		<-p.spool.slots
	}
}

// idleChains keeps empty Chains with their lists of pieces, for the next Bodies. Without it, each
// part of an upload leaves kilobytes of garbage. If most of the heap is parts in memory, the garbage
// collector lets this garbage grow as large as the parts.
var idleChains = sync.Pool{New: func() any { return new(Chain) }}

// takeChain returns an empty Chain. The caller must pass the Chain to dropChain.
func takeChain() *Chain { return idleChains.Get().(*Chain) }

// dropChain releases the bytes of c. The caller must not use c again. The argument list is c.many
// while c has bytes, because an emptied Chain does not keep a long list.
func dropChain(c *Chain, list []Ref) {
	c.Release()
	*c = Chain{many: list[:0]}
	idleChains.Put(c)
}

// Body returns a Body of all bytes of c. It borrows c: the Body shares the bytes, and c keeps them.
//
// If three fields of a [net/http.Request] are set as follows, redirects and retries can send the
// bytes again until c is released. Set the fields only after http.NewRequest has succeeded, because
// nothing closes a Body if NewRequest fails:
//
//	req.Body = c.Body()
//	req.ContentLength = int64(c.Len())
//	req.GetBody = func() (io.ReadCloser, error) { return c.Body(), nil }
func (c *Chain) Body() *Body {
	b := newBody()
	b.size = c.size
	c.CloneTo(b.chain)
	return b
}

// newBody returns an open Body without bytes.
func newBody() *Body {
	c := takeChain()
	return &Body{chain: c, reader: ChainReader{c: c}}
}

// Clone returns another Body of all bytes of b, positioned at the first byte. The caller must close
// the Clone, unless a Transport does. A Clone of a closed Body is closed.
//
// A retry needs a Clone, because the Transport may still read the earlier Body.
func (b *Body) Clone() *Body {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return &Body{size: b.size, closed: true}
	}
	c := newBody()
	c.size, c.place = b.size, b.place
	b.chain.CloneTo(c.chain)
	c.place.add()
	return c
}

// Len returns the length of the whole Body in bytes, even after reads and after Close.
func (b *Body) Len() int { return b.size }

// lock acquires b.mu. If b is closed, it returns an error and does not hold b.mu. The argument op
// is the name of the operation, for the error.
func (b *Body) lock(op string) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return fmt.Errorf("millrace: %s of a Body: %w", op, fs.ErrClosed)
	}
	return nil
}

// Read copies the next bytes into p. It returns io.EOF at the end.
func (b *Body) Read(p []byte) (int, error) {
	if err := b.lock("Read"); err != nil {
		return 0, err
	}
	defer b.mu.Unlock()
	return b.reader.Read(p)
}

// ReadAt is like [ChainReader.ReadAt].
func (b *Body) ReadAt(p []byte, off int64) (int, error) {
	if err := b.lock("ReadAt"); err != nil {
		return 0, err
	}
	defer b.mu.Unlock()
	return b.reader.ReadAt(p, off)
}

// Seek is like [ChainReader.Seek].
func (b *Body) Seek(offset int64, whence int) (int64, error) {
	if err := b.lock("Seek"); err != nil {
		return 0, err
	}
	defer b.mu.Unlock()
	return b.reader.Seek(offset, whence)
}

// WriteTo writes the unread bytes to w, as [ChainReader.WriteTo] does. If Close is called
// meanwhile, WriteTo continues, and releases the bytes when it returns.
func (b *Body) WriteTo(w io.Writer) (int64, error) {
	if err := b.lock("WriteTo"); err != nil {
		return 0, err
	}
	rest := takeChain()
	from := min(b.reader.at, int64(b.size))
	b.chain.SliceTo(rest, int(from), b.size)
	b.place.add()
	b.mu.Unlock()

	defer b.place.done()
	defer dropChain(rest, rest.many)
	n, err := rest.WriteTo(w)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.reader.Seek(from+n, io.SeekStart)
	}
	return n, err
}

// Close releases the bytes. A second Close does nothing. The error is always nil.
func (b *Body) Close() error {
	if b.lock("Close") != nil {
		return nil
	}
	b.closed = true
	dropChain(b.chain, b.chain.many)
	b.chain, b.reader.c = nil, nil
	b.mu.Unlock()
	b.place.done()
	return nil
}
