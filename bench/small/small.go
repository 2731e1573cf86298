// Package small compares stackbuf.Buffer with other types that a program could use to build small
// strings and byte slices.
//
// The code of each case is repeated for each contender. With a generic function or an interface,
// the compiler could neither inline the methods nor keep the buffers on the stack.
package small

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/stackbuf"
)

// Program compares the contenders in one table.
var Program = &measure.Program{
	Name: "small", What: "a new buffer, some writes, a string", Rounds: 9,
	Turn:  30 * time.Millisecond,
	Brief: []string{"-rounds", "5"},
	Run:   run,
}

// The contenders are in the order of the columns.
var contenders = []string{"stackbuf.Buffer", "bytes.Buffer", "pooled bytes.Buffer",
	"strings.Builder", "[64]byte and append"}

func run(ctx context.Context, p *measure.Params) error {
	columns := []string{"case"}
	for i, name := range contenders {
		columns = append(columns, name+" ns", "B/op")
		if i > 0 {
			columns = append(columns, "x")
		}
	}
	t := measure.NewTable("small", "Small buffers", columns...)
	t.Bar = 5
	t.Note = "x is how many times as fast stackbuf.Buffer is, in the same round."
	for _, c := range cases() {
		p.Logf("small: %s", c.name)
		var compared []measure.Contender
		for i, w := range c.works {
			if w != nil {
				compared = append(compared, measure.Contender{Name: contenders[i],
					Turn: func(n int) (measure.Turn, error) {
						return measure.Take(n, func() { w(n) }), nil
					}})
			}
		}
		costs, err := measure.Compare(ctx, compared, p.Rounds, p.Turn)
		if err != nil {
			return err
		}
		ours := costs[0]
		row := []any{c.name, ours.Nanos.Median(), ours.Bytes.Whole()}
		for _, w := range c.works[1:] {
			var cost measure.Cost
			if w != nil {
				costs = costs[1:]
				cost = costs[0]
			}
			row = append(row, cost.Nanos.Median(), cost.Bytes.Whole(), cost.Nanos.Over(ours.Nanos))
		}
		t.Row(row...)
	}
	return p.Add(t)
}

type work func(n int)

// A testCase is one operation, with a function for each contender. The function is nil for a
// contender that does not support the operation.
type testCase struct {
	name  string
	works [5]work
}

const kib = 1 << 10

// The data that the cases write and read. It is not on the heap: a larger heap makes the garbage
// collector run less often, which favors types that produce garbage.
var (
	text = strings.Repeat("0123456789abcdef", 64*kib/16)
	data [64 * kib]byte
)

// The results are stored, so that the compiler does not remove the calls.
var (
	lastString string
	lastLen    int
)

var pool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func cases() (all []testCase) {
	for _, n := range []int{0, 5, 64, 128, kib} {
		all = append(all, newString(n))
	}
	for _, n := range []int{5, 64, kib} {
		all = append(all, newOnly(n))
	}
	return append(all, key(), lookup(), printed(), readFrom(64*kib))
}

func newString(size int) testCase {
	s := text[:size]
	return testCase{fmt.Sprintf("new, write %d B, String", size), [5]work{
		func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.WriteString(s)
				lastString = b.String()
			}
		}, func(n int) {
			for range n {
				var b bytes.Buffer
				b.WriteString(s)
				lastString = b.String()
			}
		}, func(n int) {
			for range n {
				b := pool.Get().(*bytes.Buffer)
				b.WriteString(s)
				lastString = b.String()
				b.Reset()
				pool.Put(b)
			}
		}, func(n int) {
			for range n {
				var b strings.Builder
				b.WriteString(s)
				lastString = b.String()
			}
		}, func(n int) {
			for range n {
				var a [64]byte
				lastString = string(append(a[:0], s...))
			}
		}}}
}

func newOnly(size int) testCase {
	s := text[:size]
	return testCase{fmt.Sprintf("new, write %d B", size), [5]work{
		func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.WriteString(s)
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				var b bytes.Buffer
				b.WriteString(s)
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				b := pool.Get().(*bytes.Buffer)
				b.WriteString(s)
				lastLen = b.Len()
				b.Reset()
				pool.Put(b)
			}
		}, func(n int) {
			for range n {
				var b strings.Builder
				b.WriteString(s)
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				var a [64]byte
				lastLen = len(append(a[:0], s...))
			}
		}}}
}

