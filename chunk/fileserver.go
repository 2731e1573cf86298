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

// A FileHandler serves the files under a directory or in a file system. [FileServer] and
// [FileServerFS] return one.
//
// A FileHandler serves requests like http.FileServer, with the same conditional requests, ranges,
// redirects and directory lists. The differences are:
//
//   - The handler does not follow a symbolic link out of the root (see os.Root). It answers such a
//     request with status 404. A request for an impossible file name, for example a name that is
//     too long, also gets 404.
//   - The handler does not open pipes, sockets and devices. It answers these requests with status
//     403.
//   - Each file has a strong ETag, made of the file's size, modification time, change time, device
//     and inode. Two versions of a file have the same tag only if they have the same size and one
//     overwrote the other within the same tick of the file system's clock (4 ms on older kernels).
//     Copies on two machines have different tags. If the response header already has an ETag, the
//     handler keeps it. If the header maps "Etag" to nil, the response has no ETag.
//   - If middleware wraps the response, and the wrapper has an Unwrap method and no ReadFrom
//     method, the handler still uses sendfile. The wrapper then does not see the body (see [Copy]).
//   - If a file is truncated while the handler sends it, the handler aborts the connection or the
//     HTTP/2 stream, unless the Content-Length shows the client that bytes are missing.
//
// To replace a file, rename a new file over the old one. If a file is written while it is being
// sent, clients may get a mixture of old and new bytes.
//
// All methods may be called from any goroutine.
type FileHandler struct {
	root          fileRoot
	standard      http.Handler // for redirects and lists of directories
	listing       bool
	precompressed bool
	served        func(r *http.Request, sent Report, status int) // may be nil

	dropFrom int64 // the argument of DropBehind, or 0
	dropper  dropper
	tags     contentTags

	mu   sync.Mutex
	sent Report
}

// A FileOption changes the handler that [FileServer] or [FileServerFS] returns. An option panics if
// its value is out of range.
type FileOption func(*FileHandler)

// Listing sets whether the handler lists the files of a directory without an index.html. The
// default is true, as with http.FileServer. With Listing(false), a request for such a directory
// gets status 403.
func Listing(on bool) FileOption {
	return func(h *FileHandler) { h.listing = on }
}

// Precompressed makes the handler serve an encoded version of a file, if there is one and the
// client accepts the encoding. For the file a.js, the encoded versions are a.js.br, a.js.zst and
// a.js.gz. The Content-Type describes the decoded file.
//
// If the client accepts several encodings, it gets the one with the highest weight. If the weights
// are equal, the order is br, zstd, gzip. If the client refuses the original file (identity;q=0)
// and accepts none of the encoded versions, the status is 406. The handler ignores an encoded
// version that is older than the original. The comparison ignores fractions of a second.
//
// Precompressed is off by default, because a.js.gz could be a different file. If you use
// Precompressed, do not set an ETag in a middleware: all versions of a file would have the same
// ETag, and clients could not tell them apart.
func Precompressed() FileOption {
	return func(h *FileHandler) { h.precompressed = true }
}

// DropBehind keeps large responses from filling the page cache. It applies to responses that send
// at least the given number of bytes of a file. DropBehind works on Linux only. It is off by
// default.
//
// While the handler sends a file, it drops the sent part of the file from the page cache
// (posix_fadvise), in steps of 8 MiB. It drops nothing while two or more responses with DropBehind
// send the same file. The last bytes may stay in the cache, because the socket may still use them.
func DropBehind(bytes int64) FileOption {
	if bytes < 1 {
		panic(fmt.Sprintf("chunk: DropBehind(%d) is below 1", bytes))
	}
	return func(h *FileHandler) { h.dropFrom = bytes }
}

// OnServed makes the handler call f after each request, on the request's goroutine, even if a panic
// has aborted the response. The Report counts the bytes of files, and the separators between
// ranges. It does not count headers, directory lists and error messages.
func OnServed(f func(r *http.Request, sent Report, status int)) FileOption {
	if f == nil {
		panic("chunk: OnServed(nil)")
	}
	return func(h *FileHandler) { h.served = f }
}

// FileServer returns a handler for the files under root. It borrows root, which must stay open
// while the handler is in use.
func FileServer(root *os.Root, opts ...FileOption) *FileHandler {
	return FileServerFS(rootFS{root}, opts...)
}

