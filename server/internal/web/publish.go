package web

import (
	"encoding/json"
	"net/http"

	"github.com/millrace-io/millrace/server/internal/live"
)

// Publish relays the body of a POST or PUT as the stream called name, and sends the response at the
// end. If Publish returns an error, the error is a [refuse.Refusal]. In this case, the body has not
// been read, and the caller must send the response.
//
// Over HTTP/1 without TLS, Publish usually takes over the connection and returns at once. This
// frees the buffers and the goroutine of net/http while the stream lasts.
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

func receive(p *live.Publisher, body publishBody) {
	defer p.Answered()
	if err := p.Run(func() error { return p.ReadBody(body) }); err != nil {
		body.answer(live.PublishStatus(err), "text/plain; charset=utf-8",
			[]byte(live.Explain(err)+"\n"))
		return
	}
	report, err := json.Marshal(p.Summary())
	if err != nil {
		panic(err) // a Summary has only numbers and checked strings
	}
	body.answer(http.StatusOK, "application/json", append(report, '\n'))
}
