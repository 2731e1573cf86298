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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// ownedTime is longer than a node keeps the ownership of a stream that waits for its publisher.
const ownedTime = 20 * time.Second

// frameTime is the time between two frames of a stream.
const frameTime = 100 * time.Millisecond

// A publisher publishes one stream at one node at a time, and returns when its connection ends.
type publisher struct {
	world  *world
	stream int
	random *rand.Rand
	client *Process
	rtmp   bool
	extra  bool // a second publisher of the stream, which comes and goes
	// Decides when the publisher first opens a connection on which it sends nothing, as an encoder
	// that is restarted at once, and when it leaves without closing its connection.
	hesitations *rand.Rand
	silent      sync.WaitGroup // goroutines of stayConnected
}

func (p *publisher) who() string { return fmt.Sprintf("pub%d", p.stream) }

// run publishes until ctx ends. When the world is calm, it stays at one node.
func (p *publisher) run(ctx context.Context) {
	defer p.silent.Wait()
	for ctx.Err() == nil && !p.world.ending.Load() {
		if p.extra {
			p.pause(ctx, time.Second, 8*time.Second)
			if p.world.calm() || ctx.Err() != nil {
				continue
			}
		}
		node := p.world.names[p.random.IntN(len(p.world.names))]
		err := p.publish(ctx, node)
		p.world.book.addf(p.who(), "ended at %s: %v", node, err)
		switch {
		case p.world.calm():
			p.pause(ctx, 100*time.Millisecond, 300*time.Millisecond)
		case p.random.IntN(4) == 0:
			p.pause(ctx, time.Second, 8*time.Second)
		default:
			p.pause(ctx, 100*time.Millisecond, time.Second)
		}
	}
}

