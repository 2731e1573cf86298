package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/millrace-io/millrace/frame/flv"
)

// extFLV and extMP4 are what a viewer puts behind a stream's name to ask for a form.
const (
	extFLV = ".flv"
	extMP4 = ".mp4"
)

// publish answers POST and PUT /live/NAME: the body is the stream. NAME.flv is the same, so that one address serves both to
// publish and to watch.
func (s *Server) publish(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(r.PathValue("name"), extFLV)
	if err := checkName(name); err != nil {
		refuseBody(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if status, reason := s.askGate(w, r, "publisher refused", "stream", name, "publisher", r.RemoteAddr); status != 0 {
		refuseBody(w, r, status, reason)
		return
	}
	st := s.newStream(name, r.RemoteAddr)
	if err := s.registry.claim(st); err != nil {
		status := claimStatus(err)
		s.log.Warn("publisher refused", "stream", name, "publisher", r.RemoteAddr, "status", status, "reason", err)
		refuseBody(w, r, status, err.Error())
		return
	}
	if up, err := newDirectUplink(w, r, st); err == nil {
		s.receiveApart(st, up)
		return
	}
	s.receive(st, newHandlerUplink(w, r, st))
}

// receiveApart is receive, but returns at once, so that net/http's buffers and stack do not live as long as the stream.
func (s *Server) receiveApart(st *stream, up *directUplink) {
	c, ok := up.conn.(driven)
	if !ok {
		go s.receive(st, up)
		return
	}
	var err error
	c.start(func() { err = st.ingest(up) }, func() {
		if conn, failed := c.detach(); failed == nil {
			up.wait(conn, func() {})
		}
		s.conclude(st, up, err)
	})
}

// receive relays what a publisher sends, and answers it at the end.
func (s *Server) receive(st *stream, up uplink) { s.conclude(st, up, st.ingest(up)) }

// conclude answers a publisher whose stream has ended.
func (s *Server) conclude(st *stream, up uplink, err error) {
	defer s.registry.leave()
	status := publishStatus(err)
	if err != nil && s.draining.Err() != nil {
		status, err = http.StatusServiceUnavailable, errDraining
	}
	st.logEnd(status, err)
	if err != nil {
		up.answer(status, "text/plain; charset=utf-8", []byte(explain(err)+"\n"), false)
		return
	}
	report, err := json.Marshal(summary{
		Stream: st.name, Format: st.live.form.String(), Bytes: st.bytesIn.Load(), Frames: st.framesIn.Load(),
		Seconds: time.Since(st.started).Seconds(),
	})
	if err != nil {
		panic(err) // numbers and checked strings
	}
	up.answer(status, "application/json", append(report, '\n'), true)
}

// summary is what a publisher gets at the end.
type summary struct {
	Stream  string  `json:"stream"`
	Format  string  `json:"format"`
	Bytes   int64   `json:"bytes"`
	Frames  int64   `json:"frames"`
	Seconds float64 `json:"seconds"`
}

// errPanic stands for a mistake in here, so that it ends one stream and is told as what it is.
var errPanic = errors.New("internal error")

// ingest moves body into s and closes s, whatever happens.
func (s *stream) ingest(body io.Reader) (err error) {
	defer s.end()
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("publishing failed", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return s.run(body)
}

func (s *stream) logEnd(status int, err error) {
	s.log.Info("publisher ended", "publisher", s.publisher, "reason", explain(err), "status", status,
		"bytes", s.bytesIn.Load(), "frames", s.framesIn.Load(), "time", time.Since(s.started).Round(time.Millisecond))
}

func claimStatus(err error) int {
	if err == errTaken {
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

// publishStatus is the status for the way a stream ended.
func publishStatus(err error) int {
	var limit *flv.LimitError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &limit):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case err == errPanic:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}