// FileServerFS returns a handler for the files in fsys, such as an embed.FS. It borrows fsys. The
// differences from [FileServer] are:
//
//   - fsys decides how to follow symbolic links. If fsys has no Stat method (see fs.StatFS), pipes
//     and devices are opened before they are refused.
//   - The kernel sends a file only if it is an *os.File, as with os.DirFS. All other files are
//     copied through memory. DropBehind has no effect on them.
//   - On Linux, an *os.File has an ETag as with FileServer. Any other file has an ETag that is made
//     of its size and modification time. If there is no modification time, as in an embed.FS, the
//     ETag is made of the content: the handler reads the file at the first request, and keeps the
//     ETags of 4,096 files. The content of such a file must not change. A file without a
//     modification time has no ETag if it is larger than 16 MiB or has no Seek method.
//   - If fsys returns an error that is not fs.ErrNotExist, fs.ErrInvalid or fs.ErrPermission, the
//     status is 500.
//
// As with http.FileServerFS, a file without a Seek method, such as a file in a zip.Reader, can only
// be sent completely. A request for one range of the file gets status 416, and the response to a
// request for several ranges breaks off. If neither the extension of the file name nor a header
// gives the Content-Type, the status is 500.
func FileServerFS(fsys fs.FS, opts ...FileOption) *FileHandler {
	h := &FileHandler{root: fileRoot{fsys}, listing: true,
		dropper: dropper{sending: make(map[fileVersion]int)},
		tags:    contentTags{tags: make(map[taggedFile]string)}}
	h.standard = http.FileServerFS(openedFiles{h.root})
	for _, opt := range opts {
		opt(h)
	}
	return h
}

// ServeHTTP implements http.Handler.
func (h *FileHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.begin(w, r)
	defer h.finish(x) // even if the response is aborted
	clean := path.Clean("/" + r.URL.Path)
	name := rootName(clean)
	isDir := r.URL.Path == "" || strings.HasSuffix(r.URL.Path, "/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/index.html"):
		h.standard.ServeHTTP(x, r) // redirects to the directory
	case !isDir:
		switch err := x.serve(name); err {
		case nil:
		case errDirectory:
			h.standard.ServeHTTP(x, r) // redirects
		default:
			// Do not pass the name to net/http, which would open it again. A file that exists by
			// then would be sent without a tag.
			x.fail(err)
		}
	default:
		h.serveDirectory(x, name)
	}
}

func (h *FileHandler) begin(w http.ResponseWriter, r *http.Request) *fileRequest {
	return &fileRequest{ResponseWriter: w, h: h, r: r, encoded: mayEncode(w.Header())}
}

func (h *FileHandler) finish(x *fileRequest) {
	h.mu.Lock()
	h.sent.merge(x.report)
	h.mu.Unlock()
	if h.served != nil {
		h.served(x.r, x.report, x.status)
	}
}

func (h *FileHandler) serveDirectory(x *fileRequest, name string) {
	err := x.serve(path.Join(name, "index.html"))
	switch {
	case err == nil:
	case statusOf(err) == http.StatusInternalServerError:
		x.fail(err) // a list would show files that an index.html should hide
	case !h.listing && h.isDir(name):
		x.failText(http.StatusForbidden,
			"403 Forbidden: the directory has no index.html, and lists of files are off")
	default:
		h.standard.ServeHTTP(x, x.r)
	}
}

func (h *FileHandler) isDir(name string) bool {
	info, err := fs.Stat(h.root.FS, name)
	return err == nil && info.IsDir()
}

// ServeFile answers the request r with the named file of the root. It ignores the URL of r, which
// may be nil. Use ServeFile when your handler has already authorized the request or looked up the
// file name. Methods, conditions, ranges and options work as with ServeHTTP.
//
// The name must be valid for fs.ValidPath. With FileServer, the operating system must also allow
// the name (see filepath.Localize). For any other name, and for a directory, the status is 404.
// ServeFile does not redirect. It follows symbolic links within the root.
func (h *FileHandler) ServeFile(w http.ResponseWriter, r *http.Request, name string) {
	x := h.begin(w, r)
	defer h.finish(x)
	valid := fs.ValidPath(name)
	if _, ok := h.root.FS.(rootFS); ok {
		_, err := filepath.Localize(name)
		valid = err == nil
	}
	if !valid {
		x.fail(fs.ErrNotExist)
	} else if err := x.serve(name); err != nil {
		x.fail(err)
	}
}

// Sent returns a Report with the total numbers of bytes that all finished requests have sent.
func (h *FileHandler) Sent() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent
}