// pause waits for a random time. When the faults are over, it waits no longer.
func (p *publisher) pause(ctx context.Context, least, most time.Duration) {
	p.world.pause(ctx, least+time.Duration(p.random.Int64N(int64(most-least))))
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// A door accepts the tags of a publisher.
type door interface {
	send(at uint32, data []byte) error
	end() // ends the stream as an encoder does that is stopped
	cut() // breaks the connection
	ended() <-chan struct{}
	reason() string
}

// publish publishes at a node until the session ends.
func (p *publisher) publish(ctx context.Context, node string) error {
	recently := time.Now().Add(-ownedTime)
	known := !p.world.disturbed(node, recently) && !p.world.disturbed("redis", recently)
	gone := func() {}
	if p.hesitations.IntN(4) == 0 && !p.world.calm() && p.world.takeover == live.TakeoverAlways {
		gone = p.hesitate(ctx, node)
	}
	s := p.world.check.newSession(fmt.Sprint("s", p.stream), node, known)
	conn, d, err := p.open(ctx, node, flvHeader)
	gone()
	if err != nil {
		if strings.Contains(err.Error(), "BadName") {
			p.dismissed(s, "this name has a publisher already")
		}
		p.world.check.sessionEnded(s)
		return err
	}
	p.world.book.addf(p.who(), "session %d begins at %s", s.id, node)
	stop := context.AfterFunc(ctx, d.cut)
	defer stop()
	if err = p.sendFrames(ctx, node, conn, s, d); err == errLost {
		p.silent.Go(func() { p.stayConnected(ctx, s, d) })
		return err
	}
	p.leave(s, d)
	return err
}

// errLost means that the publisher has left without closing its connection.
var errLost = errors.New("the connection of the encoder is lost")

// sendFrames sends frames until the session ends.
func (p *publisher) sendFrames(ctx context.Context, node string, conn net.Conn, s *session,
	d door) error {
	limit := time.Duration(3+p.random.IntN(20)) * time.Second
	if p.hesitations.IntN(4) == 0 {
		limit = time.Duration(300+p.hesitations.IntN(2700)) * time.Millisecond
	}
	base := uint32(p.random.IntN(3)) * 1_000_000
	gop := 5 + p.random.IntN(20)
	first := 0 // number of frames since the last keyframe before the session
	if p.random.IntN(3) == 0 {
		first = p.random.IntN(gop)
	}
	p.world.check.begin(s, (gop-first)%gop)
	begin := time.Now()
	shift := time.Duration(0) // the time for which the session stalled
	_ = conn.SetDeadline(time.Time{})
	if err := d.send(base, avcHeader); err != nil {
		return err
	}
	for i := 0; ; i++ {
		due := begin.Add(time.Duration(i)*frameTime + shift)
		timer := time.NewTimer(time.Until(due))
		select {
		case <-timer.C:
		case <-d.ended():
			timer.Stop()
			p.dismissed(s, d.reason())
			return fmt.Errorf("the server answers: %s", d.reason())
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		at := base + uint32(due.Sub(begin).Milliseconds())
		f := frame{stream: p.stream, session: s.id, seq: i, sent: ms(time.Since(p.world.book.start)),
			key: (first+i)%gop == 0, time: at}
		p.world.check.sent(s)
		_ = conn.SetWriteDeadline(time.Now().Add(6 * time.Second))
		if err := d.send(at, f.payload()); err != nil {
			return err
		}
		if p.world.calm() {
			if p.extra || p.world.ending.Load() {
				d.end()
				return fmt.Errorf("the encoder ends for good")
			}
			continue
		}
		if p.random.IntN(150) == 0 {
			p.world.book.add(p.who(), "stalls")
			stalled := time.Now()
			p.pause(ctx, 500*time.Millisecond, 6*time.Second)
			shift += time.Since(stalled)
		}
		if p.hesitations.IntN(80) == 0 && p.world.takeover != live.TakeoverNever &&
			(p.world.disturbed(node, time.Now()) || p.world.disturbed("redis", time.Now())) {
			return errLost // a network has more than one failure at once
		}
		if time.Since(begin) > limit {
			if p.random.IntN(2) == 0 {
				d.end()
				return fmt.Errorf("the encoder ends")
			}
			// With TakeoverNever, the encoder could not return when the faults are over.
			if p.hesitations.IntN(2) == 0 && p.world.takeover != live.TakeoverNever {
				return errLost
			}
			return fmt.Errorf("the encoder breaks off")
		}
	}
}

// leave ends a session.
func (p *publisher) leave(s *session, d door) {
	d.cut()
	p.world.check.sessionEnded(s)
}

// stayConnected ends a session when the server has ended it, or when ctx ends.
func (p *publisher) stayConnected(ctx context.Context, s *session, d door) {
	select {
	case <-d.ended():
	case <-ctx.Done():
	}
	p.leave(s, d)
}

// open opens a connection that publishes at a node. Over HTTP, the body begins with head.
func (p *publisher) open(ctx context.Context, node string, head []byte) (net.Conn, door,
	error) {
	port := mainPort
	if p.rtmp {
		port = rtmpPort
	}
	dialing, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	conn, err := p.client.Dial(dialing, "tcp", node+":"+port)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(8 * time.Second))
	var d door
	if stream := fmt.Sprint("s", p.stream); p.rtmp {
		d, err = p.openRTMP(conn, stream)
	} else {
		d, err = p.openHTTP(conn, stream, head)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, d, nil
}

// hesitate opens a connection that publishes at a node, and sends nothing. It returns a function
// that ends the connection.
func (p *publisher) hesitate(ctx context.Context, node string) (end func()) {
	s := p.world.check.newSession(fmt.Sprint("s", p.stream), node, false)
	_, d, err := p.open(ctx, node, nil)
	if err != nil {
		p.world.check.sessionEnded(s)
		return func() {}
	}
	p.world.book.addf(p.who(), "session %d begins at %s, and is silent", s.id, node)
	wait(ctx, time.Duration(600+p.hesitations.IntN(1500))*time.Millisecond)
	return func() { p.leave(s, d) }
}

func (p *publisher) dismissed(s *session, reason string) {
	p.world.check.dismissed(s, reason, func(address string, d time.Duration) bool {
		return slices.ContainsFunc(p.world.names, func(name string) bool {
			return addressOf(name) == address && p.world.disturbed(name, time.Now().Add(-d))
		})
	})
}

// An httpDoor publishes FLV with a chunked body.
type httpDoor struct {
	conn   net.Conn
	out    []byte
	closed chan struct{}
	mu     sync.Mutex
	answer string
}

func (p *publisher) openHTTP(conn net.Conn, stream string, head []byte) (door, error) {
	d := &httpDoor{conn: conn, closed: make(chan struct{})}
	text := fmt.Sprintf("POST /live/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n", stream, conn.RemoteAddr(), publishToken)
	if len(head) > 0 {
		text += fmt.Sprintf("%x\r\n%s\r\n", len(head), head)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return nil, err
	}
	go func() {
		defer close(d.closed)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.answer = fmt.Sprint(err); err == nil {
			text, _ := io.ReadAll(io.LimitReader(res.Body, 200))
			d.answer = fmt.Sprintf("%s %s", res.Status, text)
		}
	}()
	return d, nil
}

func (d *httpDoor) send(at uint32, data []byte) error {
	tag := appendTag(nil, typeVideo, at, data)
	d.out = append(strconv.AppendInt(d.out[:0], int64(len(tag)), 16), "\r\n"...)
	d.out = append(append(d.out, tag...), "\r\n"...)
	_, err := d.conn.Write(d.out)
	return err
}

func (d *httpDoor) end() {
	_, _ = io.WriteString(d.conn, "0\r\n\r\n")
	_ = d.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	<-d.closed
}

func (d *httpDoor) cut()                   { _ = d.conn.Close() }
func (d *httpDoor) ended() <-chan struct{} { return d.closed }

func (d *httpDoor) reason() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answer
}

// An rtmpDoor publishes over RTMP.
type rtmpDoor struct {
	c      *rtmpClient
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	why    string
}

func (p *publisher) openRTMP(conn net.Conn, stream string) (door, error) {
	c, err := newRTMPClient(conn)
	if err != nil {
		return nil, err
	}
	if err = c.call(1, "publish", nil, stream+"?token="+publishToken, "live"); err == nil {
		var code string
		if code, err = c.awaitStatus(); err == nil && code != "NetStream.Publish.Start" {
			err = fmt.Errorf("the server answers %s", code)
		}
	}
	if err != nil {
		c.release()
		return nil, err
	}
	d := &rtmpDoor{c: c, closed: make(chan struct{})}
	go func() {
		defer close(d.closed)
		for {
			m, body, err := c.next()
			d.mu.Lock()
			if code := status(m, body); code != "" {
				d.why = code
			}
			if err != nil {
				d.why += fmt.Sprint(" ", err)
				d.mu.Unlock()
				return
			}
			d.mu.Unlock()
		}
	}()
	return d, nil
}

func (d *rtmpDoor) send(at uint32, data []byte) error { return d.c.publishTag(at, data) }

func (d *rtmpDoor) end() {
	_ = d.c.call(1, "deleteStream", nil, 1)
}

func (d *rtmpDoor) cut() {
	_ = d.c.conn.Close()
	<-d.closed
	d.once.Do(d.c.release)
}

func (d *rtmpDoor) ended() <-chan struct{} { return d.closed }

func (d *rtmpDoor) reason() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.why
}
