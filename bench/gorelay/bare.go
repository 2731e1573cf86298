package gorelay

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// A Bare writes the tags of one key frame interval again and again, each when it is due, to every viewer that connects, by a
// goroutine for each. It receives nothing.
type Bare struct {
	batch   time.Duration // what falls due in this time leaves together
	tags    []bareTag
	keyTime time.Duration // of all tags

	mu      sync.Mutex
	streams map[string]*bareStream
}

// A bareTag is an FLV tag that is ready to be sent.
type bareTag struct {
	due   time.Duration
	bytes []byte
}

// NewBare makes the tags, of a stream of so many bits a second.
func NewBare(bitRate int, keyInterval, batch time.Duration) *Bare {
	b := &Bare{batch: batch, keyTime: keyInterval, streams: make(map[string]*bareStream)}
	synth := load.NewSynth(0, bitRate, keyInterval)
	for synth.Due() < keyInterval {
		due := synth.Due()
		b.tags = append(b.tags, bareTag{due, flvTag(synth.Next(time.Time{}))})
	}
	return b
}

// Tags returns the tags in order, without their timestamps. The payloads are the Bare's own.
func (b *Bare) Tags() (all []load.Tag) {
	for _, t := range b.tags {
		all = append(all, load.Tag{Kind: t.bytes[0], Payload: t.bytes[tagHeader : len(t.bytes)-tagFooter]})
	}
	return all
}

// flvTag overwrites the number and the time that the load's tags carry: these tags go out again and again.
func flvTag(t load.Tag) []byte {
	n := len(t.Payload)
	b := []byte{t.Kind, byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0, 0, 0, 0}
	b = append(b, t.Payload...)
	from := tagHeader + 12
	if t.Kind == load.Audio {
		from = tagHeader + 2
	}
	for i := from; i < tagHeader+load.HeadLen; i++ {
		b[i] = 0xaa
	}
	n += tagHeader
	return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// Serve accepts viewers until the listener fails.
func (b *Bare) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go b.serve(c.(*net.TCPConn))
	}
}

func (b *Bare) serve(c *net.TCPConn) {
	defer c.Close()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	if _, err := c.Write([]byte(hijackedHead)); err != nil {
		return
	}
	v := &bareViewer{conn: c, due: make(chan span, 1024)}
	st := b.stream(req.URL.Path)
	st.join(v)
	defer st.leave(v)
	v.write(b.tags)
}

// stream finds or begins the stream of that name.
func (b *Bare) stream(name string) *bareStream {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.streams[name]
	if st == nil {
		st = &bareStream{b: b}
		b.streams[name] = st
		go st.run()
	}
	return st
}

// A span is tags[from:to], all due.
type span struct{ from, to int }

type bareViewer struct {
	conn *net.TCPConn
	due  chan span
}

// write is a viewer's own goroutine.
func (v *bareViewer) write(tags []bareTag) {
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

type bareStream struct {
	b       *Bare
	mu      sync.Mutex
	viewers []*bareViewer
}

func (st *bareStream) join(v *bareViewer) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.viewers = append(st.viewers, v)
}

func (st *bareStream) leave(v *bareViewer) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.viewers = slices.DeleteFunc(st.viewers, func(o *bareViewer) bool { return o == v })
}

// run is the clock of a stream.
func (st *bareStream) run() {
	tags := st.b.tags
	began := time.Now()
	for turn := time.Duration(0); ; turn += st.b.keyTime {
		for i := 0; i < len(tags); {
			time.Sleep(turn + tags[i].due + st.b.batch - time.Since(began))
			to := i + 1
			for to < len(tags) && tags[to].due <= tags[i].due+st.b.batch && st.b.batch > 0 {
				to++
			}
			st.send(span{i, to})
			i = to
		}
	}
}

func (st *bareStream) send(sp span) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, v := range st.viewers {
		select {
		case v.due <- sp:
		default: // the viewer has stalled, and misses tags
		}
	}
}