func key() testCase {
	user, part := int64(1234567), "profile"
	return testCase{`a key of three parts, String`, [5]work{
		func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.WriteString("user:")
				b.Write(strconv.AppendInt(b.AvailableBuffer(), user, 10))
				b.WriteByte(':')
				b.WriteString(part)
				lastString = b.String()
			}
		}, func(n int) {
			for range n {
				var b bytes.Buffer
				b.WriteString("user:")
				b.Write(strconv.AppendInt(b.AvailableBuffer(), user, 10))
				b.WriteByte(':')
				b.WriteString(part)
				lastString = b.String()
			}
		}, func(n int) {
			for range n {
				b := pool.Get().(*bytes.Buffer)
				b.WriteString("user:")
				b.Write(strconv.AppendInt(b.AvailableBuffer(), user, 10))
				b.WriteByte(':')
				b.WriteString(part)
				lastString = b.String()
				b.Reset()
				pool.Put(b)
			}
		}, func(n int) {
			for range n {
				var b strings.Builder
				b.WriteString("user:")
				b.WriteString(strconv.FormatInt(user, 10))
				b.WriteByte(':')
				b.WriteString(part)
				lastString = b.String()
			}
		}, func(n int) {
			for range n {
				var a [64]byte
				p := append(a[:0], "user:"...)
				p = strconv.AppendInt(p, user, 10)
				p = append(p, ':')
				p = append(p, part...)
				lastString = string(p)
			}
		}}}
}

func lookup() testCase {
	m := map[string]int{"user:profile": 12}
	part := "profile"
	return testCase{"a key of two parts, map lookup", [5]work{
		func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.WriteString("user:")
				b.WriteString(part)
				lastLen = m[string(b.Bytes())]
			}
		}, func(n int) {
			for range n {
				var b bytes.Buffer
				b.WriteString("user:")
				b.WriteString(part)
				lastLen = m[string(b.Bytes())]
			}
		}, func(n int) {
			for range n {
				b := pool.Get().(*bytes.Buffer)
				b.WriteString("user:")
				b.WriteString(part)
				lastLen = m[string(b.Bytes())]
				b.Reset()
				pool.Put(b)
			}
		}, func(n int) {
			for range n {
				var b strings.Builder
				b.WriteString("user:")
				b.WriteString(part)
				lastLen = m[b.String()]
			}
		}, func(n int) {
			for range n {
				var a [64]byte
				lastLen = m[string(append(append(a[:0], "user:"...), part...))]
			}
		}}}
}

func printed() testCase {
	part, count := "profile", 1234567
	return testCase{`"%s: %d" of two values`, [5]work{
		func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.Printf("%s: %d", part, count)
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				var b bytes.Buffer
				fmt.Fprintf(&b, "%s: %d", part, count)
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				b := pool.Get().(*bytes.Buffer)
				fmt.Fprintf(b, "%s: %d", part, count)
				lastLen = b.Len()
				b.Reset()
				pool.Put(b)
			}
		}, func(n int) {
			for range n {
				var b strings.Builder
				fmt.Fprintf(&b, "%s: %d", part, count)
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				var a [64]byte
				lastLen = len(fmt.Appendf(a[:0], "%s: %d", part, count))
			}
		}}}
}

func readFrom(size int) testCase {
	return testCase{fmt.Sprintf("new, ReadFrom %d KiB, size known", size/kib), [5]work{
		func(n int) {
			for range n {
				var b stackbuf.Buffer
				b.ReadFrom(bytes.NewReader(data[:size]))
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				var b bytes.Buffer
				b.ReadFrom(bytes.NewReader(data[:size]))
				lastLen = b.Len()
			}
		}, func(n int) {
			for range n {
				b := pool.Get().(*bytes.Buffer)
				b.ReadFrom(bytes.NewReader(data[:size]))
				lastLen = b.Len()
				b.Reset()
				pool.Put(b)
			}
		}}}
}
