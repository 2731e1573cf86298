package chunk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

const (
	// mostNames and mostNameBytes bound a list of a directory: 4 MiB are as many names of 63 bytes and what ends them.
	// A directory that has more is no place to look around in. With their places in the list, and the room that slices
	// grow by, that is up to 6 MiB of memory.
	mostNames     = 1 << 16
	mostNameBytes = 4 << 20

	// longLists is how many lists of up to that size there are at a time: 24 MiB in all. A place is given back when the
	// client has taken the page.
	longLists = 4

	// shortNames and shortNameBytes are what is held of names for a client without a place: with the block that the
	// page passes through 80 KiB at most, little more than a connection takes while it is being sent a file. So clients
	// that take nothing cannot keep others from short lists.
	shortNames     = 1 << 11
	shortNameBytes = 16 << 10

	// listReaders is how many short lists are read at a time. Each takes a thread while it waits for a disk. They do not
	// take turns with files, because nobody knows whether a directory is in the page cache.
	listReaders = 8

	// nameBatch is how many names are read between two looks at who wants them.
	nameBatch = 256
)

var (
	errTooManyNames = errors.New("chunk: too many names in a directory")
	errNotRead      = errors.New("chunk: a directory cannot be read")
	errLong         = errors.New("chunk: not a short list")
)

// A lister reads the names in directories, for a limited number of clients at a time.
type lister struct {
	root        *os.Root
	short, long *gate
}

func newLister(root *os.Root) lister {
	return lister{root: root, short: newGate(listReaders), long: newGate(longLists)}
}

// read returns the names in a directory. The caller calls done when it does not need them any more; if there is an
// error, there is nothing to do. Waiting for others, and reading a long list, end with ctx, with ctx's error. But a
// short list that need not wait for anybody is read in any case, because not everyone whose context has ended is gone:
// see contextOf.
func (l *lister) read(ctx context.Context, name string) (n names, done func(), err error) {
	if err := l.short.enter(ctx); err != nil {
		return names{}, nil, err
	}
	n, err = l.readAll(context.Background(), name, shortNames, shortNameBytes, errLong)
	l.short.release()
	if err != errLong {
		return n, func() {}, err
	}
	if err := l.long.enter(ctx); err != nil {
		return names{}, nil, err
	}
	if n, err = l.readAll(ctx, name, mostNames, mostNameBytes, errTooManyNames); err != nil {
		l.long.release()
		return names{}, nil, err
	}
	return n, l.long.release, nil
}

// readAll returns the names in a directory, in ascending order, or tooMany if there are more than most of them, or than so
// many bytes.
func (l *lister) readAll(ctx context.Context, name string, most, bytes int, tooMany error) (n names, err error) {
	dir, err := l.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return names{}, err
	}
	defer dir.Close()
	for {
		if err := ctx.Err(); err != nil {
			return names{}, err
		}
		entries, err := dir.ReadDir(nameBatch)
		for _, e := range entries {
			n.add(e.Name(), e.IsDir())
		}
		switch {
		case n.exceed(most, bytes):
			return names{}, tooMany
		case err == io.EOF:
			n.sort()
			return n, nil
		case errors.Is(err, fs.ErrNotExist):
			return names{}, err // it was deleted, and nothing can be in it
		case err != nil:
			return names{}, errNotRead
		}
	}
}

// names are those in a directory, one behind the other. Those of directories end with a slash.
//
// Invariant: 0 ≤ from ≤ to ≤ len(bytes), for each of all.
type names struct {
	bytes []byte
	all   []nameAt
}

// A nameAt is where a name is.
type nameAt struct{ from, to uint32 }

func (n *names) add(name string, isDir bool) {
	from := len(n.bytes)
	n.bytes = append(n.bytes, name...)
	if isDir {
		n.bytes = append(n.bytes, '/')
	}
	n.all = append(n.all, nameAt{uint32(from), uint32(len(n.bytes))})
}

// exceed reports whether there are more than so many names, or bytes of them.
func (n *names) exceed(most, bytes int) bool { return len(n.all) > most || len(n.bytes) > bytes }

func (n *names) at(i nameAt) []byte { return n.bytes[i.from:i.to] }

// sort sorts the names as if those of directories had no slash, as net/http does. No name has one inside.
func (n *names) sort() {
	bare := func(i nameAt) []byte { return bytes.TrimSuffix(n.at(i), []byte("/")) }
	slices.SortFunc(n.all, func(a, b nameAt) int { return bytes.Compare(bare(a), bare(b)) })
}
