package soak

import (
	"encoding/binary"
	"hash/fnv"
	"io"
)

// valueHead is what a blob begins with: a word that none other has, its key, the number of the write, its length.
const (
	valueHead  = 32
	valueMagic = "soakblob"
)

// A value is a blob that says what it is: key, number of the write, and length stand in it, and all other bytes follow from
// them. Its length is at least valueHead.
type value struct {
	key    uint64
	write  uint64
	length int64
}

func keyNumber(key string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	return h.Sum64()
}

func (v value) head() []byte {
	b := append(make([]byte, 0, valueHead), valueMagic...)
	b = binary.BigEndian.AppendUint64(b, v.key)
	b = binary.BigEndian.AppendUint64(b, v.write)
	return binary.BigEndian.AppendUint64(b, uint64(v.length))
}

// content is the number of what is behind the head.
func (v value) content() uint64 { return mix(v.key ^ mix(v.write)) }

// fill writes what the value has from offset off on.
func (v value) fill(p []byte, off int64) {
	if off < valueHead {
		n := copy(p, v.head()[off:])
		p, off = p[n:], off+int64(n)
	}
	fill(p, v.content(), off)
}

// readValue reads a blob under key to its end, and returns it if it is whole and every byte is right.
func readValue(r io.Reader, key string) (value, error) {
	head := make([]byte, valueHead)
	if _, err := io.ReadFull(r, head); err != nil {
		if err == io.EOF {
			return value{}, wrong("blob %s is empty", key)
		}
		return value{}, err
	}
	v := value{
		key:    binary.BigEndian.Uint64(head[8:]),
		write:  binary.BigEndian.Uint64(head[16:]),
		length: int64(binary.BigEndian.Uint64(head[24:])),
	}
	if string(head[:8]) != valueMagic || v.key != keyNumber(key) || v.length < valueHead {
		return value{}, wrong("blob %s begins with %x, which nobody put there", key, head)
	}
	to := &contentVerifier{what: "blob " + key, id: v.content(), off: valueHead}
	if _, err := io.Copy(to, r); err != nil {
		return value{}, err
	}
	if to.off != v.length {
		return value{}, wrong("blob %s has %d bytes, but was put with %d (write %d)", key, to.off, v.length, v.write)
	}
	return v, nil
}
