package redisbuf

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// A push may arrive before or after a reply. In both cases the connection stays usable.
func TestPushes(t *testing.T) {
	c, p := proxied(t)
	ctx := bounded(t)
	value := randomValue(500)
	must(t, c.SetFromBuffer(ctx, "push", value))
	const push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n"
	before := p.Accepted()
	for _, g := range gets {
		for range 3 {
			p.Set(redistest.InjectReply(0, push+push).On("push\r\n"),
				redistest.InjectReply(508, push).On("push\r\n"))
			if g.asksTwice() {
				p.Set(redistest.InjectReply(0, push+push).On("push\r\n"))
			}
			got, err := g.call(ctx, c, "push", len(value))
			if err != nil || !bytes.Equal(got, value) {
				t.Fatalf("%s: %v, want the value in spite of pushes", g.name, err)
			}
			p.Set()
			p.Push(push[:20]) // the rest may arrive during the next call
			p.Push(push[20:])
		}
	}
	if after := p.Accepted(); after != before {
		t.Errorf("%d new connections", after-before)
	}
}

// Pushes may also arrive between the replies to one call of a pipeline or of a ReaderAt.
func TestPushesBetweenReplies(t *testing.T) {
	const push = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n"
	const value = "0123456789"
	c, p := proxied(t)
	ctx := bounded(t)
	must(t, c.SetFromBuffer(ctx, "between", []byte(value)))
	before := p.Accepted()
	for _, tt := range []struct {
		name    string
		on      string
		replies []string
		call    func() ([]byte, error)
	}{
		{"Pipeline", "between\r\n", []string{"$10\r\n" + value + "\r\n", "+OK\r\n"},
			func() ([]byte, error) {
				bufs := [2][]byte{make([]byte, 10), make([]byte, 10)}
				pipe := c.Pipeline()
				pipe.GetToBuffer("between", bufs[0])
				pipe.SetFromBuffer("between", []byte(value))
				pipe.GetToBuffer("between", bufs[1])
				err := pipe.Exec(ctx)
				if !bytes.Equal(bufs[0], bufs[1]) {
					return nil, fmt.Errorf("%q and %q", bufs[0], bufs[1])
				}
				return bufs[0], err
			}},
		{"ReaderAt", "GETRANGE", []string{":10\r\n", "$10\r\n" + value + "\r\n"},
			func() ([]byte, error) {
				r, err := c.ReaderAt(ctx, "between")
				if err != nil {
					return nil, err
				}
				defer r.Close()
				return io.ReadAll(r)
			}},
	} {
		at := int64(0)
		for i, reply := range append([]string{""}, tt.replies...) {
			at += int64(len(reply))
			p.Set(redistest.InjectReply(at, push+push).On(tt.on))
			if got, err := tt.call(); err != nil || string(got) != value {
				t.Errorf("%s, behind reply %d: %q, %v", tt.name, i, got, err)
			}
		}
	}
	p.Set()
	if after := p.Accepted(); after != before {
		t.Errorf("%d new connections", after-before)
	}
}
