package chunk

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// A Part is a table of the benchmark.
type Part interface {
	// Caption says what the table is about.
	Caption() string
	// Write gives every contender a turn of about d in every round, and writes the table.
	Write(w io.Writer, s *Site, rounds int, d time.Duration) error
}

// Keys are what parts are called on the command line.
func Keys() (keys []string) {
	for _, c := range Cases {
		keys = append(keys, c.Key)
	}
	for _, c := range Sendings {
		keys = append(keys, c.Key)
	}
	return slices.Compact(append(keys, Workers.Key))
}

// Parts are those with a key; there may be several.
func Parts(key string) (parts []Part) {
	for _, c := range Cases {
		if c.Key == key {
			parts = append(parts, c)
		}
	}
	for _, c := range Sendings {
		if c.Key == key {
			parts = append(parts, c)
		}
	}
	if Workers.Key == key {
		parts = append(parts, Workers)
	}
	return parts
}

// Caption implements Part.
func (c Case) Caption() string { return fmt.Sprintf("%d MiB, %s", c.Size>>20, c.What) }

// Write implements Part.
func (c Case) Write(w io.Writer, s *Site, rounds int, d time.Duration) error {
	results, err := s.Measure(c, rounds, d)
	if err != nil {
		return err
	}
	return WriteTable(w, c, results)
}
