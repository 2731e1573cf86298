package chunk

import "fmt"

// Fixed cuts at multiples of n bytes. It panics when n is below 1. A source that ends within a record is an error,
// which comes after a last chunk with what there was of the record.
func Fixed(n int) Cutter {
	if n < 1 {
		panic(fmt.Sprintf("chunk: Fixed(%d) is below 1", n))
	}
	return fixed(n)
}

type fixed int

func (n fixed) Cut(w *Window) int {
	w.Seen = len(w.Data)
	if end := min(len(w.Data), w.Limit); end >= int(n) {
		return end - end%int(n)
	}
	return int(n) // the first record is longer than the limit, or than what has arrived
}

func (n fixed) Whole(w *Window) bool { return len(w.Data)%int(n) == 0 }
