package chunk

import (
	"fmt"

	"github.com/millrace-io/millrace"
)

const (
	// The options say why.
	defaultSize      = 64 << 10
	defaultDepth     = 3
	defaultMaxRecord = 1 << 20

	// mostBytes bounds sizes, so that they can be doubled and fit into a block.
	mostBytes = 1 << 30
)

// A ReaderOption changes what [NewReader] makes. Options panic when a value is out of range.
type ReaderOption func(*Reader)

// Size is the largest number of bytes in a chunk, unless a single record is longer: up to 1 GiB. The default is 64 KiB:
// a read of that costs less than what is done with the bytes, and they stay in the processor's second cache until it is
// done. Blocks come in powers of two: another size wastes the rest of each block.
func Size(bytes int) ReaderOption {
	inRange("Size", bytes, mostBytes)
	return func(r *Reader) { r.size = bytes }
}

// Depth is how many chunks may be read ahead of those that Next has given, the one that is being read among them. They
// hold up to Depth blocks of Size, and larger ones where records are longer. The default is 3, so that the source may be
// late by three chunks' work before anybody waits for it, for up to 192 KiB per Reader.
func Depth(chunks int) ReaderOption {
	inRange("Depth", chunks, mostBytes)
	return func(r *Reader) { r.depth = chunks }
}

// At cuts the chunks where records end. Without it they are cut anywhere.
func At(c Cutter) ReaderOption {
	if c == nil {
		panic("chunk: At(nil)")
	}
	return func(r *Reader) { r.cutter = c }
}

// MaxRecord is how many bytes a record may have, its end included, before the Reader fails with a [RecordError]: up to
// 1 GiB. The default is 1 MiB, the largest block that a Pool keeps, and more than any record that was meant as one:
// whoever sends more has forgotten its end, or wants to see how much memory there is. A record that fits into a chunk is
// never refused, so that a limit below Size is one of Size.
func MaxRecord(bytes int) ReaderOption {
	inRange("MaxRecord", bytes, mostBytes)
	return func(r *Reader) { r.limit = bytes }
}

// From takes the blocks from p instead of millrace.DefaultPool.
func From(p *millrace.Pool) ReaderOption {
	if p == nil {
		panic("chunk: From(nil)")
	}
	return func(r *Reader) { r.pool = p }
}

// Full waits until a chunk is as full as it can be, even while Next waits and there are whole records to give. Where
// chunks end then depends on the bytes alone. It is for sources that never wait for an answer to what they sent.
func Full() ReaderOption {
	return func(r *Reader) { r.full = true }
}

// CloseSource makes Close close the source, which must be an io.Closer. That also ends a Read that hangs in a source
// without SetReadDeadline, such as an io.PipeReader, if the source's Close does end it.
func CloseSource() ReaderOption {
	return func(r *Reader) { r.owned = true }
}

func inRange(name string, n, most int) {
	if n < 1 {
		panic(fmt.Sprintf("chunk: %s(%d) is below 1", name, n))
	}
	if n > most {
		panic(fmt.Sprintf("chunk: %s(%d) is above %d", name, n, most))
	}
}
