package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/relay/feed"
	"github.com/millrace-io/millrace/server/internal/relay/ingest"
	"github.com/millrace-io/millrace/server/internal/relay/rendition"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// rawChunk bounds how much of a stream of unknown format is relayed at a time.
const rawChunk = 64 << 10

// A Publisher feeds one stream, from [Hub.Open] to Close, with FLV tags (Begin, then WriteTag) or with what a body has
// (ReadBody). It is one connection of those that feed the stream one after the other. One goroutine at a time may use it.
type Publisher struct {
	s       *stream // set before granted is closed
	address string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	granted chan struct{} // closed when the stream is this publisher's
	since   int64         // when that was; see now. Set before granted is closed
	started time.Time

	r     *millrace.Reader // of ReadBody
	frame millrace.Chain   // being moved; empty between frames

	skipped int // bytes that came before Begin

	reconnects atomic.Bool // the client connects again when it is asked to
	leaves     atomic.Bool // it is to be asked
	replaced   bool        // it took over from another one

	terms Terms // set by keepTo

	lease Lease  // of a stream that this node owns; nil for a pull, and when the server is alone
	epoch uint64 // of a pull: that of its owner; otherwise 0

	received
}

// received is what a publisher has sent.
type received struct {
	bytes, frames int64
	framed        int64        // when a frame was complete last; see now
	heard         atomic.Int64 // when something came last; see now
	unchecked     int          // bytes since the memory in use was looked at
}

// Open begins a stream of the given name, goes on with the one that waits for its publisher, or takes over from the
// publisher that there is; address says in logs and in the API who publishes it. An error is a [refuse.Refusal]. Viewers find a
// new stream when its format is known. The caller ends the publisher with Run or Close, and then calls Done.
func (h *Hub) Open(name, address string) (*Publisher, error) {
	if err := streamname.Check(name); err != nil {
		return nil, err
	}
	p := newPublisher(h.ends, address)
	err := h.own(p, name)
	if err == nil {
		err = h.await(p, name)
	}
	if err != nil {
		p.cancel(err)
		return nil, err
	}
	return p, nil
}

func newPublisher(ends context.Context, address string) *Publisher {
	p := &Publisher{address: address, granted: make(chan struct{}), started: time.Now()}
	p.ctx, p.cancel = context.WithCancelCause(ends)
	return p
}

// isPull reports whether p is not a client of this node, but what another node sends.
func (p *Publisher) isPull() bool { return p.epoch != 0 }

// Context ends when the publisher must stop. Its cause is then a [refuse.Refusal] that says why: another publisher took over,
// or the server shuts down. The caller calls Close soon. Close ends the context, too.
func (p *Publisher) Context() context.Context { return p.ctx }

// Run calls send, which publishes, and then Close. It returns what it gave to Close: what send returned, or the cause of
// the end of Context, or an error for a panic, which is logged, and ends this stream alone.
func (p *Publisher) Run(send func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.s.log.Error("publishing failed", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = errPanic
		} else if err != nil && p.ctx.Err() != nil {
			err = context.Cause(p.ctx)
		}
		p.Close(err)
	}()
	return send()
}

// Close ends what this publisher sends. err is logged; nil means a clean end. The stream then belongs to the publisher
// that takes over, waits for the next one ([Config].PublisherReturn), or ends: its viewers get what there is, and the
// name is free.
func (p *Publisher) Close(err error) {
	if p.s.forms != nil {
		p.s.forms.Pause()
		p.Flush()
	}
	if p.r != nil {
		p.r.Release()
	}
	p.frame.Release()
	p.cancel(nil)
	p.s.log.Info("publisher ended", "publisher", p.address, "reason", explain(err), "status", publishStatus(err),
		"bytes", p.bytes, "frames", p.frames, "time", time.Since(p.started).Round(time.Millisecond))
	if left := p.s.handOver(p, err); left > 0 {
		p.s.log.Info("stream waits for its publisher", "for", left.Round(time.Millisecond))
	}
	p.s.hub.want(p.s.name)
	p.terms.End(explain(err), p.bytes)
}

// Done tells the Hub that the publisher has been answered: Drain waits for that.
func (p *Publisher) Done() { p.s.hub.publishers.Done() }

// Begin says that FLV tags will come, and lets viewers find the stream.
func (p *Publisher) Begin(h flv.Header) {
	as := feed.Publisher{Address: p.address, Epoch: p.epoch, Skipped: p.skipped}
	if p.s.feed != nil {
		p.s.resumed(p, p.s.feed.Resume(as, now()))
	} else {
		var head millrace.Chain
		flv.AppendHeader(&head, h)
		p.s.open(rendition.FLV, bytes.Clone(head.Bytes()))
		head.Release()
		p.s.feed.Begin(as)
	}
	if !p.isPull() {
		p.s.record()
	}
}

// Flush has the viewers served now with what was published: nothing more will come for a while.
func (p *Publisher) Flush() {
	if p.s.forms != nil {
		p.s.forms.Flush()
	}
}

