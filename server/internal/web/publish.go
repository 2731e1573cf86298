package web

import (
	"encoding/json"
	"net/http"

	"github.com/millrace-io/millrace/server/internal/live"
)

// Publish relays the body of a POST or PUT. The stream's name is name. Publish answers at the end.
// If it returns an error, it is a [refuse.Refusal]. The body was then not read, and the caller
// answers. If the connection is plain HTTP/1 and can be read by the clock, Publish takes over the
// connection and returns at once. The buffers and the stack of net/http then need not live as long
// as the stream.
func (d Handler) Publish(w http.ResponseWriter, r *http.Request, name string,
	terms live.Terms) error {
	p, err := d.hub.Open(name, r.RemoteAddr, terms)
	if err != nil {
		return err
	}
	if body := d.newConnBody(w, r, p); body != nil {
		go receive(p, body)
	} else {
		receive(p, d.newHandlerBody(w, r, p))
	}
	return nil
}

// receive publishes a body, and answers the request at the end.
func receive(p *live.Publisher, body publishBody) {
	defer p.Answered()
	if err := p.Run(func() error { return p.ReadBody(body) }); err != nil {
		body.answer(live.PublishStatus(err), "text/plain; charset=utf-8",
			[]byte(live.Explain(err)+"\n"))
		return
	}
	report, err := json.Marshal(p.Summary())
	if err != nil {
		panic(err) // impossible: a Summary has only numbers and checked strings
	}
	body.answer(http.StatusOK, "application/json", append(report, '\n'))
}
