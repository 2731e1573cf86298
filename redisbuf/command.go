package redisbuf

import "sync"

// A command is one Redis command. It borrows the caller's readers, writers and memory.
type command interface {
	// compose adds the request to the queue of c.
	compose(c *conn) error

	// read reads the reply from c into the caller's memory.
	read(c *conn) error

	// weight returns the number of bytes that count towards the MaxInFlight limit. If the length of
	// the value is unknown, weight uses estimate as the length.
	weight(estimate int64) int64

	info() *commandInfo

	op() string

	// bytes returns how many bytes of the value were read, or, for a SET, the length of the value.
	bytes() int64
}

// commandInfo is embedded in all commands.
type commandInfo struct {
	key    string
	writes bool  // the command sets a key, so a retry could undo another client's SET
	used   bool  // the caller's reader or writer was used, so a retry is impossible
	n      int64 // length of the value that was read, in bytes
}

func (i *commandInfo) info() *commandInfo { return i }

// minUnknownWeight is the minimum weight of a value of unknown length. Most values are shorter.
const minUnknownWeight = 1 << 20

// weightOf returns the number of bytes that count towards the MaxInFlight limit for cmd. If the
// length of the value is unknown, weightOf assumes the length of the last value that GetChain or
// GetTo has read, but at least minUnknownWeight.
func (c *Client) weightOf(cmd command) int64 {
	w := cmd.weight(max(c.lastLen.Load(), minUnknownWeight))
	return int64(len(cmd.info().key)) + max(min(w, c.settings.inFlight), 0)
}

// A freeList keeps commands of one type for reuse.
type freeList[T any] struct{ pool sync.Pool }

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
