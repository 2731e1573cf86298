package rtmp

import (
	"context"

	"github.com/millrace-io/millrace/internal/load"
)

// subscription is a stream on its way from the server.
type subscription struct{ c *conn }

// bufferLength is what the player claims to hold, in milliseconds.
const bufferLength = 1000

// liveOnly asks for a live stream, never for a recording.
const liveOnly = -1000.0

// Watch implements load.Protocol.
func (s *Server) Watch(ctx context.Context, name string) (load.Subscription, error) {
	dial := s.Dial
	if s.WatchDial != nil {
		dial = s.WatchDial
	}
	c, err := s.connect(ctx, dial)
	if err != nil {
		return nil, err
	}
	err = c.out.event(eventSetBufferLength, c.out.stream, bufferLength)
	if err == nil {
		err = c.out.command(c.out.stream, "play", 3.0, nil, name, liveOnly)
	}
	if err == nil {
		err = c.awaitStatus("NetStream.Play.Start")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return &subscription{c: c}, nil
}

func (s *subscription) Next(a *load.Arrival) error { return s.c.in.nextMedia(a) }

func (s *subscription) Close() error { return s.c.close() }
