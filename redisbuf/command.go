package redisbuf

import "sync"

// A command is one Redis command. It writes its request to a connection, and reads the reply into
// the caller's memory. The code for the pool, the retries and the topology uses only this
// interface. A command borrows the caller's readers, writers and memory.
type command interface {
	// compose queues the request on c.
	compose(c *conn) error

	// read reads the reply from c into the caller's memory.
	read(c *conn) error

	// weight returns the number of bytes that the command counts towards the InFlight limit.
	// unknown is the estimate for a command that does not know the length of its value.
	weight(unknown int64) int64

	// info returns the fields that all commands have in common.
	info() *commandInfo
}

// A commandInfo has the fields that all commands have in common.
type commandInfo struct {
	key    string
	writes bool  // the command sets a key, so a retry could undo another client's SET
	used   bool  // the caller's reader or writer was used, so the call must not be retried
	n      int64 // length of the value that was read, in bytes
}

func (i *commandInfo) info() *commandInfo { return i }

// leastUnknown is the minimum number of bytes that a value of unknown length counts towards the
// InFlight limit. Most values are shorter.
const leastUnknown = 1 << 20

// weightOf returns the number of bytes that cmd counts towards the InFlight limit. A value of
// unknown length counts as much as the last such value, but at least leastUnknown.
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
