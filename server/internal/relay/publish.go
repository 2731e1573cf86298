package relay

import (
	"encoding/json"
	"net/http"
	"time"
)

// HTTP answers publishers and viewers by HTTP, with the streams of a Hub.
type HTTP struct{ hub *Hub }

// NewHTTP returns what answers for h.
func NewHTTP(h *Hub) HTTP { return HTTP{h} }

// Publish relays the body of a POST or PUT as the stream name, and answers it at the end. An error is a [refuse.Refusal]: the
// body was not read, and the caller answers. A plain HTTP/1.1 connection is taken over, and Publish returns at once, so
// that net/http's buffers and stack do not live as long as the stream.
func (d HTTP) Publish(w http.ResponseWriter, r *http.Request, name string, terms Terms) error {
	p, err := d.hub.Open(name, r.RemoteAddr)
	if err != nil {
		return err
	}
	p.keepTo(terms)
	if body := newConnBody(w, r, p); body != nil {
		go p.receive(body)
	} else {
		p.receive(newHandlerBody(w, r, p))
	}
	return nil
}

// summary is what a publisher gets at the end.
type summary struct {
	Stream  string  `json:"stream"`
	Format  string  `json:"format"`
	Bytes   int64   `json:"bytes"`
	Frames  int64   `json:"frames"`
	Seconds float64 `json:"seconds"`
}

// receive publishes a body and answers it.
func (p *Publisher) receive(body publishBody) {
	defer p.Done()
	if err := p.Run(func() error { return p.ReadBody(body) }); err != nil {
		body.answer(publishStatus(err), "text/plain; charset=utf-8", []byte(explain(err)+"\n"))
		return
	}
	report, err := json.Marshal(summary{
		Stream: p.s.name, Format: p.s.forms.Format().String(), Bytes: p.bytes, Frames: p.frames,
		Seconds: time.Since(p.started).Seconds(),
	})
	if err != nil {
		panic(err) // numbers and checked strings
	}
	body.answer(http.StatusOK, "application/json", append(report, '\n'))
}
