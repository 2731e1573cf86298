package arena

import "fmt"

// Row is one contender in a table.
type Row struct {
	Name   string
	Base   string // what it is called in the column that compares with it, if there is one
	Turner Turner
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// original is the shape of buffer_sv2's own benchmark.
var original = Shape{Capacity: 5 << 16, Slots: 8, Frame: maxFrame}

// ample is a shape in which nobody runs out of anything.
var ample = Shape{Capacity: 8 * mib, Slots: 512, Frame: maxFrame}

// Ten are the rows of the work of buffer_sv2's benchmark: messages written ten
// bytes at a time. Without a crate its rows are left out.
func Ten(c *Crate) []Row {
	ten := func(of works) Turner { return goTurner{of.ten, original} }
	tenCopy := func(of works) Turner { return goTurner{of.tenCopy, original} }
	rows := []Row{
		{"arena.Pool", "", ten(ofPool())},
		{"arena.Pool, copy()", "", tenCopy(ofPool())},
		{"arena.Heap", "", ten(ofHeap())},
		{"make, grown", "", ten(ofMade())},
		{"make of the length", "make", ten(ofSized())},
		{"make of the length, append()", "", tenCopy(ofSized())},
		{"sync.Pool", "sync.Pool", ten(ofPooled())},
		{"sync.Pool, copy()", "", tenCopy(ofPooled())},
		{"map, looked up for each frame", "", ten(ofMapped())},
		{"ceiling: once round", "", ten(ofCeiling())},
	}
	return c.rows(rows, "ten", "pool", "heap", "map-by-write", "map-by-frame", "ceiling", "ceiling-same-bytes")
}

// Whole are the rows of messages that are written at once.
func Whole(c *Crate) []Row {
	whole := func(of works) Turner { return goTurner{of.whole, original} }
	rows := []Row{
		{"arena.Pool", "", whole(ofPool())},
		{"arena.Heap", "", whole(ofHeap())},
		{"make", "make", whole(ofMade())},
		{"sync.Pool", "sync.Pool", whole(ofPooled())},
		{"map, looked up for each frame", "", whole(ofMapped())},
		{"ceiling: once round", "", whole(ofCeiling())},
		{"copy() alone, to one place", "", goTurner{copyAlone, original}},
	}
	return c.rows(rows, "whole", "pool", "heap", "map-by-frame", "ceiling")
}

// Apart are the rows of messages each of which a goroutine holds for a
// millisecond; in Rust a thread.
func Apart(c *Crate) []Row {
	return handOff(c, "apart", func(w works) func(Shape) Work { return w.apart })
}

// Pairs are the same for two messages at a time.
func Pairs(c *Crate) []Row {
	return handOff(c, "pairs", func(w works) func(Shape) Work { return w.pairs })
}

func handOff(c *Crate, kind string, of func(works) func(Shape) Work) []Row {
	rows := []Row{
		{shaped("arena.Pool", original), "", goTurner{of(ofPool()), original}},
		{shaped("arena.Pool", ample), "", goTurner{of(ofPool()), ample}},
		{"arena.Heap", "", goTurner{of(ofHeap()), ample}},
		{"make, grown", "", goTurner{of(ofMade()), ample}},
		{"make of the length", "make", goTurner{of(ofSized()), ample}},
		{"sync.Pool", "sync.Pool", goTurner{of(ofPooled()), ample}},
		{"map, looked up for each frame", "", goTurner{of(ofMapped()), ample}},
		{"ceiling: once round", "", goTurner{of(ofCeiling()), ample}},
	}
	return c.rows(rows, kind, "pool", "heap", "map-by-frame")
}

func shaped(name string, s Shape) string {
	return fmt.Sprintf("%s, %d slots, %d KiB", name, s.Slots, s.Capacity/kib)
}

// crateNames are what the contenders of the crate are called in tables.
var crateNames = map[string]string{
	"pool":               "BufferPool",
	"heap":               "BufferFromSystemMemory",
	"map-by-write":       "map, looked up for each write",
	"map-by-frame":       "map, looked up for each frame",
	"ceiling":            "ceiling: once round",
	"ceiling-same-bytes": "ceiling: the same ten bytes",
}

// rows adds those of the crate, if there is one.
func (c *Crate) rows(rows []Row, kind string, contenders ...string) []Row {
	if c == nil {
		return rows
	}
	for _, name := range contenders {
		row := Row{Name: "Rust: " + crateNames[name], Turner: c.Turner(kind + "/" + name)}
		if name == "pool" {
			row.Base = "BufferPool"
		}
		rows = append(rows, row)
	}
	return rows
}

// SlotsRow is one shape in which the structure alone is measured, and who is.
type SlotsRow struct {
	Shape
	Ours, Made, Pooled Turner
	Crate              Turner // nil without a crate
}

// Structure are the rows of frames of 32 bytes that are taken and released while
// others are held. A Pool has the next number of slots that is at least twice
// that of the frames held, and in the last rows just as many.
func Structure(c *Crate) []SlotsRow {
	var rows []SlotsRow
	for _, live := range []int{1, 2, 4, 8, 16, 32, 64} {
		for _, order := range []Order{Newest, Oldest, Random} {
			if live > 1 || order == Newest {
				rows = append(rows, slotsRow(c, live, slotsFor(2*live), order))
			}
		}
	}
	for _, live := range []int{8, 64} {
		for _, order := range []Order{Newest, Oldest, Random} {
			rows = append(rows, slotsRow(c, live, live, order))
		}
	}
	return rows
}

func slotsRow(c *Crate, live, slots int, order Order) SlotsRow {
	s := Shape{Capacity: 64 * kib, Slots: slots, Frame: slotSize, Live: live, Order: order}
	row := SlotsRow{
		Shape:  s,
		Ours:   goTurner{ofPool().slots, s},
		Made:   goTurner{ofMade().slots, s},
		Pooled: goTurner{ofPooled().slots, s},
	}
	if c != nil {
		row.Crate = c.Turner(fmt.Sprintf("slots/pool/%d/%s", live, order))
	}
	return row
}

func slotsFor(n int) int {
	for _, slots := range []int{8, 64} {
		if slots >= n {
			return slots
		}
	}
	return 512
}
