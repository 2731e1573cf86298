package millrace_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
)

// A herd consists of a few Chains that share blocks with each other, and of their expected
// contents. A program chooses the operations. After each step all Chains are compared, because a
// call on one must not change another.
type herd struct {
	t       testing.TB
	pool    *millrace.Pool
	chains  [4]millrace.Chain
	want    [4][]byte
	refs    []millrace.Ref // shares outside the Chains
	refWant [][]byte
	reader  *millrace.Reader // returns adjacent packets
	read    int              // bytes
	program
	calls []string
}

// look compares every Chain and every Ref with its expected contents.
func (h *herd) look() {
	h.t.Helper()
	for i := range h.chains {
		c := &h.chains[i]
		if err := millrace.Broken(c); err != nil {
			h.t.Errorf("chain %d: %v", i, err)
		}
		rest, pieces := h.want[i], 0
		for p := range c.All() {
			if pieces++; len(p) == 0 || cap(p) != len(p) {
				h.t.Errorf("piece %d of chain %d has %d bytes and room for %d", pieces, i, len(p),
					cap(p))
			}
			if !bytes.HasPrefix(rest, p) {
				h.t.Errorf("chain %d has %q at %d, want %q", i, p, len(h.want[i])-len(rest),
					rest[:min(len(p), len(rest))])
				break
			}
			rest = rest[len(p):]
		}
		if len(rest) > 0 || c.Len() != len(h.want[i]) || c.Pieces() != pieces {
			h.t.Errorf("chain %d has %d bytes and ends %d too early, want %d", i, c.Len(),
				len(rest), len(h.want[i]))
		}
		if len(h.want[i]) > most {
			c.Discard(len(h.want[i]))
			h.want[i] = nil
		}
	}
	for i := range h.refs {
		if !bytes.Equal(h.refs[i].Bytes(), h.refWant[i]) {
			h.t.Errorf("Ref %d is %q, want %q", i, h.refs[i].Bytes(), h.refWant[i])
		}
	}
}

func (h *herd) chain() int {
	i := int(h.choose()) % len(h.chains)
	h.note(i)
	return i
}

// two chooses two Chains that are not the same.
func (h *herd) two() (i, j int) {
	b := int(h.choose())
	i = b % len(h.chains)
	j = (i + 1 + b/len(h.chains)%(len(h.chains)-1)) % len(h.chains)
	h.note(i, j)
	return i, j
}

// upTo chooses a number from 0 to n, both ends more often than others.
func (h *herd) upTo(n int) int {
	switch b := int(h.choose()); {
	case b < 32:
		n = 0
	case b < 64:
	case b < 96:
		n = min(b-64, n)
	default:
		n = (b<<8 | int(h.choose())) % (n + 1)
	}
	h.note(n)
	return n
}

// bytes chooses a slice, usually short, sometimes longer than a block of AppendCopy.
func (h *herd) bytes() []byte {
	n := h.upTo(40)
	if n == 40 {
		n = h.upTo(3000)
	}
	start := int(h.choose())
	return letters(start%62 + n)[start%62:]
}

func (h *herd) note(args ...int) {
	h.calls[len(h.calls)-1] += " " + strings.Trim(fmt.Sprint(args), "[]")
}

// most limits the bytes of a Chain, so that a program ends soon.
const most = 1 << 15

