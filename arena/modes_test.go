package arena_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// unit is the length of frames in these tests.
const unit = 10

// A picture holds frames by a letter each, and shows where they are in the Pool's memory.
type picture struct {
	t     testing.TB
	pool  *arena.Pool
	cells int
	held  map[byte]*arena.Slice
}

// length is one unit, and two for capital letters.
func length(c byte) int {
	if 'A' <= c && c <= 'Z' {
		return 2 * unit
	}
	return unit
}

// do takes a frame for each letter, or releases the letters behind a minus sign.
func (p *picture) do(what string) {
	p.t.Helper()
	letters, release := strings.CutPrefix(what, "-")
	for _, c := range []byte(letters) {
		if release {
			p.held[c].Release()
			delete(p.held, c)
		} else {
			copy(p.pool.Writable(length(c)), strings.Repeat(string(c), length(c)))
			s := p.pool.Take()
			p.held[c] = &s
		}
		if err := arena.Broken(p.pool); err != nil {
			p.t.Errorf("%s: %v", what, err)
		}
	}
	for c, s := range p.held {
		if want := strings.Repeat(string(c), length(c)); string(s.Bytes()) != want {
			p.t.Errorf("%s: %c reads %q", what, c, s.Bytes())
		}
	}
}

// String shows each unit of memory, '-' if it is free, and the mode of the last frame.
func (p *picture) String() string {
	memory := []byte(strings.Repeat("-", p.cells))
	for c, s := range p.held {
		if at := arena.PlaceOfSlice(p.pool, *s); at >= 0 {
			copy(memory[at/unit:], strings.Repeat(string(c), length(c)/unit))
		}
	}
	return fmt.Sprintf("%s %v", memory, p.pool.Mode())
}

// The mode diagrams. Steps are pairs: what is done, and memory and mode afterwards.
var diagrams = []struct {
	name  string
	cells int
	steps []string
}{
	{"exhaustion", 8, []string{
		"1", "1------- back",
		"2345678", "12345678 back",
		"9ab", "12345678 alloc",
	}},
	{"reset in back mode", 8, []string{
		"12345678", "12345678 back",
		"-12345678", "-------- back",
		"9a", "9a------ back",
	}},
	{"back, front, back", 8, []string{
		"12345678", "12345678 back",
		"-12", "--345678 back",
		"9", "9-345678 front",
		"a", "9a345678 front",
		"-78", "9a3456-- front",
		"b", "9a3456b- back",
		"c", "9a3456bc back",
	}},
	{"exhaustion of slots before memory", 100, []string{
		"12345678", "12345678" + strings.Repeat("-", 92) + " back",
		"9", "12345678" + strings.Repeat("-", 92) + " alloc",
		"-3", "12-45678" + strings.Repeat("-", 92) + " alloc",
		"X", "12-45678XX" + strings.Repeat("-", 90) + " back", // the slot of 3 serves, its place is too small
	}},
	{"released in the middle", 8, []string{
		"12345678", "12345678 back",
		"-35", "12-4-678 back",
		"xy", "12x4y678 front",
		"z", "12x4y678 alloc",
	}},
	{"the front is too small", 8, []string{
		"12345678", "12345678 back",
		"-1", "-2345678 back",
		"A", "-2345678 alloc",
		"-78", "-23456-- alloc",
		"B", "-23456BB back",
		"9", "923456BB front",
	}},
}

func TestModes(t *testing.T) {
	for _, test := range diagrams {
		t.Run(test.name, func(t *testing.T) {
			p := &picture{t, arena.NewPool(test.cells * unit), test.cells, map[byte]*arena.Slice{}}
			for i := 0; i < len(test.steps); i += 2 {
				p.do(test.steps[i])
				if got := p.String(); got != test.steps[i+1] {
					t.Fatalf("step %d, %q: %s, want %s", i/2, test.steps[i], got, test.steps[i+1])
				}
			}
		})
	}
}
