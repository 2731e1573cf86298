package sim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// answerTime is how long a server may take to answer a viewer: as long as the viewer waits for
	// the stream, and a little more.
	answerTime = 14 * time.Second
	// silence is how long a connection may last without a frame. A stream waits for its publisher
	// for 15 seconds.
	silence = 30 * time.Second
)

// A viewer watches one stream at one node, over FLV or RTMP, and returns when its connection ends.
type viewer struct {
	world  *world
	name   string
	stream string
	node   string
	rtmp   bool
	random *rand.Rand
	client *Process
	leaves bool // stays away for some time, so that its node has no viewer

	absent atomic.Bool  // it does not watch at present
	since  atomic.Int64 // when it last came, in milliseconds since the start of the history
	newest atomic.Int64 // when the newest frame that it has got was sent; see frame.sent
	// reported is set when a failure to serve the viewer was reported. Only watchOver uses it.
	reported bool
}

// run watches until ctx ends.
func (v *viewer) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := v.watch(ctx)
		v.world.book.addf(v.name, "ended: %v", err)
		if v.leaves && !v.world.calm() && v.random.IntN(3) == 0 {
			v.absent.Store(true)
			v.world.pause(ctx, time.Duration(v.random.IntN(15000))*time.Millisecond)
			v.since.Store(ms(time.Since(v.world.book.start)))
			v.absent.Store(false)
		}
		wait(ctx, time.Duration(100+v.random.IntN(400))*time.Millisecond)
	}
}

// watchesFor returns for how long v has watched, apart from short pauses.
func (v *viewer) watchesFor() time.Duration {
	if v.absent.Load() {
		return 0
	}
	return time.Since(v.world.book.start) - time.Duration(v.since.Load())*time.Millisecond
}

func (v *viewer) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !v.world.calm() && v.random.IntN(2) == 0 { // leaves after a while
		time.AfterFunc(time.Duration(2+v.random.IntN(30))*time.Second, cancel)
	}
	dialing, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	port := mainPort
	if v.rtmp {
		port = rtmpPort
	}
	conn, err := v.client.Dial(dialing, "tcp", v.node+":"+port)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetReadDeadline(time.Now().Add(answerTime))
	began := time.Now()
	next, err := v.open(conn)
	if err == nil {
		err = v.receive(conn, next)
	}
	if isTimeout(err) && !v.world.disturbed(v.node, began) {
		v.world.check.fail("%s: %s does not answer: %v", v.name, v.node, err)
	}
	return err
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// open requests the stream. It returns a function that reads the next tag.
func (v *viewer) open(conn net.Conn) (next func() (tag, error), err error) {
	if v.rtmp {
		return v.openRTMP(conn)
	}
	_, err = fmt.Fprintf(conn, "GET /live/%s.flv HTTP/1.1\r\nHost: %s\r\n\r\n", v.stream,
		conn.RemoteAddr())
	if err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16<<10), nil)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return nil, fmt.Errorf("%s %s", res.Status, text)
	}
	head := make([]byte, len(flvHeader))
	if _, err := io.ReadFull(res.Body, head); err != nil {
		return nil, err
	}
	if string(head[:3]) != "FLV" {
		return nil, fmt.Errorf("the stream begins with %q", head)
	}
	return func() (tag, error) { return readTag(res.Body) }, nil
}

func (v *viewer) openRTMP(conn net.Conn) (next func() (tag, error), err error) {
	c, err := newRTMPClient(conn)
	if err != nil {
		return nil, err
	}
	if err := c.call(1, "play", nil, v.stream); err != nil {
		c.release()
		return nil, err
	}
	return func() (tag, error) {
		t, err := c.nextTag()
		if err != nil {
			c.release()
		}
		return t, err
	}, nil
}

// receive checks the frames until the connection ends.
func (v *viewer) receive(conn net.Conn, next func() (tag, error)) error {
	w := &watch{who: v.name, stream: v.stream, node: addressOf(v.node), owned: -1}
	_ = conn.SetReadDeadline(time.Now().Add(silence))
	for {
		t, err := next()
		if err != nil {
			return err
		}
		f, ok := t.frame()
		if !ok {
			if t.kind == typeVideo && len(t.data) > 1 && t.data[1] == 1 {
				v.world.check.fail("%s: a tag of %d bytes that nobody has sent", v.name, len(t.data))
			}
			continue
		}
		_ = conn.SetReadDeadline(time.Now().Add(silence))
		v.world.check.frame(w, f)
		v.newest.Store(f.sent)
	}
}
