// Package misuse has a function that is easy to get wrong, and the tests that find the mistakes.
package misuse

import (
	"bytes"
	"io"

	"github.com/millrace-io/millrace"
)

// Index reads lines of the form "name: value" until the end, and returns the values by name.
//
// With index[string(name)] = bytes.TrimSpace(value), millracevet reports that a map stores the
// slice, and TestIndex fails, because the Reader uses the line's memory again. Without Release,
// millracevet reports that the Reader is not released, and TestIndex fails.
func Index(src io.Reader, pool *millrace.Pool) (map[string][]byte, error) {
	r := pool.NewReader(src, 4096)
	defer r.Release()
	index := map[string][]byte{}
	for {
		line, err := r.ReadSlice('\n') // valid until the next read
		if err == io.EOF {
			return index, nil
		}
		if err != nil {
			return nil, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		index[string(name)] = bytes.Clone(bytes.TrimSpace(value))
	}
}
