package gorelay

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/internal/load"
)

// A Bare writes the tags of one keyframe interval repeatedly to every viewer that connects, each
// tag when it is due. It uses a goroutine for each viewer, and receives no stream.
type Bare struct {
	wait    time.Duration // tags due within this time are sent together
	keyTime time.Duration // duration of all tags
	batches []batch

	mu      sync.Mutex
	streams map[string]*bareStream
}

// A batch is a group of encoded FLV tags that are sent together.
type batch struct {
	due  time.Duration // due time of the first tag
	tags [][]byte
}

// NewBare returns a Bare with the tags of a stream of bitRate bits per second. Tags that are due
// within batchTime are sent together.
func NewBare(bitRate int, keyInterval, batchTime time.Duration) *Bare {
	b := &Bare{wait: batchTime, keyTime: keyInterval, streams: make(map[string]*bareStream)}
	synth := load.NewSynth(0, bitRate, keyInterval)
	for synth.Due() < keyInterval {
		due := synth.Due()
		tag := flvTag(synth.Next(time.Time{}))
		if last := len(b.batches) - 1; batchTime > 0 && last >= 0 &&
			due <= b.batches[last].due+batchTime {
			b.batches[last].tags = append(b.batches[last].tags, tag)
		} else {
			b.batches = append(b.batches, batch{due, [][]byte{tag}})
		}
	}
	return b
}

// Tags returns the tags in order, without their timestamps. The payloads belong to the Bare and
// must not be changed.
func (b *Bare) Tags() (all []load.Tag) {
	for _, batch := range b.batches {
		for _, t := range batch.tags {
			all = append(all, load.Tag{Kind: t[0], Payload: t[tagHeader : len(t)-tagFooter]})
		}
	}
	return all
}

// flvTag encodes a tag with the timestamp 0. It overwrites the sequence number and the sending time
// in the payload, because the tag is sent repeatedly.
func flvTag(t load.Tag) []byte {
	b := httpflv.AppendTag(nil, load.Tag{Kind: t.Kind, Payload: t.Payload})
	from := tagHeader + 12
	if t.Kind == load.Audio {
		from = tagHeader + 2
	}
	for i := from; i < tagHeader+load.HeadLen; i++ {
		b[i] = 0xaa
	}
	return b
}

// Serve accepts viewers until the listener fails.
func (b *Bare) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go b.serve(c)
	}
}

func (b *Bare) serve(c net.Conn) {
	defer c.Close()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	if _, err := io.WriteString(c, hijackedHead); err != nil {
		return
	}
	due := make(chan [][]byte, 1024)
	st := b.stream(req.URL.Path)
	st.join(due)
	defer st.leave(due)
	pieces := make([][]byte, 0, 64)
	for tags := range due {
		if len(tags) == 1 {
			_, err = c.Write(tags[0])
		} else {
			pieces = append(pieces[:0], tags...) // WriteTo modifies the slice
			bufs := net.Buffers(pieces)
			_, err = bufs.WriteTo(c)
		}
		if err != nil {
			return
		}
	}
}

func (b *Bare) stream(name string) *bareStream {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.streams[name]
	if st == nil {
		st = &bareStream{viewers: make(map[chan<- [][]byte]bool)}
		b.streams[name] = st
		go b.run(st)
	}
	return st
}

// run sends each batch of a stream to its viewers when the batch is due. It never returns.
func (b *Bare) run(st *bareStream) {
	began := time.Now()
	for turn := time.Duration(0); ; turn += b.keyTime {
		for _, batch := range b.batches {
			time.Sleep(turn + batch.due + b.wait - time.Since(began))
			st.send(batch.tags)
		}
	}
}

type bareStream struct {
	mu      sync.Mutex
	viewers map[chan<- [][]byte]bool
}

func (st *bareStream) join(due chan<- [][]byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.viewers[due] = true
}

func (st *bareStream) leave(due chan<- [][]byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.viewers, due)
}

func (st *bareStream) send(tags [][]byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for due := range st.viewers {
		select {
		case due <- tags:
		default: // the viewer has stalled and misses these tags
		}
	}
}
