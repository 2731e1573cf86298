package chunk

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"

	"github.com/millrace-io/millrace"
)

// tagging says what entity tags are made of.
type tagging struct {
	on      bool
	content int64 // files of up to so many bytes: of what is in them; others: of their stamp
}

// tagBytes is how much of a SHA-256 makes a tag: two files that anybody serves do not meet within 96 bits.
const tagBytes = 12

// tag returns d's entity tag, or "".
func (c *descriptors) tag(d *descriptor) (string, error) {
	if !c.tagging.on {
		return "", nil
	}
	hash := sha256.New()
	if d.stamp.size <= c.tagging.content {
		if err := c.turns.acquire(context.Background()); err != nil { // a file is opened for all who want it
			return "", err
		}
		defer c.turns.release()
		block := millrace.DefaultPool.Get(coldBlock)
		defer block.Release()
		if _, err := io.CopyBuffer(hash, struct{ io.Reader }{d.content()}, block.Bytes()); err != nil {
			return "", err
		}
	} else {
		for _, v := range []uint64{
			uint64(d.stamp.size), uint64(d.stamp.mtime), uint64(d.stamp.ctime), d.stamp.dev, d.stamp.ino,
		} {
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], v)
			hash.Write(b[:])
		}
	}
	return `"` + hex.EncodeToString(hash.Sum(nil)[:tagBytes]) + `"`, nil
}
