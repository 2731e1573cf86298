package stackbuf_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// blunders are calls that panic, with the texts of bytes.Buffer.
var blunders = map[string]struct {
	call func(b buffer)
	want string
}{
	"Truncate, negative":     {func(b buffer) { b.Truncate(-1) }, "bytes.Buffer: truncation out of range"},
	"Truncate, too much":     {func(b buffer) { b.Truncate(b.Len() + 1) }, "bytes.Buffer: truncation out of range"},
	"Truncate, far too much": {func(b buffer) { b.Truncate(math.MaxInt) }, "bytes.Buffer: truncation out of range"},
	"Truncate to free room": {
		func(b buffer) { b.Grow(10); b.Truncate(b.Len() + 5) },
		"bytes.Buffer: truncation out of range",
	},
	"Grow, negative":          {func(b buffer) { b.Grow(-1) }, "bytes.Buffer.Grow: negative count"},
	"Grow, most negative":     {func(b buffer) { b.Grow(math.MinInt) }, "bytes.Buffer.Grow: negative count"},
	"Grow, too much":          {func(b buffer) { b.Grow(math.MaxInt) }, "bytes.Buffer: too large"},
	"Grow, overflow by 1":     {func(b buffer) { b.Grow(math.MaxInt - max(b.Len(), 1) + 1) }, "bytes.Buffer: too large"},
	"Grow, just no overflow":  {func(b buffer) { b.Grow(math.MaxInt - b.Len()) }, "bytes.Buffer: too large"},
	"Grow, overflow with Cap": {func(b buffer) { b.Grow(math.MaxInt - b.Cap()) }, "bytes.Buffer: too large"},
	"Grow, half of all":       {func(b buffer) { b.Grow(math.MaxInt / 2) }, "bytes.Buffer: too large"},
	"ReadFrom, negative": {
		func(b buffer) { b.ReadFrom(scripted(step{-1, nil})) },
		"bytes.Buffer: reader returned negative count from Read",
	},
	"ReadFrom, negative with an error": {
		func(b buffer) { b.ReadFrom(scripted(step{-1, io.EOF})) },
		"bytes.Buffer: reader returned negative count from Read",
	},
	"ReadFrom, too many":  {func(b buffer) { b.ReadFrom(scripted(step{beyond, nil})) }, "a runtime error"},
	"ReadFrom, it panics": {func(b buffer) { b.ReadFrom(scripted(step{panics, nil})) }, "the source panics"},
	"ReadFrom nil":        {func(b buffer) { b.ReadFrom(nil) }, "a runtime error"},
	"Next, negative":      {func(b buffer) { b.Next(-1) }, "a runtime error"},
	"Peek, negative":      {func(b buffer) { b.Peek(-1) }, "a runtime error"},
	"WriteTo, too many":   {func(b buffer) { b.WriteTo(&taker{extra: 1}) }, "bytes.Buffer.WriteTo: invalid Write count"},
	"WriteTo, far too many": {
		func(b buffer) { b.WriteTo(&taker{extra: math.MaxInt / 2}) },
		"bytes.Buffer.WriteTo: invalid Write count",
	},
	"WriteTo, and an error": {
		func(b buffer) { b.WriteTo(&taker{extra: 1, err: io.EOF}) },
		"bytes.Buffer.WriteTo: invalid Write count",
	},
	"WriteTo, it panics": {func(b buffer) { b.WriteTo(&taker{panics: true}) }, "the target panics"},
	"WriteTo nil":        {func(b buffer) { b.WriteTo(nil) }, "a runtime error"},
}

// Both panic at the same places and with the same words, and have the same contents afterwards, and go on working.
func TestPanics(t *testing.T) {
	for _, n := range []int{1, 10, 64, 65, 1000} {
		for what, c := range blunders {
			if narrow && strings.HasPrefix(what, "Grow") {
				continue
			}
			for made, b := range filled(text(n)) {
				o := bytes.NewBufferString(text(n))
				for _, b := range []buffer{b, o} {
					got := outcome(func() string { c.call(b); return "nothing" })
					if got != "panic: "+c.want {
						t.Errorf("%s, %s, %d: %T gives %s, want %s", what, made, n, b, got, c.want)
					}
				}
				check(t, what+", "+made, b, o.String())
				b.WriteString("on")
				o.WriteString("on")
				b.ReadByte()
				o.ReadByte()
				check(t, what+", "+made+", and on", b, o.String())
			}
		}
	}
}

// Those of which the empty Buffer knows.
func TestPanicsOfTheEmptyBuffer(t *testing.T) {
	for what, c := range blunders {
		if strings.HasPrefix(what, "WriteTo") || narrow && strings.HasPrefix(what, "Grow") { // there is nothing to write
			continue
		}
		var ours stackbuf.Buffer
		var theirs bytes.Buffer
		for _, b := range []buffer{&ours, &theirs} {
			if got := outcome(func() string { c.call(b); return "nothing" }); got != "panic: "+c.want {
				t.Errorf("%s: %T gives %s, want %s", what, b, got, c.want)
			}
		}
		check(t, what, &ours, "")
	}
}

// The values that are errors are the same errors.
func TestPanicValues(t *testing.T) {
	if narrow {
		t.Skip("there might be so much memory")
	}
	for _, n := range []int{0, 1, 64, 1000} {
		for what, b := range filled(text(n)) {
			func() {
				defer func() {
					if e := recover(); e != stackbuf.ErrTooLarge {
						t.Errorf("%s, %d: Grow of too much panics with %v", what, n, e)
					}
				}()
				b.Grow(math.MaxInt)
			}()
			func() {
				defer func() {
					if _, ok := recover().(error); !ok {
						t.Errorf("%s, %d: a negative count is no error", what, n)
					}
				}()
				b.ReadFrom(scripted(step{-1, nil}))
			}()
		}
	}
}

// The errors that are no panics read like bytes.Buffer's.
func TestErrorTexts(t *testing.T) {
	var ours stackbuf.Buffer
	var theirs bytes.Buffer
	for what, call := range map[string]func(b buffer) error{
		"UnreadByte": buffer.UnreadByte,
		"UnreadRune": buffer.UnreadRune,
		"ReadByte":   func(b buffer) error { _, err := b.ReadByte(); return err },
	} {
		got := outcome(func() string { return fmt.Sprint(call(&ours)) })
		if want := fmt.Sprint(call(&theirs)); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
}

// bytes.Buffer takes a negative count from a Writer and is broken from then on. Buffer takes it for what it is.
func TestWriteToANegativeCountPanics(t *testing.T) {
	for _, n := range []int{1, 64, 65, 1000} {
		for what, b := range filled(text(n)) {
			got := outcome(func() string { b.WriteTo(&taker{extra: -n - 1}); return "nothing" })
			if want := "panic: bytes.Buffer.WriteTo: invalid Write count"; got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
			check(t, what, b, text(n))
		}
	}
}
