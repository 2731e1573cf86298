package chunk

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// The options say why.
	defaultOpenFiles   = 512
	defaultKeepOpen    = 10 * time.Second
	defaultTrustNames  = time.Second
	defaultColdReaders = 8
	defaultSendBuffer  = 4 << 20

	// maxSendBuffer can be doubled everywhere.
	maxSendBuffer = 1 << 29
)

// A FileOption changes what [FileServer] makes. Options panic when a value is out of range.
type FileOption func(*FileHandler)

// Listing says whether a directory without an index.html is answered with a list of what is in it, as http.FileServer
// does and as is the default. Otherwise the answer is 403.
//
// Lists of more than 2048 names, or 16 KiB of them, are made for 4 clients at a time, from reading the names until the
// client has taken the page; others wait, holding no memory, until they hang up. Such a list has up to 65536 names and
// 4 MiB of them, so all together take up to 24 MiB. A client that takes nothing keeps its place until
// http.Server.WriteTimeout ends it. Shorter lists are read for 8 clients at a time, and never wait for a slow client;
// each takes up to 80 KiB while it is sent.
func Listing(on bool) FileOption {
	return func(h *FileHandler) { h.listing = on }
}

// Precompressed has a file name.br, name.zst or name.gz served instead of name to a client that accepts the encoding,
// with the Content-Type of name. If several will do, the one that the client prefers is taken, and otherwise the first
// in this order. It must not be older than name, in whole seconds. If neither name nor a sibling is acceptable to the
// client (identity;q=0), the answer is 406.
//
// This is off by default, because name.gz could be a file of its own. An ETag that a middleware has set is kept for all
// of a name's forms, which then cannot be told apart.
func Precompressed() FileOption {
	return func(h *FileHandler) { h.files.encodings = encodings }
}

// StatETags has an ETag made of a file's size, times of change, device and inode, hashed. It costs nothing and is strong:
// two versions have different tags, unless one was written over the other, without changing its size, in the same tick of
// the file system's clock (4 ms on older kernels). Two machines have different tags for copies of a file.
func StatETags() FileOption {
	return func(h *FileHandler) { h.files.tagging = tagging{on: true, content: -1} }
}

// ContentETags has an ETag made of the bytes in a file, which copies on several machines share: the first 96 bits of
// their SHA-256. The file is read once for that whenever it is opened, so files of more than largest bytes have a tag as
// of [StatETags].
func ContentETags(largest int64) FileOption {
	if largest < 0 {
		panic(fmt.Sprintf("chunk: ContentETags(%d) is below 0", largest))
	}
	return func(h *FileHandler) { h.files.tagging = tagging{on: true, content: largest} }
}

// OpenFiles is how many files are kept open at most while nobody uses them, and in all unless more are in use. The
// default is 512, half of the descriptors that a process may have where nobody has raised the limit (1024): the other
// half is for connections.
func OpenFiles(n int) FileOption {
	inRange("OpenFiles", n, mostBytes)
	return func(h *FileHandler) { h.files.limit = n }
}

// KeepOpen is how long a file that nobody uses stays open. 0 closes it at once. While a file is in use, it is shared in
// any case. The default is 10 seconds, which is long enough for files that are asked for together or again and again.
// One that is asked for less often gains nothing that could be noticed, and a deleted file takes up its space on the
// disk for as long as it is open.
func KeepOpen(d time.Duration) FileOption {
	notNegative("KeepOpen", d)
	return func(h *FileHandler) { h.files.keep = d }
}

// TrustNames is how long a name is believed to lead to the file that is open. The default is a second, because a look
// every second costs nothing that could be measured, and 0 has it looked up for each request. It only matters for what
// an open file does not show of itself: another target of a symbolic link, a directory above that was renamed, a new
// precompressed sibling. That a file was written to, renamed, deleted or replaced is seen at once, for each request; on
// a network file system as soon as that tells, and on an overlay's lower layer within this time. Systems other than
// Linux look names up for each request.
func TrustNames(d time.Duration) FileOption {
	notNegative("TrustNames", d)
	return func(h *FileHandler) { h.files.trust = d }
}