// herdOps are the possible operations. Fuzz inputs refer to the entries by index: add new ones at
// the end.
var herdOps = []struct {
	name string
	do   func(h *herd)
}{
	{"Append", func(h *herd) {
		i, p := h.chain(), h.bytes()
		r := freeze(h.pool, p)
		h.chains[i].Append(&r)
		h.want[i] = append(h.want[i], p...)
	}},
	{"AppendCopy", func(h *herd) {
		i, p := h.chain(), h.bytes()
		h.chains[i].AppendCopy(p)
		h.want[i] = append(h.want[i], p...)
	}},
	{"Merge", func(h *herd) {
		i, j := h.two()
		h.chains[i].Merge(&h.chains[j])
		h.want[i], h.want[j] = append(h.want[i], h.want[j]...), nil
	}},
	{"Cut", func(h *herd) {
		i, j := h.two()
		n := h.upTo(len(h.want[i]))
		h.chains[i].CutTo(&h.chains[j], n)
		h.want[j] = append(h.want[j], h.want[i][:n]...)
		h.want[i] = h.want[i][n:]
	}},
	{"Slice", func(h *herd) {
		i, j := h.two()
		to := h.upTo(len(h.want[i]))
		from := h.upTo(to)
		h.chains[i].SliceTo(&h.chains[j], from, to)
		h.want[j] = append(h.want[j], h.want[i][from:to]...)
	}},
	{"Clone", func(h *herd) {
		i, j := h.two()
		h.chains[i].CloneTo(&h.chains[j])
		h.want[j] = append(h.want[j], h.want[i]...)
	}},
	{"Discard", func(h *herd) {
		i := h.chain()
		n := h.upTo(len(h.want[i]))
		h.chains[i].Discard(n)
		h.want[i] = h.want[i][n:]
	}},
	{"Release", func(h *herd) {
		i := h.chain()
		h.chains[i].Release()
		// With -tags invariants, a released Chain must not be used.
		h.chains[i] = millrace.Chain{}
		h.want[i] = nil
	}},
	{"ReadFrom", herdReadFrom},
	{"WriteTo", herdWriteTo},
	{"Bytes", func(h *herd) {
		i := h.chain()
		if got := h.chains[i].Bytes(); !bytes.Equal(got, h.want[i]) || h.chains[i].Pieces() > 1 {
			h.t.Errorf("Bytes() = %q, want %q; %d pieces are left", got, h.want[i],
				h.chains[i].Pieces())
		}
	}},
	{"move", func(h *herd) {
		i, j := h.two()
		h.chains[i], h.chains[j] = h.chains[j], h.chains[i]
		h.want[i], h.want[j] = h.want[j], h.want[i]
	}},
	{"new Ref", func(h *herd) {
		p := h.bytes()
		h.refs, h.refWant = append(h.refs, freeze(h.pool, p)), append(h.refWant, p)
	}},
	{"Append a Ref's Slice", func(h *herd) {
		if len(h.refs) == 0 {
			return
		}
		i, k := h.chain(), h.upTo(len(h.refs)-1)
		to := h.upTo(len(h.refWant[k]))
		from := h.upTo(to)
		s := h.refs[k].Slice(from, to)
		h.chains[i].Append(&s)
		h.want[i] = append(h.want[i], h.refWant[k][from:to]...)
	}},
	{"release a Ref", func(h *herd) {
		if len(h.refs) == 0 {
			return
		}
		h.refs[0].Release()
		h.refs, h.refWant = h.refs[1:], h.refWant[1:]
	}},
	{"ReadChain", func(h *herd) {
		i, n := h.chain(), 1+h.upTo(500)
		if err := h.reader.ReadChain(&h.chains[i], n); err != nil {
			h.t.Errorf("ReadChain: %v", err)
		}
		for range n {
			h.want[i] = append(h.want[i], patternAt(h.read))
			h.read++
		}
	}},
	{"ReadAt", func(h *herd) {
		i := h.chain()
		off := h.upTo(len(h.want[i]))
		p := make([]byte, h.upTo(100))
		v := h.chains[i].Reader()
		n, err := v.ReadAt(p, int64(off))
		left := h.want[i][off:]
		if n != min(len(p), len(left)) || !bytes.Equal(p[:n], left[:n]) ||
			(err == nil) != (n == len(p) && len(left) > 0) {
			h.t.Errorf("ReadAt(%d bytes, %d) of %d = %d, %v: %q", len(p), off, len(h.want[i]), n,
				err, p[:n])
		}
	}},
	{"CopyTo", func(h *herd) {
		i := h.chain()
		p := bytes.Repeat([]byte{'!'}, h.upTo(len(h.want[i])+3))
		want := append(bytes.Clone(h.want[i]), "!!!"...)[:len(p)]
		if n := h.chains[i].CopyTo(p); n != min(len(p), len(h.want[i])) || !bytes.Equal(p, want) {
			h.t.Errorf("CopyTo of %d bytes = %d, %q, want %q", len(p), n, p, want)
		}
	}},
	{"Reader", func(h *herd) {
		i := h.chain()
		if len(h.want[i]) > 300 {
			return // TestReader takes long
		}
		if err := iotest.TestReader(h.chains[i].Reader(), h.want[i]); err != nil {
			h.t.Error(err)
		}
	}},
}

