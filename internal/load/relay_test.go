package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// relayServer is the smallest relay that the tests can load. It keeps the headers and the newest
// GOP, and has a queue for each viewer.
type relayServer struct {
	queue    int          // length of a viewer's queue, in tags
	hijack   bool         // write without net/http's chunked encoding
	refuse   bool         // refuse publishers
	taken    string       // the only refused name
	refusals atomic.Int64 // number of refusals before the first publisher is accepted
	gone     bool         // dialing times out
	unknown  bool         // answers 404 to viewers
	evicts   bool         // answers 403 to publishers that have sent a header
	whole    atomic.Int64 // number of bodies that were read to the end
	conns    chan net.Conn
	server   http.Server
	mu       sync.Mutex
	streams  map[string]*relayStream
	over     chan struct{}  // closed when the server disconnects its viewers
	end      func()         // closes over
	busy     sync.WaitGroup // requests in progress
}

type relayStream struct {
	mu      sync.Mutex
	headers [][]byte
	gop     [][]byte
	viewers map[chan []byte]bool // false while the viewer waits for a keyframe
}

// newRelay serves connections without a network.
func newRelay(t *testing.T, queue int) *relayServer {
	s := &relayServer{queue: queue, conns: make(chan net.Conn),
		streams: make(map[string]*relayStream), over: make(chan struct{})}
	s.server.Handler = s
	s.end = sync.OnceFunc(func() { close(s.over) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.server.Serve(s)
	}()
	t.Cleanup(func() {
		s.end()
		s.server.Close()
		<-done
		s.busy.Wait()
		time.Sleep(time.Second) // net/http keeps a closed connection for half a second
	})
	return s
}

func (s *relayServer) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *relayServer) Close() error { close(s.conns); return nil }

func (s *relayServer) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (s *relayServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if s.gone {
		return nil, os.ErrDeadlineExceeded
	}
	near, far := net.Pipe()
	select {
	case s.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *relayServer) stream(name string) *relayStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[name]
	if st == nil {
		st = &relayStream{viewers: make(map[chan []byte]bool)}
		s.streams[name] = st
	}
	return st
}

func (s *relayServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.busy.Add(1)
	defer s.busy.Done()
	name := strings.TrimPrefix(req.URL.Path, "/live/")
	switch {
	case req.Method == http.MethodGet && s.unknown:
		http.NotFound(w, req)
	case req.Method == http.MethodGet && s.hijack:
		s.watchRaw(w, name)
	case req.Method == http.MethodGet:
		s.stream(name).watch(w, http.NewResponseController(w).Flush, s)
	case s.refuse, name == s.taken, s.refusals.Add(-1) >= 0:
		http.Error(w, "taken", http.StatusConflict)
	case s.evicts:
		io.ReadFull(req.Body, make([]byte, flvHeader))
		http.Error(w, "evicted", http.StatusForbidden)
	default:
		if s.stream(name).publish(req.Body) == io.EOF {
			s.whole.Add(1)
		}
	}
}

func (s *relayServer) watchRaw(w http.ResponseWriter, name string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\n\r\n")
	s.stream(name).watch(c, func() error { return nil }, s)
}

// publish reads tags until the body ends.
func (st *relayStream) publish(body io.Reader) error {
	if _, err := io.ReadFull(body, make([]byte, flvHeader)); err != nil {
		return err
	}
	for {
		hdr := make([]byte, flvTagHeader)
		if _, err := io.ReadFull(body, hdr); err != nil {
			return err
		}
		size := int(hdr[1])<<16 | int(hdr[2])<<8 | int(hdr[3])
		rest := make([]byte, size+flvTagFooter)
		if _, err := io.ReadFull(body, rest); err != nil {
			return err
		}
		st.pass(append(hdr, rest...))
	}
}

func (st *relayStream) pass(tag []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	payload := tag[flvTagHeader:]
	key := tag[0] == Video && payload[0] == 0x17
	switch {
	case tag[0] == Script || payload[1] == 0 && (tag[0] == Audio || key):
		st.headers = append(st.headers, tag)
	case key:
		st.gop = append(st.gop[:0:0], tag)
	default:
		st.gop = append(st.gop, tag)
	}
	for q, on := range st.viewers {
		if !on && !key {
			continue
		}
		select {
		case q <- tag:
			st.viewers[q] = true
		default:
			st.viewers[q] = false
		}
	}
}

var errGone = errors.New("viewer gone")

func (st *relayStream) watch(w io.Writer, flush func() error, s *relayServer) error {
	st.mu.Lock()
	q := make(chan []byte, s.queue)
	st.viewers[q] = true
	backlog := append([][]byte{[]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00")},
		st.headers...)
	backlog = append(backlog, st.gop...)
	st.mu.Unlock()
	defer func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		delete(st.viewers, q)
	}()
	write := func(p []byte) error {
		if _, err := w.Write(p); err != nil {
			return errGone
		}
		return flush()
	}
	for _, tag := range backlog {
		if err := write(tag); err != nil {
			return err
		}
	}
	for {
		select {
		case tag := <-q:
			if err := write(tag); err != nil {
				return err
			}
		case <-s.over:
			return nil
		}
	}
}
