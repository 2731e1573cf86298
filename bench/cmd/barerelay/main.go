// Command barerelay is the floor that a relay is measured against. It receives
// nothing: the tags of one key frame interval are ready before the first
// viewer comes, and all it does is write them at the right time. What it costs
// is what the kernel costs, and the wake-ups.
package main

import (
	"bufio"
	"flag"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

type server struct {
	loop  bool
	batch time.Duration
	nagle bool
	tags  []tag
	turn  time.Duration // of all tags

	mu      sync.Mutex
	streams map[string]*stream
}

// tag is an FLV tag, ready to be sent.
type tag struct {
	due   time.Duration
	bytes []byte
}

func main() {
	var s server
	listen := flag.String("listen", "127.0.0.1:8081", "address")
	rate := flag.Int("bitrate", 2_150_000, "bits a second of each stream")
	key := flag.Duration("key", 2*time.Second, "key frame interval")
	flag.BoolVar(&s.loop, "loop", false, "one goroutine a stream writes to all viewers")
	flag.DurationVar(&s.batch, "batch", 0, "gather what falls due in this time")
	flag.BoolVar(&s.nagle, "nagle", false, "leave Nagle's algorithm on")
	flag.Parse()
	s.streams = make(map[string]*stream)
	s.prepare(*rate, *key)
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go s.serve(c.(*net.TCPConn))
	}
}

// prepare makes the tags of one key frame interval.
func (s *server) prepare(rate int, key time.Duration) {
	synth := load.NewSynth(0, rate, key)
	for synth.Due() < key {
		due := synth.Due()
		s.tags = append(s.tags, tag{due, flvTag(synth.Next(time.Time{}))})
	}
	s.turn = key
}

// flvTag wipes the marker out: these tags go out again and again.
func flvTag(t load.Tag) []byte {
	n := len(t.Payload)
	b := []byte{t.Kind, byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0, 0, 0, 0}
	b = append(b, t.Payload...)
	for i := 11 + 12; i < 11+load.HeadLen; i++ {
		b[i] = 0xaa
	}
	for i := 11 + 2; t.Kind == load.Audio && i < 11+load.HeadLen; i++ {
		b[i] = 0xaa
	}
	n += 11
	return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

const head = "HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\nConnection: close\r\n\r\n" +
	"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"

func (s *server) serve(c *net.TCPConn) {
	defer c.Close()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	c.SetNoDelay(!s.nagle)
	if _, err := c.Write([]byte(head)); err != nil {
		return
	}
	v := &viewer{conn: c, due: make(chan span, 1024), gone: make(chan struct{})}
	st := s.stream(req.URL.Path)
	st.join(v)
	defer st.leave(v)
	if s.loop {
		<-v.gone
		return
	}
	v.write(s.tags)
}

// stream finds or begins the stream of that name.
func (s *server) stream(name string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[name]
	if st == nil {
		st = &stream{s: s}
		s.streams[name] = st
		go st.run()
	}
	return st
}

// span is tags[from:to], all due.
type span struct{ from, to int }

type viewer struct {
	conn *net.TCPConn
	due  chan span
	gone chan struct{} // closed by the loop when a write fails
}

// write is a viewer's own goroutine.
func (v *viewer) write(tags []tag) {
	vec := make([][]byte, 0, 64)
	for sp := range v.due {
		if sp.to == sp.from+1 {
			if _, err := v.conn.Write(tags[sp.from].bytes); err != nil {
				return
			}
			continue
		}
		vec = vec[:0]
		for _, t := range tags[sp.from:sp.to] {
			vec = append(vec, t.bytes)
		}
		bufs := net.Buffers(vec)
		if _, err := bufs.WriteTo(v.conn); err != nil {
			return
		}
	}
}

type stream struct {
	s       *server
	mu      sync.Mutex
	viewers []*viewer
}

func (st *stream) join(v *viewer) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.viewers = append(st.viewers, v)
}

func (st *stream) leave(v *viewer) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.viewers = slices.DeleteFunc(st.viewers, func(o *viewer) bool { return o == v })
}

// run is the clock of a stream.
func (st *stream) run() {
	tags := st.s.tags
	began := time.Now()
	for turn := time.Duration(0); ; turn += st.s.turn {
		for i := 0; i < len(tags); {
			time.Sleep(turn + tags[i].due + st.s.batch - time.Since(began))
			to := i + 1
			for to < len(tags) && tags[to].due <= tags[i].due+st.s.batch && st.s.batch > 0 {
				to++
			}
			st.send(span{i, to})
			i = to
		}
	}
}

func (st *stream) send(sp span) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, v := range st.viewers {
		if !st.s.loop {
			select {
			case v.due <- sp:
			default: // stalled; nothing here depends on every tag
			}
			continue
		}
		for _, t := range st.s.tags[sp.from:sp.to] {
			if _, err := v.conn.Write(t.bytes); err != nil {
				select {
				case <-v.gone:
				default:
					close(v.gone)
				}
				break
			}
		}
	}
}
