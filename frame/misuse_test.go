package frame_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

// odd is a format that violates its contract.
type odd struct {
	size, payload, appended int
}

func (o odd) HeaderSize() int                    { return o.size }
func (o odd) Parse([]byte) (frame.Header, error) { return frame.Header{Payload: o.payload}, nil }
func (o odd) AppendHeader(dst []byte, _ frame.Header) ([]byte, error) {
	return append(dst, make([]byte, o.appended)...), nil
}

func TestMisuse(t *testing.T) {
	r := millrace.NewReaderSize(strings.NewReader(rawFrame(1, "payload")), 16)
	defer r.Release()
	var c millrace.Chain
	for want, f := range map[string]func(){
		"frame: MaxPayload(-1): a limit is from 0 to 1073741824 bytes": func() {
			frame.MaxPayload(-1)
		},
		"frame: MaxKind(1073741825): a limit is from 0 to 1073741824 bytes": func() {
			frame.MaxKind(1, 1<<30+1)
		},
		"frame: Deadlines without a connection": func() {
			frame.Deadlines(nil, 1, 1)
		},
		"frame: Deadlines(1ns, -1ns): a time is not negative": func() {
			frame.Deadlines(closedConn{}, 1, -1)
		},
		"frame: header of 0 bytes; 1 to 16 can be, by the Reader's Size":  func() { frame.NewDecoder(r, odd{}) },
		"frame: header of 17 bytes; 1 to 16 can be, by the Reader's Size": func() { frame.NewDecoder(r, odd{size: 17}) },
		"frame: Parse returned a payload of -1 bytes": func() {
			_, _ = frame.NewDecoder(r, odd{size: 4, payload: -1}).Next(&c)
		},
		"frame: Next of a sealed format; it has NextInto": func() {
			_, _ = frame.NewDecoder(r, new(masked)).Next(&c)
		},
		"frame: AppendHeader appended 3 bytes; headers have 4 to 4": func() {
			_ = frame.NewEncoder(odd{size: 4, appended: 3}).Append(&c, frame.Header{},
				&millrace.Chain{})
		},
		"frame: Assemble: 3 bytes of the header are left after the payload was written": func() {
			_, _ = frame.NewEncoder(record{}).Assemble(new(arena.Heap), frame.Header{},
				func(buf arena.Buffer) error {
					buf.Truncate(3)
					return nil
				})
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panics with %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
	if c.Len() != 0 {
		t.Errorf("%d bytes given with a panic", c.Len())
	}
}
