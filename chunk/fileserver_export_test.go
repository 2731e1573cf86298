package chunk

import (
	"context"
	"strings"
	"time"
	"unsafe"
)

// OpenNames returns the names that a handler has open or is opening.
func (h *FileHandler) OpenNames() (names []string) {
	h.files.mu.Lock()
	defer h.files.mu.Unlock()
	for name := range h.files.byName {
		names = append(names, name)
	}
	return names
}

// TakeColdSlots has all slots for reading from a disk taken until the returned function is called.
func (h *FileHandler) TakeColdSlots() (giveBack func()) {
	slots := h.files.turns.limit
	for range slots {
		if err := h.files.turns.acquire(context.Background()); err != nil {
			panic(err)
		}
	}
	return func() {
		for range slots {
			h.files.turns.release()
		}
	}
}

// TakeListPlaces has all places for long lists taken until the returned function is called.
func (h *FileHandler) TakeListPlaces() (giveBack func()) {
	for range longLists {
		if err := h.lists.long.acquire(context.Background()); err != nil {
			panic(err)
		}
	}
	return func() {
		for range longLists {
			h.lists.long.release()
		}
	}
}

// LongLists returns how many places for long lists are taken, and how many wait for one.
func (h *FileHandler) LongLists() (taken, waiting int) {
	taken, waiting, _ = h.lists.long.load()
	return taken, waiting
}

// ListSize returns how many bytes of memory a list of so many names of n bytes takes, and whether it is refused.
func ListSize(count, n int) (bytes int, refused bool) {
	var all names
	for range count {
		all.add(strings.Repeat("n", n), false)
	}
	return cap(all.bytes) + cap(all.all)*int(unsafe.Sizeof(nameAt{})), all.exceed(mostNames, mostNameBytes)
}

// Limits of lists.
const (
	MostNames     = mostNames
	MostNameBytes = mostNameBytes
	LongLists     = longLists
)

// Regions returns how many verdicts on the page cache a file that is open has room for.
func (h *FileHandler) Regions(name string) int {
	h.files.mu.Lock()
	defer h.files.mu.Unlock()
	return len(h.files.byName[name].hotAt)
}

// EndHavingBrought ends a transfer that has brought the first bytes of an open file into the page cache. It reports
// whether they were dropped again.
func (h *FileHandler) EndHavingBrought(name string) (dropped bool) {
	h.files.mu.Lock()
	d := h.files.byName[name]
	h.files.mu.Unlock()
	d.sawHot(0, time.Now().UnixNano())
	w := warmth{d: d, drop: true, brought: []span{{0, 1}}, ahead: 1}
	w.over()
	return d.hotAt[0].Load() == 0
}

// CheckDescriptors returns what is wrong with the descriptors of a handler that nobody uses at present, or "".
func (h *FileHandler) CheckDescriptors() string {
	c := &h.files
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := 0
	for d := c.idle.next; d != &c.idle; d = d.next {
		idle++
		switch {
		case d.next.prev != d:
			return "the ring is broken"
		case d.refs != 0:
			return "an idle descriptor is in use"
		case c.byName[d.name] != d:
			return "an idle descriptor is forgotten"
		case d.file == nil:
			return "an idle descriptor is not open"
		}
	}
	switch {
	case len(c.byName) != idle:
		return "there are names that are not idle"
	case c.open != idle:
		return "open files are counted wrongly"
	case idle > c.limit:
		return "there are too many"
	case idle > 0 && !c.timing:
		return "the timer is not running"
	}
	return ""
}

// CanSendfile says whether this system has a fast path.
const CanSendfile = canSendfile

// MovedBytes returns how many bytes were counted as worked on.
func (t *Tuner) MovedBytes() int64 { return t.moved.Load() }

// ReleaseWhen is Release at the same moment as something else happens: nobody who waits can look in between.
func (t *Tuner) ReleaseWhen(happens func()) {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	happens()
	t.gate.running--
	t.gate.admit()
}
