package kept

import (
	"bytes"
	"context"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
)

var last []byte

type index struct {
	keys  [][]byte
	first []byte
	byKey map[string][]byte
}

func lines(r *millrace.Reader) (all [][]byte) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return all
		}
		all = append(all, line) // want `a slice that is valid only until the next read is appended to a slice that is kept`
	}
}

func trimmed(r *millrace.Reader) {
	line, _, _ := r.ReadLine()
	last = bytes.TrimSpace(line) // want `a slice that is valid only until the next read is stored in a package variable`
}

func words(r *millrace.Reader, i *index) {
	line, _ := r.ReadSlice('\n')
	i.keys = append(i.keys, bytes.Fields(line)...) // want `a slice that is valid only until the next read is stored in a field`
}

func inMap(r *millrace.Reader) map[string][]byte {
	m := map[string][]byte{}
	for range 10 {
		p, err := r.Peek(10)
		if err != nil {
			break
		}
		m[string(p[:5])] = p[5:] // want `a slice that is valid only until the next read is stored in a map`
		r.Skip(10)
	}
	return m
}

func channel(r *millrace.Reader, out chan<- []byte) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		out <- line // want `a slice that is valid only until the next read is sent on a channel`
	}
}

func goroutine(r *millrace.Reader, handle func([]byte)) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		go handle(line) // want `a slice that is valid only until the next read is passed to a goroutine`
	}
}

func captured(r *millrace.Reader, handle func([]byte)) error {
	for {
		line, err := r.ReadSlice('\n') // want `a slice that is valid only until the next read is used in a goroutine`
		if err != nil {
			return err
		}
		go func() { handle(line) }()
	}
}

func rangeField(r *millrace.Reader, i *index) error {
	return r.ReadRange(10, func(p []byte) {
		if i.first == nil {
			i.first = p // want `a slice that is valid only during this call is stored in a field`
		}
	})
}

func chunks(ctx context.Context, r *chunk.Reader) (all [][]byte, err error) {
	for p, err := range r.Chunks(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, p) // want `a slice that is valid only in this iteration is stored outside of it`
	}
	return all, nil
}

func chunkChannel(ctx context.Context, r *chunk.Reader, out chan<- []byte) error {
	for p, err := range r.Chunks(ctx) {
		if err != nil {
			return err
		}
		out <- p // want `a slice that is valid only in this iteration is sent on a channel`
	}
	return nil
}

func ref(r *millrace.Reader, i *index) error {
	ref, err := r.ReadRef(10)
	if err != nil {
		return err
	}
	b := ref.Bytes()
	i.first = b[:2] // want `a slice of ref, which this function releases, is stored in a field`
	ref.Release()
	return nil
}

func refsInLoop(r *millrace.Reader) (all [][]byte) {
	for {
		ref, err := r.ReadRef(10)
		if err != nil {
			return all
		}
		all = append(all, ref.Bytes()) // want `a slice of ref, which this function releases, is appended to a slice that is kept`
		ref.Release()
	}
}

func chainBytes(r *millrace.Reader, out chan<- []byte) error {
	var c millrace.Chain
	defer c.Release()
	if err := r.ReadChain(&c, 100); err != nil {
		return err
	}
	out <- c.Bytes() // want `a slice of c, which this function releases, is sent on a channel`
	return nil
}

type item struct{ name, value []byte }

func literals(r *millrace.Reader, out chan<- item, byName map[string]*item) (all []item) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return all
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		all = append(all, item{name: name})      // want `a slice that is valid only until the next read is appended to a slice that is kept`
		out <- item{value: value}                // want `a slice that is valid only until the next read is sent on a channel`
		byName[string(name)] = &item{name: name} // want `a slice that is valid only until the next read is stored in a map`
	}
}

func variable(r *millrace.Reader) (all []item) {
	for {
		var i item
		line, err := r.ReadSlice('\n')
		if err != nil {
			return all
		}
		i.name = line[1:]
		all = append(all, i) // want `a slice that is valid only until the next read is appended to a slice that is kept`
	}
}

func (i *index) take(p []byte) {
	i.first = p // want `a slice that is valid only during this call is stored in a field`
}

func method(r *millrace.Reader, i *index) error { return r.ReadRange(10, i.take) }

func later(r *millrace.Reader, handle func([]byte)) {
	p, _ := r.Peek(10) // want `a slice that is valid only until the next read is used in a goroutine`
	time.AfterFunc(time.Second, func() { handle(p) })
}

func functions(ctx context.Context, r *chunk.Reader, jobs chan<- func() int) error {
	for p, err := range r.Chunks(ctx) {
		if err != nil {
			return err
		}
		jobs <- func() int { return bytes.Count(p, []byte("x")) } // want `a slice that is valid only in this iteration is sent on a channel`
	}
	return nil
}

func (i *index) split(p []byte) {
	for len(p) > 0 {
		var line []byte
		line, p, _ = bytes.Cut(p, []byte("\n"))
		if v := bytes.TrimSpace(line); len(v) > 0 {
			i.keys = append(i.keys, v) // want `a slice that is valid only during this call is stored in a field`
		}
	}
}

func splitMethod(r *millrace.Reader, i *index) error { return r.ReadRange(10, i.split) }

func carried(r *millrace.Reader, i *index) error {
	return r.ReadRange(10, func(p []byte) {
		for len(p) > 4 {
			i.keys = append(i.keys, p[:4]) // want `a slice that is valid only during this call is stored in a field`
			p = p[4:]
		}
	})
}

func elements(r *millrace.Reader, i *index, byKey map[string][]byte) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	f := bytes.Fields(line)
	i.first = f[0] // want `a slice that is valid only until the next read is stored in a field`
	for _, key := range f[1:] {
		byKey[string(key)] = key // want `a slice that is valid only until the next read is stored in a map`
	}
	return nil
}

func parse(line []byte) (item, bool) {
	f := bytes.Fields(line)
	if len(f) < 2 {
		return item{}, false
	}
	return item{name: f[0], value: f[1]}, true
}

func head(p []byte) []byte { return p[:2] }

func helpers(ctx context.Context, r *chunk.Reader) (all []item, heads [][]byte, err error) {
	for p, err := range r.Chunks(ctx) {
		if err != nil {
			return nil, nil, err
		}
		for line := range bytes.Lines(p) {
			if i, ok := parse(line); ok && len(i.name) > 0 {
				all = append(all, i) // want `a slice that is valid only in this iteration is stored outside of it`
			}
		}
		heads = append(heads, head(p)) // want `a slice that is valid only in this iteration is stored outside of it`
	}
	return all, heads, nil
}
