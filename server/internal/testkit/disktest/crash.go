package disktest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A State has the files that a crash leaves.
type State struct {
	files []stateFile // directories before their files
}

type stateFile struct {
	path  string // with slashes
	isDir bool
	data  []byte
	mode  fs.FileMode
	at    time.Time // zero: the time does not matter
}

// Crash returns the state after the first n operations and a crash. If rnd is nil, it is a crash of
// the process: all n operations are there. Otherwise it is a crash of the machine, and rnd decides
// about the operations that are not durable. Files have blocks of the given size.
func (d *Disk) Crash(n, block int, rnd *rand.Rand) *State {
	d.mu.Lock()
	c := crash{operations: d.operations[:n], block: block, rnd: rnd}
	d.mu.Unlock()
	c.durable = make(map[int]int)
	for i, o := range c.operations {
		switch o.kind {
		case fsync:
			c.durable[o.node] = i
		case writeback:
			c.all = i
		}
	}
	if rnd != nil {
		chances := []float64{0, .2, .5, .9, 1}
		c.names, c.blocks = chances[rnd.IntN(len(chances))], chances[rnd.IntN(len(chances))]
	}
	return c.state()
}

type crash struct {
	operations    []operation
	block         int
	rnd           *rand.Rand
	durable       map[int]int // index of the last fsync of a node
	all           int         // index of the last Writeback
	names, blocks float64     // probabilities that a name, and a block, are up to date
}

func (c *crash) isDurable(i, node int) bool {
	return c.rnd == nil || i < c.all || i < c.durable[node]
}

func (c *crash) state() *State {
	s := &State{}
	s.add(c, c.entries(), 0, "")
	return s
}

// entries returns the names of each directory.
func (c *crash) entries() map[int]map[string]operation {
	dirs := map[int]map[string]operation{0: {}}
	made := make(map[int]operation) // by node
	remove := func(o *operation) {
		if dirs[o.name.dir][o.name.name].node == o.node {
			delete(dirs[o.name.dir], o.name.name)
		}
	}
	for i, o := range c.operations {
		if o.kind > rename {
			continue
		}
		if o.kind == link {
			made[o.node] = o
			if o.isDir {
				dirs[o.node] = make(map[string]operation)
			}
		}
		durable := c.isDurable(i, o.name.dir)
		renamed := durable || o.kind == rename && c.isDurable(i, o.to.dir)
		if !renamed && c.rnd.Float64() >= c.names {
			continue
		}
		switch o.kind {
		case link:
			dirs[o.name.dir][o.name.name] = o
		case unlink:
			remove(&o)
		case rename:
			if durable || c.rnd.IntN(4) > 0 {
				remove(&o)
			}
			dirs[o.to.dir][o.to.name] = made[o.node]
		}
	}
	return dirs
}

func (s *State) add(c *crash, dirs map[int]map[string]operation, dir int, under string) {
	for _, name := range slices.Sorted(maps.Keys(dirs[dir])) {
		o := dirs[dir][name]
		f := stateFile{path: path.Join(under, name), isDir: o.isDir, mode: o.mode}
		if !o.isDir {
			f.data, f.mode, f.at = c.content(o.node, o.mode)
		}
		s.files = append(s.files, f)
		if o.isDir {
			s.add(c, dirs, o.node, f.path)
		}
	}
}

// content returns the bytes, the permissions and the time of a file.
func (c *crash) content(node int, mode fs.FileMode) (data []byte, _ fs.FileMode, at time.Time) {
	var later []operation
	groups := []int{0} // of later
	for i, o := range c.operations {
		if o.node != node || o.kind <= rename || o.kind >= fsync {
			continue
		}
		if !c.isDurable(i, node) {
			if later = append(later, o); o.group != groups[len(groups)-1] {
				groups = append(groups, o.group)
			}
			continue
		}
		mode, at = o.attributes(mode, at)
		data = o.apply(data)
	}
	if len(later) == 0 {
		return data, mode, at
	}
	for _, o := range later[:c.rnd.IntN(len(later)+1)] {
		mode, at = o.attributes(mode, at)
	}
	least, most := len(data), len(data)
	whole := slices.Clone(data)
	for _, o := range later {
		whole = o.apply(whole)
		least, most = min(least, len(whole)), max(most, len(whole))
	}
	out := append(slices.Clone(data), make([]byte, most-len(data))...)
	for from := 0; from < most; from += c.block {
		until := groups[len(groups)-1]
		if c.rnd.Float64() >= c.blocks {
			until = groups[c.rnd.IntN(len(groups))]
		}
		b := out[from:min(from+c.block, most)]
		for _, o := range later {
			if o.group > until {
				break
			}
			switch skip := int(o.size) - from; {
			case o.kind == truncate && skip < len(b):
				clear(b[max(skip, 0):])
			case o.kind == write && skip < len(b) && -skip < len(o.data):
				copy(b[max(skip, 0):], o.data[max(-skip, 0):])
			}
		}
	}
	size := len(whole)
	if c.rnd.Float64() >= c.blocks {
		size = least + c.rnd.IntN(most-least+1)
	}
	return out[:size], mode, at
}

