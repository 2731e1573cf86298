package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"
)

// whole is the reply to GET for the key that proxied returns.
const whole = "$5\r\nvalue\r\n"

// proxied returns a proxy to the shared server, and a key that is set on it.
func proxied(t *testing.T) (p *Proxy, key string) {
	t.Helper()
	s := Shared(t)
	s.Do(t, "SET", t.Name(), "value")
	return s.Proxy(t), t.Name()
}

// ask sends a GET on a new connection through the proxy.
func ask(t *testing.T, p *Proxy, key string) *conn {
	t.Helper()
	c := dial(t, p.Endpoint())
	_ = c.SetDeadline(time.Now().Add(timeout))
	if _, err := c.Write(request("GET", key)); err != nil {
		t.Fatal(err)
	}
	return c
}

// receive fails the test unless the next bytes are want.
func (c *conn) receive(t *testing.T, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(timeout))
	if n, err := io.ReadFull(c, got); string(got[:n]) != want {
		t.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

// receiveNothing fails the test if c receives a byte within a short time, or ends.
func (c *conn) receiveNothing(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || !timedOut(err) {
		t.Errorf("got %d bytes, %v", n, err)
	}
}

// Each rule applies after any byte of a reply.
func TestReplyRules(t *testing.T) {
	p, key := proxied(t)
	set := func(r Rule) *conn {
		p.Set(r.On("GET"))
		return ask(t, p, key)
	}
	for n := range int64(len(whole) + 1) {
		if got, err := io.ReadAll(set(CutReply(n))); string(got) != whole[:n] || err != nil {
			t.Errorf("cut after %d bytes: %q, %v", n, got, err)
		}
		if got, err := io.ReadAll(set(CutReply(n).Reset())); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("reset after %d bytes: %q, %v", n, got, err)
		}
		set(InjectReply(n, "xyz")).receive(t, whole[:n]+"xyz"+whole[n:])
		c := set(SwallowReply(n))
		c.receive(t, whole[:n])
		c.receiveNothing(t)
		c = set(HoldReply(n))
		c.receive(t, whole[:n])
		c.receiveNothing(t)
		p.Release()
		c.receive(t, whole[n:])
	}
}

// The server gets n bytes of a request and no more.
func TestRequestRules(t *testing.T) {
	p, key := proxied(t)
	set := func(r Rule) error {
		p.Set(r)
		_, err := dial(t, p.Endpoint()).do(t.Context(), "SET", key, "other")
		return err
	}
	for n := range request("SET", key, "other") {
		if set(CutRequest(int64(n))) == nil {
			t.Errorf("no error after %d bytes", n)
		}
	}
	if set(CutRequest(0).On(key+"\r\n").Once()) == nil {
		t.Error("no error after the marker")
	}
	ask(t, p, key).receive(t, whole) // only once

	p.Set(HoldRequest(2).On("GET"))
	passed := p.Requests() + int64(len("*2\r\n$3\r\nGET\r\n"))
	c := ask(t, p, key)
	await(t, "the first bytes", func(context.Context) error {
		if n := p.Requests(); n != passed {
			return fmt.Errorf("%d have passed, want %d", n, passed)
		}
		return nil
	})
	c.receiveNothing(t)
	p.Release()
	c.receive(t, whole)
}

func TestPushAndCut(t *testing.T) {
	p, key := proxied(t)
	c := ask(t, p, key)
	c.receive(t, whole)
	p.Push(">0\r\n")
	c.receive(t, ">0\r\n")
	p.Cut()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	ask(t, p, key).receive(t, whole)
}
