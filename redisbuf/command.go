package redisbuf

import "sync"

// A command is one Redis command: it writes its request to a connection, and reads the reply into
// the caller's memory. The pool, the retries and the topology use commands only through this
// interface. A command borrows the caller's readers, writers and memory.
type command interface {
	// compose queues the request on c.
	compose(c *conn) error

	// read reads the reply from c.
	read(c *conn) error

	// weight returns how many bytes of values the command has in flight. A command that cannot know
	// how long its value is returns unknown.
	weight(unknown int64) int64

	// info returns the common part of the command.
	info() *commandInfo
}

// A commandInfo is a part of each command.
type commandInfo struct {
	key    string
	writes bool  // executing it twice could undo another client's change in between
	used   bool  // its reader has been read from, or its writer written to: there is no second try
	n      int64 // bytes of the value that was read
}

func (i *commandInfo) info() *commandInfo { return i }

// leastUnknown is the least weight of a value of unknown length: few values are longer, and a
// longer one is received into blocks of this size.
const leastUnknown = 1 << 20

// weightOf returns how many bytes cmd has in flight. A value of unknown length counts as the last
// one.
func (c *Client) weightOf(cmd command) int64 {
	w := cmd.weight(max(c.lastLen.Load(), leastUnknown))
	return int64(len(cmd.info().key)) + max(min(w, c.settings.inFlight), 0)
}

// A freeList keeps commands of one type, so that a call allocates none.
type freeList[T any] struct{ pool sync.Pool }

// get returns a command, which the caller gives back by put.
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
