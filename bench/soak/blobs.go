package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

const (
	// blobKeys is the number of blob keys on each server. It is small, so that blobs are replaced
	// while they are read.
	blobKeys = 12
	// blobHead is the size in bytes of the header at the start of each blob. The header contains a
	// hash of the key, the sequence number of the write (see useBlob), and the size of the blob.
	blobHead = 24
	blobRest = 25 * time.Millisecond // pause after each request
	// A store may expire a blob up to expirySlack too early or too late, because file systems have
	// a coarse clock.
	expirySlack = 50 * time.Millisecond
)

// A blob records the writes to one key. The writes, including deletions, are numbered from 1.
//
// A write is outdated if the server has confirmed a later write, or has returned a later value. A
// read that starts after a write has become outdated must not return the value of that write.
type blob struct {
	key     string
	writing sync.Mutex // held while a write is in progress

	mu      sync.Mutex
	begun   uint64 // number of the newest write, which may be in progress
	floor   uint64 // number of the oldest write that is not outdated
	deleted uint64 // number of the newest deletion
}

func newBlobs(name string) (list []*blob) {
	for i := range blobKeys {
		list = append(list, &blob{key: fmt.Sprintf("soak/%s/%d", name, i)})
	}
	return list
}

func (b *blob) begin(deletes bool) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.begun++
	if deletes {
		b.deleted = b.begun
	}
	return b.begun
}

func (b *blob) confirm(write uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.floor = max(b.floor, write)
}

func (b *blob) oldest() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.floor
}

// checkFound checks a read that has returned the value of a write. It returns an error if the write
// was outdated before the read, or was never started. Otherwise, it marks all earlier writes as
// outdated. The parameter oldest is the result of [blob.oldest] before the read.
func (b *blob) checkFound(oldest, write uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if write < oldest || write > b.begun {
		return wrong("blob %s: found write %d, want %d (confirmed or seen before) to %d", b.key,
			write, oldest, b.begun)
	}
	b.floor = max(b.floor, write)
	return nil
}

// checkAbsent checks a read that has found no blob. It returns an error if the blob was written and
// has not been deleted since. The parameter oldest is the result of [blob.oldest] before the read.
func (b *blob) checkAbsent(oldest uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deleted < oldest {
		return wrong(
			"blob %s is not there, though write %d was confirmed or seen, and none has deleted it",
			b.key, oldest)
	}
	return nil
}