func (o *operation) attributes(mode fs.FileMode, at time.Time) (fs.FileMode, time.Time) {
	if o.kind == attribute && o.mode != 0 {
		mode = o.mode
	}
	if o.kind == attribute && !o.at.IsZero() {
		at = o.at
	}
	return mode, at
}

func (o *operation) apply(data []byte) []byte {
	size := int(o.size)
	switch o.kind {
	case truncate:
		if size <= len(data) {
			return data[:size:size]
		}
		return append(data, make([]byte, size-len(data))...)
	case write:
		if end := size + len(o.data); end > len(data) {
			data = append(data, make([]byte, end-len(data))...)
		}
		copy(data[size:], o.data)
	}
	return data
}

// Sum returns a hash of all files.
func (s *State) Sum() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range s.files {
		fmt.Fprintf(h, "%q %v %o %d %d\n", f.path, f.isDir, f.mode, f.at.UnixNano(), len(f.data))
		_, _ = h.Write(f.data)
	}
	h.Sum(sum[:0])
	return sum
}

// Restore replaces the files in the directory of old, which must no longer be used. It returns a
// Disk of this directory on which all files are durable.
func (s *State) Restore(old *Disk) (*Disk, error) {
	kept := make(map[string]bool) // directories
	for _, f := range s.files {
		kept[f.path] = f.isDir && old.isDir(f.path)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(old.nodes))) {
		if name != "." && !kept[name] {
			if err := os.Remove(filepath.Join(old.dir, name)); err != nil {
				return nil, err
			}
		}
	}
	d := New(old.dir)
	for _, f := range s.files {
		name := filepath.Join(d.dir, f.path)
		node := d.link(f.path, f.isDir, f.mode)
		if f.isDir {
			if kept[f.path] {
				continue
			}
			if err := os.Mkdir(name, 0o700); err != nil {
				return nil, err
			}
			continue
		}
		d.add(operation{kind: write, node: node, data: f.data})
		d.add(operation{kind: attribute, node: node, at: f.at})
		if err := os.WriteFile(name, f.data, 0o600); err != nil {
			return nil, err
		}
		if err := os.Chmod(name, f.mode); err != nil {
			return nil, err
		}
		if !f.at.IsZero() {
			if err := os.Chtimes(name, f.at, f.at); err != nil {
				return nil, err
			}
		}
	}
	d.add(operation{kind: writeback})
	return d, nil
}

// File returns the bytes of a file, or nil if it does not exist or is empty.
func (s *State) File(name string) []byte {
	for _, f := range s.files {
		if f.path == name {
			return f.data
		}
	}
	return nil
}

// String lists the files with their sizes.
func (s *State) String() string {
	var b []byte
	for _, f := range s.files {
		if !f.isDir {
			b = fmt.Appendf(b, "%s %o %d bytes\n", f.path, f.mode, len(f.data))
		}
	}
	return string(b)
}

// Full reports whether a test checks all states. With -short it checks some. The race detector would
// make it take an hour.
func Full() bool { return !testing.Short() && !race }

// Random returns the source of random numbers for a crash, which depends on its arguments only.
func Random(seed, n, variant int) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], uint64(seed))
	binary.LittleEndian.PutUint64(key[8:], uint64(n))
	binary.LittleEndian.PutUint64(key[16:], uint64(variant))
	return rand.New(rand.NewChaCha8(key))
}
