package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/feed"
	"github.com/millrace-io/millrace/server/internal/live/ingest"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// rawChunk limits how many bytes of a stream of unknown format are relayed at a time.
const rawChunk = 64 << 10

// A Publisher feeds one stream over one connection, from [Hub.Open] to Close. The caller publishes
// either FLV tags (Begin, then WriteTag) or an HTTP body (ReadBody). Only one goroutine at a time
// may use a Publisher.
type Publisher struct {
	*claim
	hub     *Hub
	s       *stream
	started time.Time
	terms   Terms

	r     *millrace.Reader // used by ReadBody
	frame millrace.Chain   // the frame that is being received; empty between frames

	skipped int // bytes that came before Begin
	received
}

type received struct {
	bytes, frames int64
	framed        int64 // time of the last complete frame; see nanotime
	unchecked     int   // bytes since the memory in use was last checked
}

// Open makes a Publisher for the named stream, and starts the stream if it does not exist. If the
// stream waits for a publisher, the new Publisher continues the stream. If the stream already has a
// publisher, the new Publisher takes over, unless Config.Takeover protects the current publisher.
// An error is a [refuse.Refusal].
//
// The address identifies the publisher in logs and in the API. The parameter terms contains the
// limits on how long the Publisher may publish, and on how many viewers its stream may have.
// Viewers cannot find a new stream until its format is known.
//
// The caller must end the Publisher with Run or Close. It must then call Answered when the client
// has received its response.
func (h *Hub) Open(name, address string, terms Terms) (*Publisher, error) {
	if err := streamname.Check(name); err != nil {
		return nil, err
	}
	p := h.newPublisher(address)
	err := registrar{h}.claim(p.claim, name)
	if err == nil {
		p.s, err = registrar{h}.awaitGrant(p.claim, name)
	}
	if err != nil {
		p.cancel(err)
		return nil, err
	}
	p.keepTo(terms)
	return p, nil
}

func (h *Hub) newPublisher(address string) *Publisher {
	return &Publisher{hub: h, claim: newClaim(h.ends, address), started: time.Now()}
}

// Lifetime returns a context that ends when the publisher must stop. The cause is then a
// [refuse.Refusal] with the reason, for example that another publisher took over or that the server
// shuts down. The caller must then call Close soon. Close also ends the context.
func (p *Publisher) Lifetime() context.Context { return p.ctx }

// Run calls send, which must publish the stream. It passes the error of send to Close, and returns
// it. If the context of Lifetime has ended, the cause of the context replaces the error. If send
// panics, Run logs the panic, and ErrPanic is the error.
func (p *Publisher) Run(send func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.s.log.Error("publishing failed", "cause", fmt.Sprint(cause), "stack",
				string(debug.Stack()))
			err = ErrPanic
		} else if err != nil && p.ctx.Err() != nil {
			err = context.Cause(p.ctx)
		}
		p.Close(err)
	}()
	return send()
}

// Close ends the publisher. err is logged; nil means a clean end. If another publisher takes over,
// the stream belongs to that publisher from now on. Otherwise the stream waits for the next
// publisher ([Config].PublisherReturn), or ends. If the stream ends, its viewers receive their
// queued frames, and the name becomes free.
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
	p.s.log.Info("publisher ended", "publisher", p.address, "reason", Explain(err), "status",
		PublishStatus(err),
		"bytes", p.bytes, "frames", p.frames, "time", time.Since(p.started).Round(time.Millisecond))
	left := registrar{p.hub}.handOver(p.s, p.claim, p.frames, err)
	if left > 0 {
		p.s.log.Info("stream waits for its publisher", "for", left.Round(time.Millisecond))
	}
	p.hub.want(p.s.name)
	p.terms.End(Explain(err), p.bytes)
}

// End ends the context of Lifetime with the given cause, so that the publisher stops.
func (p *Publisher) End(cause error) { p.cancel(cause) }

// Memory returns the Pool for the bytes that the publisher sends. The Pool counts the stream's
// memory.
func (p *Publisher) Memory() *millrace.Pool { return p.s.memory }

// SetReconnects sets whether the client can be asked to connect again.
func (p *Publisher) SetReconnects(can bool) { p.reconnects.Store(can) }

// MustReconnect reports whether the client must be asked to connect again.
func (p *Publisher) MustReconnect() bool { return p.leaves.Load() }

// A Summary says how much a publisher has sent. It is encoded as JSON.
type Summary struct {
	Stream  string  `json:"stream"`
	Format  string  `json:"format"`
	Bytes   int64   `json:"bytes"`
	Frames  int64   `json:"frames"`
	Seconds float64 `json:"seconds"`
}

// Summary describes what the publisher has sent. The stream must already have a format.
func (p *Publisher) Summary() Summary {
	return Summary{Stream: p.s.name, Format: p.s.forms.Format().String(), Bytes: p.bytes,
		Frames:  p.frames,
		Seconds: time.Since(p.started).Seconds()}
}

// Answered tells the Hub that the publisher's client has received its response. Drain waits until
// Answered has been called for every publisher.
func (p *Publisher) Answered() { p.hub.publishers.Done() }

// Begin makes the stream visible to viewers. It must be called before the first call to WriteTag.
func (p *Publisher) Begin(h flv.Header) {
	as := feed.Publisher{Address: p.address, Epoch: p.epoch, Skipped: p.skipped}
	if p.s.feed != nil {
		p.noteResumed(p.s.feed.Resume(as, nanotime()))
	} else {
		var head millrace.Chain
		flv.AppendHeader(&head, h)
		p.open(rendition.FLV, bytes.Clone(head.Bytes()))
		head.Release()
		p.s.feed.Begin(as)
	}
	if !p.isPull() {
		p.hub.record(p.s)
		p.hub.push(p.s, p.terms.Push)
	}
}

