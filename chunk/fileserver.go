package chunk

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// A FileHandler serves the files under a directory. [FileServer] makes one.
//
// It answers like http.FileServer, and uses its conditions, ranges, redirects and lists. In
// addition:
//
//   - No symbolic link leads out of the root; see os.Root. A request for a link that would is
//     answered with 404, and so is a request for a name that no file can have.
//   - A pipe, a socket or a device is not opened; the answer is 403.
//   - Each file has a strong ETag, made of its size, times of change, device and inode. Two
//     versions of a file have the same tag only if one overwrote the other within the same tick of
//     the file system's clock (4 ms on older kernels) and has the same size. Copies on two machines
//     have different tags. The handler keeps an ETag that is set already. A nil value in the
//     header's map prevents the ETag.
//   - The handler sends the file with the kernel's sendfile even if middleware wraps the response,
//     as long as the middleware has Unwrap and no ReadFrom; see [Copy]. Such a middleware does not
//     see the body.
//   - If a body ends too soon because the file was truncated, the handler aborts the connection or
//     the stream.
//
// To replace a file, rename a new one over it. If a file is written or truncated while it is being
// sent, clients may get a mixture.
//
// All methods may be called from any goroutine.
type FileHandler struct {
	root          fileRoot
	standard      http.Handler // redirects and lists of directories
	listing       bool
	precompressed bool
	// In bytes. 0 means that DropBehind is off.
	dropFrom int64
	served   func(r *http.Request, sent Report, status int) // or nil

	dropper dropper

	mu   sync.Mutex
	sent Report
}

// A FileOption changes the handler that [FileServer] returns. An option panics if its value is out
// of range.
type FileOption func(*FileHandler)

// Listing sets whether a directory without an index.html is answered with a list of its files. The
// default is true, as with http.FileServer. If it is false, the answer is a 403.
func Listing(on bool) FileOption {
	return func(h *FileHandler) { h.listing = on }
}

// Precompressed serves a file name.br, name.zst or name.gz instead of name to a client that accepts
// the encoding, with the Content-Type of name. The client's preference decides. If it prefers none,
// the order is br, zstd, gzip. The encoded file must not be older than name, in whole seconds. If
// the client accepts neither name (identity;q=0) nor an encoded file, the answer is 406.
//
// It is off by default, because name.gz could be a different file. If a middleware sets an ETag,
// that ETag is the same for all encodings of a name, so clients cannot tell the encodings apart.
func Precompressed() FileOption {
	return func(h *FileHandler) { h.precompressed = true }
}

// DropBehind keeps responses of at least this many bytes from filling the page cache. The handler
// drops the part of a file that was sent (posix_fadvise), in steps of 8 MiB. It does not drop it
// while another such response sends the same file. Some of the last bytes stay in the cache,
// because the socket still holds them. DropBehind works on Linux only. It is off by default.
func DropBehind(bytes int64) FileOption {
	if bytes < 1 {
		panic(fmt.Sprintf("chunk: DropBehind(%d) is below 1", bytes))
	}
	return func(h *FileHandler) { h.dropFrom = bytes }
}

// OnServed makes the handler call f after each request. sent is the number of bytes of files that
// were passed to the connection, and how they were moved. The handler calls f on the request's
// goroutine, even after a panic that aborted the response. Headers and lists of directories are not
// counted. A body with several ranges is counted with its separators.
func OnServed(f func(r *http.Request, sent Report, status int)) FileOption {
	if f == nil {
		panic("chunk: OnServed(nil)")
	}
	return func(h *FileHandler) { h.served = f }
}

// FileServer returns a handler for the files under root. It borrows root, which must stay open for
// as long as the handler is used.
func FileServer(root *os.Root, opts ...FileOption) *FileHandler {
	h := &FileHandler{root: fileRoot{root}, listing: true,
		dropper: dropper{sending: make(map[fileVersion]int)}}
	h.standard = http.FileServer(openedFiles{h.root})
	for _, opt := range opts {
		opt(h)
	}
	return h
}

// ServeHTTP implements http.Handler.
func (h *FileHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.begin(w, r)
	defer h.finish(x) // also when a response is aborted
	clean := path.Clean("/" + r.URL.Path)
	name := rootName(clean)
	isDir := r.URL.Path == "" || strings.HasSuffix(r.URL.Path, "/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/index.html"):
		h.standard.ServeHTTP(x, r) // a redirect to the directory's name with a slash
	case !isDir:
		switch err := x.serve(name); err {
		case nil:
		case errDirectory:
			h.standard.ServeHTTP(x, r) // redirects
		default:
			// Do not leave this to net/http. It would open the name again. If a file was created in
			// the meantime, net/http would send it without a tag.
			x.fail(err)
		}
	default:
		h.serveDirectory(x, name)
	}
}

func (h *FileHandler) begin(w http.ResponseWriter, r *http.Request) *fileRequest {
	return &fileRequest{ResponseWriter: w, h: h, r: r, encoded: encodes(w.Header())}
}

// finish counts the request and calls the OnServed function.
func (h *FileHandler) finish(x *fileRequest) {
	h.mu.Lock()
	h.sent.merge(x.report)
	h.mu.Unlock()
	if h.served != nil {
		h.served(x.r, x.report, x.status)
	}
}

// serveDirectory answers with the directory's index.html, or with a list of its files.
func (h *FileHandler) serveDirectory(x *fileRequest, name string) {
	err := x.serve(path.Join(name, "index.html"))
	switch {
	case err == nil:
	case statusOf(err) == http.StatusInternalServerError:
		x.fail(err) // a list would show files that an existing index.html hides
	case !h.listing && h.isDir(name):
		x.failText(http.StatusForbidden, "403 Forbidden: the directory has no index.html, and lists of files are off")
	default:
		h.standard.ServeHTTP(x, x.r)
	}
}

func (h *FileHandler) isDir(name string) bool {
	info, err := h.root.Stat(name)
	return err == nil && info.IsDir()
}

// ServeFile answers r with the file of that name in the root, not with the file that the URL of r
// names; the URL may be nil. Use it when the handler has already authorized the request or looked
// up the file name. Methods, conditions, ranges and options are as with ServeHTTP.
//
// The name must be accepted by fs.ValidPath and possible on this system (see filepath.Localize).
// Any other name is a 404, and so is a directory. There are no redirects. Symbolic links within the
// root are followed.
func (h *FileHandler) ServeFile(w http.ResponseWriter, r *http.Request, name string) {
	x := h.begin(w, r)
	defer h.finish(x)
	if _, err := filepath.Localize(name); err != nil {
		x.fail(fs.ErrNotExist)
	} else if err := x.serve(name); err != nil {
		x.fail(err)
	}
}

// Sent returns the number of bytes of files that all finished requests passed to connections.
func (h *FileHandler) Sent() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent
}