// ColdReaders is how many responses may read a file from a disk at a time. Others that need the disk wait their turn;
// responses from the page cache are not held up. The default is 8: that keeps an SSD busy with sequential reads, and a
// hard disk's heads from wandering between more places. Each takes a thread while it waits.
func ColdReaders(n int) FileOption {
	inRange("ColdReaders", n, 1<<16)
	return func(h *FileHandler) { h.files.turns, h.tuner = newGate(n), nil }
}

// ColdReadersBy has t say how many cold readers there may be, by its number of workers, and count what they read. It
// borrows t, which moves nothing unless [Tuner.Run] is under way. Chunk size and depth mean nothing here, so let t not
// move them:
//
//	chunk.NewTuner(chunk.StartAt(chunk.Setting{Workers: 8, ChunkSize: 64 << 10, Depth: 3}),
//		chunk.WorkersBetween(1, 64), chunk.SizeBetween(64<<10, 64<<10), chunk.DepthBetween(3, 3))
func ColdReadersBy(t *Tuner) FileOption {
	if t == nil {
		panic("chunk: ColdReadersBy(nil)")
	}
	return func(h *FileHandler) { h.files.turns, h.tuner = &t.gate, t }
}

// DropBehind keeps responses of at least this many bytes from filling the page cache. What they have brought into it is
// dropped again after it was sent (posix_fadvise), in steps of a megabyte, unless somebody else is reading it. So a
// large file that is sent once does not take the place of small ones that are sent often. What a socket still holds
// then, which is up to its last megabytes, or what others were reading, is dropped when the file is closed (see
// [KeepOpen]). This is off by default.
func DropBehind(bytes int64) FileOption {
	if bytes < 1 {
		panic(fmt.Sprintf("chunk: DropBehind(%d) is below 1", bytes))
	}
	return func(h *FileHandler) { h.dropFrom = bytes }
}

// SendBuffer has the kernel queue up to twice this many bytes on a connection while it is sent a long body, once the
// kernel's own tuning has come to its end, which is at 4 MiB as most systems are set (tcp_wmem). Over a long fast line
// that is less than is under way, and a large file waits for it; and wherever it is full, a larger one is filled less
// often. When the body ends, the buffer is the kernel's to tune again. Slow connections do not come to that, and one
// whose buffer somebody has set is left alone. The default is 4 MiB, which the kernel doubles: twice what it tunes a
// buffer to by itself. 0 leaves it to the kernel.
//
// All together take no more than half of what TCP may have before the kernel begins to economize (tcp_mem); of a file
// that is sent by sendfile they are pages of the page cache. No connection is given more than twice net.core.wmem_max:
// where that is 208 KiB, as it was on most systems for long, this does nothing; nor does it before Linux 5.14, or on
// other systems.
func SendBuffer(bytes int) FileOption {
	if bytes < 0 || bytes > maxSendBuffer {
		panic(fmt.Sprintf("chunk: SendBuffer(%d) is not from 0 to %d", bytes, maxSendBuffer))
	}
	return func(h *FileHandler) { h.sendBuffer = bytes }
}

// OnServed has f called after each request, with the status and with the number of bytes of files that were handed to
// the connection, by the way they went. f is called on the request's goroutine, even when the response was given up
// with a panic. Bytes are those of files: the header, a list of a directory and what is between several parts are not
// counted.
func OnServed(f func(r *http.Request, sent Report, status int)) FileOption {
	if f == nil {
		panic("chunk: OnServed(nil)")
	}
	return func(h *FileHandler) { h.served = f }
}

// ServerTiming has a Server-Timing header sent with each file, which browsers show. It says how long the file took to
// open (or that it was open), whether its first bytes were in the page cache, and by which way it is going to be sent.
//
//	Server-Timing: open;dur=0.031, cache;desc=hot, path;desc=sendfile
func ServerTiming() FileOption {
	return func(h *FileHandler) { h.timing = true }
}

func notNegative(name string, d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("chunk: %s(%v) is below 0", name, d))
	}
}
