package arena_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

const (
	unit  = 10 // length of a frame in these tests
	cells = 8  // number of frames that fit into memory
)

// A picture names each held frame by a letter, and shows the places in the Pool's memory.
type picture struct {
	pool *arena.Pool
	held map[byte]*arena.Slice
}

// do takes a frame for each letter, or releases the letters after a minus sign.
func (p *picture) do(what string) {
	letters, release := strings.CutPrefix(what, "-")
	for _, c := range []byte(letters) {
		if release {
			p.held[c].Release()
			delete(p.held, c)
		} else {
			p.pool.Writable(unit)
			s := p.pool.Take()
			p.held[c] = &s
		}
	}
}

// String shows a letter or '-', if it is free, for each unit of memory, and the mode of the last
// frame.
func (p *picture) String() string {
	memory := []byte(strings.Repeat("-", cells))
	for c, s := range p.held {
		if at := arena.PlaceOfSlice(p.pool, *s); at >= 0 {
			memory[at/unit] = c
		}
	}
	return fmt.Sprintf("%s %v", memory, p.pool.Mode())
}

// The three classic mode diagrams. Steps are pairs: an operation, and the memory and mode
// afterwards. The model tests cover all other cases.
var diagrams = []struct {
	name  string
	steps []string
}{
	{"exhaustion", []string{
		"1", "1------- back",
		"2345678", "12345678 back",
		"9ab", "12345678 alloc",
	}},
	{"reset in back mode", []string{
		"12345678", "12345678 back",
		"-12345678", "-------- back",
		"9a", "9a------ back",
	}},
	{"back, front, back", []string{
		"12345678", "12345678 back",
		"-12", "--345678 back",
		"9", "9-345678 front",
		"a", "9a345678 front",
		"-78", "9a3456-- front",
		"b", "9a3456b- back",
		"c", "9a3456bc back",
	}},
}

func TestModes(t *testing.T) {
	for _, test := range diagrams {
		t.Run(test.name, func(t *testing.T) {
			p := &picture{arena.NewPool(cells * unit), map[byte]*arena.Slice{}}
			for i := 0; i < len(test.steps); i += 2 {
				p.do(test.steps[i])
				if got := p.String(); got != test.steps[i+1] {
					t.Fatalf("step %d, %q: %s, want %s", i/2, test.steps[i], got, test.steps[i+1])
				}
			}
		})
	}
}
