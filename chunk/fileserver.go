package chunk

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"syscall"
)

// A FileHandler serves the files under a directory. FileServer makes one.
//
// It answers as http.FileServer does, with the same status, headers and body, to the same methods. What is different:
//
//   - Nothing outside of the root is served, whatever symbolic links there are: see os.Root. A link whose target begins
//     with a slash leads outside. Such names, and those that no file can have, are a 404.
//   - What is neither a file nor a directory (a pipe, a device) is a 403, and is not opened.
//   - A Range of more than 64 parts is ignored, a plus sign in one is no number, and the last 0 bytes are a 416.
//   - A list of a directory has a Content-Length, and at most 65536 names and 4 MiB of them: a larger directory is a 403.
//   - Redirects to directories whose names contain ? or : work.
//   - What is in a directory below the root that may be passed through and not read (mode 0711) is a 403.
//   - A middleware that only has Unwrap never sees the body, unless it encodes it, as its header must show, or keeps the
//     header until there is a first byte. One that wants to see it has ReadFrom as well, or no Unwrap.
//   - A body that ends too soon, because its file was cut, breaks the connection or stream however it is sent.
//
// A file is open once, however many responses send it: sendfile is told where to read. It stays open for a while after
// that. Each request checks whether the file has changed; a response that is under way goes on with the version that it
// began with. New versions must be new files that are renamed over the old ones. What is written to a file, or cut off
// it, while it is being sent may show in what is sent, because sockets hold pages of the file and no copies.
//
// What is in the page cache is sent at once. What is not is read first, a part at a time, by a bounded number of
// responses, so that those that wait for a disk do not keep others from sending.
//
// If a middleware sets a deadline on the request's context, the response is aborted at that time, as if the client
// could not be written to. An HTTP/1 context that is cancelled earlier ends nothing but waiting for a list and reading
// a long one. (net/http cancels it when a client has closed its half of the connection, and that client may still be
// waiting for its answer.)
//
// All methods may be called from any goroutine.
type FileHandler struct {
	files      descriptors
	listing    bool
	lists      lister
	dropFrom   int64 // responses of so many bytes leave the page cache as it was; 0 for none
	timing     bool
	sendBuffer int                                            // see SendBuffer; 0 for what the kernel gives
	tuner      *Tuner                                         // that the files' turns are of; or nil
	served     func(r *http.Request, sent Report, status int) // or nil
}

// FileServer returns a handler for the files under root. It borrows root, which must stay open for as long as the
// handler is used. After that, Close gives back what the handler holds.
func FileServer(root *os.Root, opts ...FileOption) *FileHandler {
	h := &FileHandler{listing: true, lists: newLister(root), sendBuffer: defaultSendBuffer}
	h.files = descriptors{
		root: root, limit: defaultOpenFiles, keep: defaultKeepOpen, trust: defaultTrustNames,
		turns: newGate(defaultColdReaders),
	}
	for _, opt := range opts {
		opt(h)
	}
	h.files.init()
	return h
}

// ServeHTTP implements http.Handler.
func (h *FileHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.begin(w, r)
	defer x.over() // also when a response is given up
	x.serve()
}

// ServeFile answers r with the file of that name in the root, whatever the URL says, which may be nil. It is for who
// checks rights, or finds the name in a database, first, as http.ServeFileFS is. Methods, conditions, ranges and all
// options are as with ServeHTTP.
//
// The name is one that fs.ValidPath accepts: its elements are separated by slashes, none of them is .. or empty, and it
// is UTF-8. Any other is a 404. So is one that no file can have on this system (see filepath.Localize), and so is a
// directory: http.ServeFileFS would redirect by the URL, or list what nobody has named. Nothing else is redirected
// either, neither from an index.html nor to one. Symbolic links within the root are followed, as with ServeHTTP: one
// that may be made by others is a name for any file there.
func (h *FileHandler) ServeFile(w http.ResponseWriter, r *http.Request, name string) {
	x := h.begin(w, r)
	defer x.over()
	x.serveNamed(name)
}

func (h *FileHandler) begin(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{handler: h, w: w, r: r, header: w.Header(), body: responseOf(w)}
	x.ctx, x.cancel = contextOf(r)
	x.foreign = x.header.Get("Content-Encoding") != ""
	return x
}

// Close closes the files that are open, as soon as nobody uses them. The handler goes on working, and opens a file for each
// request from then on. It returns nil.
func (h *FileHandler) Close() error {
	h.files.close()
	return nil
}

// FileStats says what a FileHandler has done, and has open.
type FileStats struct {
	Open      int    // files that are open at present
	Requests  uint64 // answered, in whatever way
	Hits      uint64 // files that were open already when they were needed
	Misses    uint64 // files that were not, or were not there
	ColdReads uint64 // responses that had to wait for a disk
	ColdBytes int64  // bytes that came from a disk for responses
	Sent      Report // bytes of files that were sent, by the way they went
}

// Stats returns a snapshot.
func (h *FileHandler) Stats() FileStats {
	c := &h.files
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Open = c.open
	return stats
}

// count adds an exchange that is over to the statistics.
func (c *descriptors) count(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Requests++
	c.stats.Sent = c.stats.Sent.plus(x.tally.Report)
	if x.warmth.colds > 0 {
		c.stats.ColdReads++
		c.stats.ColdBytes += x.warmth.colds
	}
}

// statusOf returns the status that answers an error of opening or reading a file. What an error says is not for clients.
func statusOf(err error) int {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist), err == errDirectory:
		return http.StatusNotFound
	case errors.Is(err, fs.ErrPermission), err == errSpecial:
		return http.StatusForbidden
	case errors.Is(err, fs.ErrClosed):
		return http.StatusInternalServerError
	case !errors.As(err, &errno):
		return http.StatusNotFound // the name leads out of the root
	}
	switch errno {
	case syscall.ENOTDIR, syscall.EINVAL, syscall.ENAMETOOLONG, syscall.ELOOP:
		return http.StatusNotFound // no file has such a name
	case syscall.ENXIO:
		return http.StatusForbidden // a Unix socket
	}
	return http.StatusInternalServerError
}
