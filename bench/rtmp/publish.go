package rtmp

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// publication is a stream on its way to the server. A goroutine of its own
// reads what the server says, because pings want an answer.
type publication struct {
	c    *conn
	done chan struct{} // closed when that goroutine has ended
	err  error         // why it ended; valid once done is closed
}

// Publish implements load.Protocol.
func (s *Server) Publish(ctx context.Context, name string) (load.Publication, error) {
	c, err := s.connect(ctx, s.Dial)
	if err != nil {
		return nil, err
	}
	err = c.out.command(c.out.stream, "publish", 3.0, nil, name, "live")
	if err == nil {
		err = c.awaitStatus("NetStream.Publish.Start")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	p := &publication{c: c, done: make(chan struct{})}
	go p.listen()
	return p, nil
}

func (p *publication) listen() {
	defer close(p.done)
	defer p.c.close()
	for p.err == nil {
		_, p.err = p.c.in.next()
	}
}

// setDataFrame is the command in front of metadata that a server is to keep.
var setDataFrame = appendAMF(nil, "@setDataFrame")

func (p *publication) WriteTag(t load.Tag) error {
	w := p.c.out
	switch t.Kind {
	case load.Audio:
		return w.message(csAudio, t.Kind, w.stream, t.Timestamp, t.Payload)
	case load.Video:
		return w.message(csVideo, t.Kind, w.stream, t.Timestamp, t.Payload)
	default:
		return w.message(csData, t.Kind, w.stream, t.Timestamp, setDataFrame, t.Payload)
	}
}

func (p *publication) Close() error {
	p.c.net.SetDeadline(time.Now().Add(time.Second))
	err := p.c.out.command(0, "deleteStream", 4.0, nil, float64(p.c.out.stream))
	p.c.net.Close()
	<-p.done
	return err
}
