package chunk

import (
	"context"
	"crypto/sha256"
	"io"
	"sync"
	"time"
)

const (
	maxTaggedSize = 16 << 20 // largest file that gets a tag, in bytes
	maxTags       = 1 << 12
)

// A contentTags makes entity tags from the content of files that have no modification time. It
// keeps up to maxTags tags.
type contentTags struct {
	mu   sync.Mutex
	tags map[taggedFile]string
}

type taggedFile struct {
	name string
	size int64
}

// isUnset reports whether t is the zero time or the Unix epoch. net/http sends no Last-Modified for
// these times.
func isUnset(t time.Time) bool { return t.IsZero() || t.Equal(time.Unix(0, 0)) }

// tag returns the entity tag of the file with the given name and size, or "" if the file is too
// large or cannot be read. The file must be at its start. If tag reads the file, it seeks back to
// the start.
func (c *contentTags) tag(name string, file io.ReadSeeker, size int64) string {
	if size > maxTaggedSize {
		return ""
	}
	key := taggedFile{name, size}
	c.mu.Lock()
	tag, ok := c.tags[key]
	c.mu.Unlock()
	if ok {
		return tag
	}
	hash := sha256.New()
	copying := copying{ctx: context.Background()}
	err := copying.copyThroughMemory(hash, io.LimitReader(file, maxTaggedSize))
	if _, seekErr := file.Seek(0, io.SeekStart); err != nil || seekErr != nil {
		return ""
	}
	tag = quoteTag(hash.Sum(nil))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tags) >= maxTags {
		for old := range c.tags {
			delete(c.tags, old)
			break
		}
	}
	c.tags[key] = tag
	return tag
}
