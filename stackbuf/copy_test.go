package stackbuf_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

func TestShrink(t *testing.T) {
	for _, n := range sizes {
		for _, left := range []int{0, 1, 63, 64, 65, 100, n / 3, n / 2, n} {
			if left > n {
				continue
			}
			for what, b := range filled(text(n)) {
				b.Next(n - left)
				before := b.Cap()
				b.Shrink()
				what = fmt.Sprint(what, ", ", left, " of ", n)
				check(t, what, b, text(n)[n-left:])
				if left <= 64 && (stackbuf.Spilled(b) || b.Cap() != 64) {
					t.Errorf("%s: they are on the heap", what)
				}
				if most := max(fitting(left), left+64); b.Cap() > most || before > 64 &&
					b.Cap() > before {
					t.Errorf("%s: Shrink left %d of %d bytes, want at most %d", what, b.Cap(),
						before, most)
				}
				b.WriteString(text(200))
				check(t, what, b, text(n)[n-left:]+text(200))
			}
		}
	}
}

// Shrink does not move contents that fit.
func TestShrinkOfWhatFits(t *testing.T) {
	for _, n := range []int{1, 64, 70, 100, 600, 1100, 8192} {
		b := stackbuf.NewBufferString(text(n))
		b.Shrink()
		first := &b.Bytes()[0]
		b.ReadByte()
		b.Shrink()
		b.UnreadByte()
		if &b.Bytes()[0] != first {
			t.Errorf("%d bytes in memory of %d were copied to memory of the same size", n, b.Cap())
		}
	}
}

// Slices that b has returned no longer belong to b, and keep their contents.
func TestShrinkLeavesSlicesAlone(t *testing.T) {
	for _, left := range []int{10, 64, 65, 300} {
		b := stackbuf.NewBufferString(text(1000))
		b.Truncate(left)
		p := b.Bytes()
		b.Shrink()
		b.Bytes()[0] = '!'
		if string(p) != text(left) {
			t.Errorf("the slice shows %q", p)
		}
		clear(p)
		check(t, fmt.Sprint(left), b, "!"+text(left)[1:])
	}
}

// The memory that Shrink gives up is free as soon as no slice refers to it.
func TestShrinkFreesMemory(t *testing.T) {
	var b stackbuf.Buffer
	freed := make(chan bool)
	func() {
		p := new([1 << 20]byte)
		runtime.AddCleanup(p, func(freed chan bool) { close(freed) }, freed)
		b = *stackbuf.NewBuffer(p[:])
	}()
	b.Reset()
	runtime.GC()
	select {
	case <-freed:
		t.Fatal("Reset gave the memory back")
	default:
	}
	b.Shrink()
	for i := 0; ; i++ {
		runtime.GC()
		select {
		case <-freed:
			check(t, "empty", &b, "")
			return
		default:
		}
		if i == 1000 {
			t.Fatal("Shrink kept the memory")
		}
	}
}