func herdReadFrom(h *herd) {
	i, p := h.chain(), h.bytes()
	var src io.Reader = bytes.NewReader(p)
	var want error
	switch h.choose() % 5 {
	case 0:
		src = iotest.OneByteReader(src)
	case 1:
		src = iotest.DataErrReader(src)
	case 2:
		want = io.ErrClosedPipe
		src = io.MultiReader(src, iotest.ErrReader(want))
	case 3:
		r := h.pool.NewReader(src, 64)
		defer r.Release()
		src = r
	}
	if n, err := h.chains[i].ReadFrom(src); n != int64(len(p)) || err != want {
		h.t.Errorf("ReadFrom = %d, %v, want %d, %v", n, err, len(p), want)
	}
	h.want[i] = append(h.want[i], p...)
}

func herdWriteTo(h *herd) {
	i := h.chain()
	w := failingAt{at: h.upTo(len(h.want[i]) + 1)}
	write := (*millrace.Chain).WriteTo // each piece: a failingAt has a WriteByte
	switch h.choose() % 3 {
	case 0:
		write = millrace.WriteVector
	case 1:
		write = writes["joined"]
	}
	n, err := write(&h.chains[i], &w)
	all := h.want[i]
	if int(n) != min(w.at, len(all)) || (err == nil) != (w.at >= len(all)) ||
		!bytes.Equal(w.Bytes(), all[:n]) {
		h.t.Errorf("WriteTo = %d, %v of %d bytes to a writer that takes %d, which got %q", n, err,
			len(all), w.at, w.Bytes())
	}
	h.want[i] = h.want[i][n:]
}

// runHerd runs a program to its end, or to the first difference.
func runHerd(t testing.TB, program []byte) {
	t.Helper()
	outside := millrace.DefaultPool().Stats().InUse
	h := &herd{t: t, pool: millrace.NewPool(), program: program}
	h.reader = h.pool.NewReader(&pattern{end: 1 << 30, most: 700}, 1024)
	defer func() {
		if e := recover(); e != nil || t.Failed() {
			t.Errorf("the last calls: %s\npanic: %v",
				strings.Join(h.calls[max(0, len(h.calls)-20):], ", "), e)
		}
	}()
	for len(h.program) > 0 && !t.Failed() {
		op := herdOps[int(h.choose())%len(herdOps)]
		h.calls = append(h.calls, op.name)
		op.do(h)
		h.look()
	}
	h.reader.Release()
	for i := range h.chains {
		h.chains[i].Release()
	}
	for i := range h.refs {
		h.refs[i].Release()
	}
	if s := h.pool.Stats(); s.InUse != 0 && !t.Failed() {
		t.Errorf("%d bytes in use after everything was released\n%v", s.InUse, h.pool.Leaks())
	}
	if n := millrace.DefaultPool().Stats().InUse; n != outside && !t.Failed() {
		t.Errorf("%d bytes of the default pool in use after everything was released, want %d", n,
			outside)
	}
}

func TestChainsAgainstBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for range rounds(2500) {
		runHerd(t, randomProgram(rng))
		if t.Failed() {
			return
		}
	}
}

// FuzzChain lets the fuzzer write the program. The seeds contain each call after each other call.
func FuzzChain(f *testing.F) {
	rng := rand.New(rand.NewPCG(12, 12))
	for first := range herdOps {
		var program []byte
		for second := range herdOps {
			for _, op := range []int{first, second} {
				program = append(program, byte(op), byte(rng.Uint32()), byte(rng.Uint32()),
					byte(rng.Uint32()))
			}
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 1<<10 {
			return
		}
		runHerd(t, program)
	})
}
