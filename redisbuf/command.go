package redisbuf

import "sync"

// A command is one Redis command: it writes its request to a connection, and reads the reply into
// the caller's memory. The pool, the retries and the topology use commands only through this
// interface. A command borrows the caller's readers, writers and memory.
type command interface {
	// compose queues the request on c.
	compose(c *conn) error

	// read reads the reply from c into the caller's memory.
	read(c *conn) error

	// weight returns the number of bytes of values that the command has in flight. A command that
	// does not know the length of its value returns unknown.
	weight(unknown int64) int64

	// info returns the common part of all commands.
	info() *commandInfo
}

// A commandInfo is embedded in each command.
type commandInfo struct {
	key    string
	writes bool  // a second try could undo another client's change
	used   bool  // the reader was read from, or the writer written to: no second try
	n      int64 // length of the value that was read, in bytes
}

func (i *commandInfo) info() *commandInfo { return i }

// leastUnknown is the minimum weight, in bytes, of a value of unknown length. Few values are
// longer, and a longer one is received into blocks of this size.
const leastUnknown = 1 << 20

// weightOf returns the number of bytes that cmd has in flight. A value of unknown length is counted
// with the length of the last such value.
func (c *Client) weightOf(cmd command) int64 {
	w := cmd.weight(max(c.lastLen.Load(), leastUnknown))
	return int64(len(cmd.info().key)) + max(min(w, c.settings.inFlight), 0)
}

// A freeList keeps commands of one type for reuse, so that a call does not allocate one.
type freeList[T any] struct{ pool sync.Pool }

// get returns a command. The caller returns it with put.
func (l *freeList[T]) get() *T {
	if cmd, ok := l.pool.Get().(*T); ok {
		return cmd
	}
	return new(T)
}

// put returns cmd to the list, and clears its borrowed arguments.
func (l *freeList[T]) put(cmd *T) {
	var zero T
	*cmd = zero
	l.pool.Put(cmd)
}
