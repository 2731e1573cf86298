package chunk

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// A fileVersion identifies a version of a file. If the file system records all fields, at least one
// field changes when the file's bytes change.
type fileVersion struct {
	size, modified, changed int64 // size in bytes; times in Unix nanoseconds
	device, inode           uint64
}

// tagBytes is the number of bytes of a SHA-256 hash that an entity tag contains.
const tagBytes = 12

// etag returns a strong entity tag for the version. The tag is a hash, because clients must not
// learn inode numbers.
func (v fileVersion) etag() string {
	var b [5 * 8]byte
	for i, n := range [...]uint64{uint64(v.size), uint64(v.modified), uint64(v.changed), v.device,
		v.inode} {
		binary.BigEndian.PutUint64(b[8*i:], n)
	}
	sum := sha256.Sum256(b[:])
	return quoteTag(sum[:])
}

func quoteTag(sum []byte) string {
	var tag [2 + 2*tagBytes]byte
	tag[0], tag[len(tag)-1] = '"', '"'
	hex.Encode(tag[1:], sum[:tagBytes])
	return string(tag[:])
}