// ReadBody publishes all of body: FLV if it begins like that, and otherwise bytes as they come. It returns nil when the
// body ends where it may end.
func (p *Publisher) ReadBody(body io.Reader) error {
	p.r = millrace.NewReader(body)
	p.r.SetPool(p.s.memory)
	isFLV, err := p.sniff()
	switch {
	case err != nil:
	case isFLV:
		err = p.readFLV()
	default:
		err = p.readRaw()
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// flvHeader is how many bytes of a stream tell that it is FLV.
const flvHeader = 9

// sniff looks at the first bytes, no further than it takes to know.
func (p *Publisher) sniff() (isFLV bool, err error) {
	const signature = "FLV\x01"
	for n := 1; ; n++ {
		b, err := p.r.Peek(n)
		k := min(len(b), len(signature))
		switch {
		case len(b) == 0 && err == io.EOF:
			return false, errEmpty
		case string(b[:k]) != signature[:k]:
			return false, nil
		case err == io.EOF: // a cut header, or less than shows what it is
			return k == len(signature), nil
		case err != nil:
			return false, err
		case n == flvHeader:
			return flv.Sniff(b), nil
		}
	}
}

// looksLike guesses what a stream is from its first bytes.
func looksLike(first []byte) string {
	begins := func(text string) bool { return strings.HasPrefix(string(first), text) }
	switch {
	case begins("G"):
		return "MPEG-TS"
	case begins("\x1aE\xdf\xa3"):
		return "Matroska or WebM"
	case len(first) == 8 && string(first[4:]) == "ftyp":
		return "MP4"
	case begins("\x00\x00\x01"), begins("\x00\x00\x00\x01"):
		return "H.264 or H.265 without a container"
	}
	return "unknown"
}

// readRaw relays bytes as they come.
func (p *Publisher) readRaw() error {
	if p.s.forms != nil {
		return errNotFLV
	}
	p.s.open(rendition.Raw, nil)
	first, _ := p.r.Peek(min(max(p.r.Buffered(), 1), 8))
	p.s.log.Warn("the stream is not FLV: its bytes are relayed as they are, and there is no RTMP, MP4 or HLS of it",
		"publisher", p.address, "looks_like", looksLike(first))
	for {
		if _, err := p.r.Peek(1); err != nil {
			return err
		}
		n := min(p.r.Buffered(), rawChunk)
		if err := p.r.ReadChain(&p.frame, n); err != nil {
			return err
		}
		p.count(n)
		if err := p.s.forms.Publish(&p.frame, true); err != nil {
			return err
		}
	}
}

// readFLV cuts the body into tags.
func (p *Publisher) readFLV() error {
	dec := flv.NewDecoder(p.r, flv.MaxTag(p.s.hub.cfg.maxTag()))
	header, err := dec.Header()
	if err != nil {
		return err
	}
	p.Begin(header)
	for err == nil {
		err = p.next(dec)
	}
	// A header where a tag is due would be one of 5,002,753 bytes: "LV\x01". A tag that is refused stays where it is.
	var limit *flv.LimitError
	if errors.As(err, &limit) {
		if b, _ := p.r.Peek(min(p.r.Buffered(), flvHeader)); flv.Sniff(b) {
			return errSecondHeader
		}
	}
	return err
}

// next moves one tag.
func (p *Publisher) next(dec *flv.Decoder) error {
	t, err := dec.Next(&p.frame)
	if err != nil {
		return err
	}
	return p.WriteTag(t, &p.frame)
}

// WriteTag publishes a tag. It takes ownership of c, which holds all of it.
func (p *Publisher) WriteTag(t flv.Tag, c *millrace.Chain) error {
	return p.s.feed.Write(t, c, p.count(t.Len()))
}

// checkEvery is how many bytes a publisher receives between two looks at the memory in use.
const checkEvery = 256 << 10

// ingest returns an ingest.Conn that reads conn for p. It takes ownership of conn until Release.
func (p *Publisher) ingest(conn net.Conn) ingest.Conn {
	cfg := &p.s.hub.cfg
	return ingest.NewConn(conn, p, ingest.Config{Beat: cfg.Latency, Silence: cfg.PublishTimeout})
}

// Received notes n bytes that were read from the connection.
func (p *Publisher) Received(n int) {
	at := now()
	p.heard.Store(at)
	if limit := p.s.hub.cfg.PublishTimeout; p.r != nil && at-max(p.since, p.framed) > int64(limit) {
		p.cancel(errSlowMessage(limit)) // over RTMP the connection looks after that
	}
	if p.unchecked += n; p.unchecked >= checkEvery {
		p.unchecked = 0
		p.s.hub.cfg.Memory.Check()
	}
}

// count notes n bytes of a frame that has come, and returns the present.
func (p *Publisher) count(n int) int64 {
	at := now()
	p.heard.Store(at)
	p.s.frameAt.Store(at)
	p.framed = at
	p.bytes += int64(n)
	p.frames++
	p.s.hub.counters.bytesIn.Add(int64(n))
	p.s.hub.counters.framesIn.Add(1)
	if p.isPull() {
		p.s.hub.counters.pulled.Add(int64(n))
	}
	p.s.forms.Count(n, at)
	return at
}

// keepTo has the publisher keep to its terms. It is called once, by what has opened it.
func (p *Publisher) keepTo(t Terms) {
	p.terms = t
	p.s.mu.Lock()
	p.s.maxViewers = t.MaxViewers
	p.s.mu.Unlock()
	if t.MaxTime > 0 {
		timer := time.AfterFunc(t.MaxTime, func() { p.cancel(errTimeUp) })
		context.AfterFunc(p.ctx, func() { timer.Stop() })
	}
}

// skip notes n bytes that came and are not part of a frame.
func (p *Publisher) skip(n int) {
	if p.frames == 0 {
		p.skipped += n
	} else {
		p.s.feed.Skip(n)
	}
}