func (c *cycle) useBlob(url string, _ context.Context, r *rand.Rand) error {
	b := c.blobs[r.IntN(len(c.blobs))]
	url += "/blobs/" + b.key
	c.done.add(blobRequests, 1)
	defer sleep.For(c.working, blobRest)
	way := r.IntN(20)
	if way < 12 {
		return c.get(b, url)
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	if way == 12 {
		return c.remove(b, url)
	}
	write, size := b.begin(false), blobSize(r)
	if way == 13 {
		err := c.putBlob(b.key, write, size, r.Int64N(size), url)
		if err == nil {
			return wrong("blob %s: the server says that it has a value that broke off", b.key)
		}
		if errors.Is(err, errBreakOff) {
			return nil
		}
		return err
	}
	err := c.putBlob(b.key, write, size, size, url)
	if err == nil {
		b.confirm(write)
	}
	return err
}

// blobSize returns a random size. A few sizes are so large that the server does not hold the
// complete blob in memory.
func blobSize(r *rand.Rand) int64 {
	switch n := r.IntN(50); {
	case n == 0:
		return blobHead + r.Int64N(3<<20)
	case n < 12:
		return blobHead + r.Int64N(256<<10)
	}
	return blobHead + 1 + r.Int64N(16<<10)
}

// blobBody returns the header of a blob, and the content id of the bytes that follow.
func blobBody(key string, write uint64, size int64) (id uint64, head []byte) {
	head = binary.BigEndian.AppendUint64(nil, contentOf(key))
	head = binary.BigEndian.AppendUint64(head, write)
	return contentOf(key) ^ mix(write), binary.BigEndian.AppendUint64(head, uint64(size))
}

// putBlob uploads a blob of the given size. If n is less than size, putBlob sends only n bytes,
// pauses, and aborts the request. The pause gives a faulty server time to report success.
func (c *cycle) putBlob(key string, write uint64, size, n int64, url string,
	header ...string) error {
	id, head := blobBody(key, write, size)
	body := io.MultiReader(bytes.NewReader(head[:min(blobHead, n)]),
		&content{id: id, off: blobHead, end: n})
	if n < size {
		body = io.MultiReader(body, readerFunc(func() error {
			sleep.For(c.working, 75*time.Millisecond)
			return errBreakOff
		}))
	}
	length := size
	if write%2 == 0 {
		length = -1 // send the body chunked
	}
	res, err := c.send(http.MethodPut, url, body, length,
		[]int{http.StatusCreated, http.StatusNoContent}, header...)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// A readerFunc is an io.Reader without data. Its Read method returns the error of the function.
type readerFunc func() error

func (f readerFunc) Read([]byte) (int, error) { return 0, f() }

func missing(err error) bool {
	var status *statusError
	return errors.As(err, &status) && status.status == http.StatusNotFound
}

func (c *cycle) remove(b *blob, url string) error {
	absent := b.checkAbsent(b.oldest()) // used if the server says that b is missing
	write := b.begin(true)
	res, err := c.do(http.MethodDelete, url, http.StatusNoContent)
	if missing(err) {
		err = absent
	} else if err == nil {
		err = res.Body.Close()
	}
	if err == nil {
		b.confirm(write)
	}
	return err
}

func (c *cycle) get(b *blob, url string) error {
	oldest := b.oldest()
	write, err := c.readBlob(b.key, url)
	if missing(err) {
		return b.checkAbsent(oldest)
	}
	if err != nil {
		return err
	}
	return b.checkFound(oldest, write)
}

// readBlob checks all bytes of a blob and returns the number of the write that stored it.
func (c *cycle) readBlob(key, url string) (write uint64, err error) {
	res, err := c.do(http.MethodGet, url, http.StatusOK)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	got := make([]byte, blobHead)
	if _, err := io.ReadFull(res.Body, got); err != nil {
		return 0, fmt.Errorf("blob %s: %w", key, err)
	}
	write, size := binary.BigEndian.Uint64(got[8:]), int64(binary.BigEndian.Uint64(got[16:]))
	id, head := blobBody(key, write, size)
	if string(head) != string(got) {
		return 0, wrong("blob %s begins with %x", key, got)
	}
	want := &content{what: "blob " + key, id: id, off: blobHead}
	n, err := io.Copy(want, res.Body)
	c.done.add(checked, n)
	if err == nil && want.off != size {
		err = wrong("blob %s has %d bytes, but was put with %d (write %d)", key, want.off, size,
			write)
	}
	return write, err
}

// inspect checks that the server has lost no confirmed write.
func (c *cycle) inspect() error {
	url, _, err := c.await(c.hard)
	if err != nil {
		return err
	}
	for _, b := range c.blobs {
		if err := c.get(b, url+"/blobs/"+b.key); err != nil {
			return err
		}
	}
	return nil
}

// expire stores a blob with a short lifetime, and checks that the blob exists until its lifetime is
// over, and not longer.
func (c *cycle) expire(url string, _ context.Context, r *rand.Rand) error {
	key := "soak/" + c.name + "/expires"
	url += "/blobs/" + key
	c.done.add(blobRequests, 1)
	ttl := 100*time.Millisecond + time.Duration(r.Int64N(int64(300*time.Millisecond)))
	write, size := r.Uint64(), blobSize(r)
	began := time.Now()
	if err := c.putBlob(key, write, size, size, url, "Millrace-TTL", ttl.String()); err != nil {
		return err
	}
	confirmed := time.Now()
	got, err := c.readBlob(key, url)
	switch {
	case missing(err) && time.Since(began) < ttl-expirySlack:
		return wrong("blob %s is gone before its time of %v is over", key, ttl)
	case err != nil && !missing(err):
		return err
	case err == nil && got != write:
		return wrong("blob %s is that of write %d, want %d", key, got, write)
	}
	sleep.For(c.hard, ttl+expirySlack-time.Since(confirmed))
	if _, err = c.readBlob(key, url); err == nil {
		return wrong("blob %s is there %v after its time of %v was over", key,
			time.Since(confirmed)-ttl, ttl)
	}
	if missing(err) {
		return nil
	}
	return err
}