// open sets the stream's format, and makes the stream visible to viewers.
func (p *Publisher) open(f rendition.Format, head []byte) {
	s := p.s
	p.hub.counters.published.Add(1)
	forms := rendition.New(&p.hub.forms, s.log, s.memory, f, head)
	forms.SetPublisher(p.address)
	if f == rendition.FLV {
		s.feed = feed.New(forms, s.log, s.memory)
	}
	p.hub.announce(s, forms)
	s.log.Info("publisher started", "publisher", p.address, "format", f.String())
}

// noteResumed counts and logs that p continues the stream of an earlier publisher. pause is the
// time since the last frame.
func (p *Publisher) noteResumed(pause time.Duration) {
	if !p.replaced && !p.isPull() {
		p.s.returns.Add(1)
		p.hub.counters.returns.Add(1)
	}
	p.s.log.Info("publisher continues the stream", "publisher", p.address, "after",
		pause.Round(time.Millisecond),
		"takeover", p.replaced)
}

// Flush sends all published frames to the viewers at once. It is called when no more frames will
// arrive for a while.
func (p *Publisher) Flush() {
	if p.s.forms != nil {
		p.s.forms.Flush()
	}
}

// ReadBody publishes all of body. If the body begins with an FLV header, ReadBody divides it into
// tags. Otherwise, ReadBody relays the bytes unchanged. It returns an error if the body is empty,
// or if the body ends within a tag or a header.
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

// flvHeader is the number of bytes that identify a stream as FLV.
const flvHeader = 9

// sniff reports whether the body is FLV. It reads only as many bytes as it needs.
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
		case err == io.EOF: // an incomplete header, or too few bytes to identify the format
			return k == len(signature), nil
		case err != nil:
			return false, err
		case n == flvHeader:
			return flv.Sniff(b), nil
		}
	}
}

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

func (p *Publisher) readRaw() error {
	if p.s.forms != nil {
		return errNotFLV
	}
	p.open(rendition.Raw, nil)
	first, _ := p.r.Peek(min(max(p.r.Buffered(), 1), 8))
	p.s.log.Warn("the stream is not FLV: its bytes are relayed unchanged, without RTMP, MP4 or HLS",
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

func (p *Publisher) readFLV() error {
	dec := flv.NewDecoder(p.r, flv.MaxTag(p.hub.cfg.MaxTag()))
	header, err := dec.Header()
	if err != nil {
		return err
	}
	p.Begin(header)
	for err == nil {
		err = p.next(dec)
	}
	// If a second FLV header comes in place of a tag, the decoder reads it as the header of a tag
	// of 5,002,753 bytes ("LV\x01"), and refuses that tag. The bytes of a refused tag stay in the
	// buffer.
	var limit *flv.LimitError
	if errors.As(err, &limit) {
		if b, _ := p.r.Peek(min(p.r.Buffered(), flvHeader)); flv.Sniff(b) {
			return errSecondHeader
		}
	}
	return err
}

func (p *Publisher) next(dec *flv.Decoder) error {
	t, err := dec.Next(&p.frame)
	if err != nil {
		return err
	}
	return p.WriteTag(t, &p.frame)
}

// WriteTag publishes the tag t. It takes ownership of c, which holds all bytes of the tag.
func (p *Publisher) WriteTag(t flv.Tag, c *millrace.Chain) error {
	return p.s.feed.Write(t, c, p.count(t.Len()))
}

// checkEvery is the number of received bytes between two checks of the memory in use.
const checkEvery = 256 << 10

// Ingest returns an ingest.Conn that reads conn for p. The ingest.Conn owns conn until Release.
func (p *Publisher) Ingest(conn net.Conn) ingest.Conn {
	cfg := &p.hub.cfg
	return ingest.NewConn(conn, p, ingest.Config{Beat: cfg.Latency, Silence: cfg.PublishTimeout})
}

// Received records that n bytes were read from the connection.
func (p *Publisher) Received(n int) {
	at := nanotime()
	p.lastInput.Store(at)
	if limit := p.hub.cfg.PublishTimeout; p.r != nil && at-max(p.since, p.framed) > int64(limit) {
		p.cancel(ErrSlowMessage(limit)) // over RTMP, the connection checks this
	}
	if p.unchecked += n; p.unchecked >= checkEvery {
		p.unchecked = 0
		p.hub.cfg.Memory.Check()
	}
}

// count records that a frame of n bytes was received. It returns the current nanotime.
func (p *Publisher) count(n int) int64 {
	at := nanotime()
	p.lastInput.Store(at)
	p.s.frameAt.Store(at)
	p.framed = at
	p.bytes += int64(n)
	p.frames++
	p.hub.counters.bytesIn.Add(int64(n))
	p.hub.counters.framesIn.Add(1)
	if p.isPull() {
		p.hub.counters.pulled.Add(int64(n))
	}
	p.s.forms.Count(n, at)
	return at
}

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

// Skip adds n to the number of bytes that have arrived since the last published frame. Over RTMP,
// the caller calls Skip before it publishes a frame, and n includes the bytes of this frame.
func (p *Publisher) Skip(n int) {
	if p.frames == 0 {
		p.skipped += n
	} else {
		p.s.feed.Skip(n)
	}
}
