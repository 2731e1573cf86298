// Package small compares the cost of stackbuf.Buffer, bytes.Buffer and strings.Builder with small
// contents, and checks that large contents cost no more.
//
// The code of each case is repeated for each type. With a generic function or an interface the
// methods would be called indirectly, and nothing could be inlined or stay on the stack.
package small

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/stackbuf"
)

// Program compares the three types in one table.
var Program = &measure.Program{
	Name: "small", What: "a new buffer, some writes, a string", Rounds: 9,
	Turn:  30 * time.Millisecond,
	Brief: []string{"-rounds", "5"},
	Run:   run,
}

func run(ctx context.Context, p *measure.Params) error {
	t := measure.NewTable("small", "Small buffers", "case", "bytes.Buffer ns", "B/op",
		"strings.Builder ns", "B/op",
		"stackbuf.Buffer ns", "B/op", "x bytes.Buffer", "x strings.Builder")
	t.Bar = 7
	t.Note = "x is how many times as fast stackbuf.Buffer is, in the same round."
	for _, c := range cases() {
		p.Logf("small: %s", c.name)
		works := []work{c.bytes, c.stackbuf, c.builder}
		if c.builder == nil {
			works = works[:2]
		}
		var contenders []measure.Contender
		for i, w := range works {
			name := []string{"bytes.Buffer", "stackbuf.Buffer", "strings.Builder"}[i]
			contenders = append(contenders, measure.Contender{Name: name,
				Turn: func(n int) (measure.Turn, error) {
					return measure.Take(n, func() { w(n) }), nil
				}})
		}
		costs, err := measure.Compare(ctx, contenders, p.Rounds, p.Turn)
		if err != nil {
			return err
		}
		std, ours, builder := costs[0], costs[1], measure.Cost{}
		if len(costs) > 2 {
			builder = costs[2]
		}
		t.Row(c.name, std.Nanos.Median(), std.Bytes.Whole(), builder.Nanos.Median(),
			builder.Bytes.Whole(), ours.Nanos.Median(),
			ours.Bytes.Whole(), std.Nanos.Over(ours.Nanos), builder.Nanos.Over(ours.Nanos))
	}
	return p.Add(t)
}

type work func(n int)

// A testCase is one operation, with a function for each of the three types. The function is nil for
// a type that does not support the operation.
type testCase struct {
	name                     string
	bytes, stackbuf, builder work
}

const kib = 1 << 10

// The data that the cases write and read. It is not on the heap, because a larger heap would make
// the garbage collector run less often. That would favor the type that makes the most garbage.
var (
	text = strings.Repeat("0123456789abcdef", 64*kib/16)
	data [64 * kib]byte
)

// The results of the last calls, which are stored so that the compiler does not remove the calls.
var (
	lastString string
	lastLen    int
)

func cases() (all []testCase) {
	for _, n := range []int{0, 5, 64, 128, kib} {
		all = append(all, newString(n))
	}
	for _, n := range []int{5, 64, kib} {
		all = append(all, newOnly(n))
	}
	return append(all, readFrom(64*kib))
}

func newString(size int) testCase {
	s := text[:size]
	return testCase{fmt.Sprintf("new, write %d B, String", size),
		func(n int) {
			for range n {
				var b bytes.Buffer
				b.WriteString(s)
				lastString = b.String()
			}
		}, func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.WriteString(s)
				lastString = b.String()
			}
		}, func(n int) {
			for range n {
				var b strings.Builder
				b.WriteString(s)
				lastString = b.String()
			}
		}}
}

func newOnly(size int) testCase {
	s := text[:size]
	return testCase{fmt.Sprintf("new, write %d B", size),
		func(n int) {
			for range n {
				var b bytes.Buffer
				b.WriteString(s)
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.WriteString(s)
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				var b strings.Builder
				b.WriteString(s)
				lastLen = b.Len()
			}
		}}
}

// readFrom returns a case that calls ReadFrom with a source of known size. The case leaves out
// strings.Builder, which has no ReadFrom method.
func readFrom(size int) testCase {
	return testCase{name: fmt.Sprintf("new, ReadFrom %d KiB, size known", size/kib),
		bytes: func(n int) {
			for range n {
				var b bytes.Buffer
				b.ReadFrom(bytes.NewReader(data[:size]))
				lastLen = b.Len()
			}
		}, stackbuf: func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.ReadFrom(bytes.NewReader(data[:size]))
				lastLen = b.Len()
			}
		}}
}
