package redisbuf

import (
	"context"

	"github.com/millrace-io/millrace"
)

const (
	// firstBlock is the size of the first block of a value longer than maxBlock. It is small,
	// because an announced value may never arrive.
	firstBlock = 64 << 10

	// maxBlock is the maximum size of the blocks that GetChain uses. It is also the size of the
	// largest blocks that a millrace.Pool keeps for reuse.
	maxBlock = 1 << 20
)

// GetChain reads the value of key into pooled blocks and appends them to dst. It takes the blocks
// as the value arrives, each with at most 1 MiB. Releasing dst releases them.
//
// The error is redis.Nil if the key does not exist. If the value has more than limit bytes,
// GetChain takes no blocks and returns a *ValueTooLargeError. After an error, dst is unchanged.
func (c *Client) GetChain(ctx context.Context, key string, dst *millrace.Chain, limit int) error {
	_ = dst.Len() // a nil chain panics here, before blocks are taken
	cmd := getChainCmds.get()
	defer getChainCmds.put(cmd)
	cmd.key, cmd.dst, cmd.limit = key, dst, int64(limit)
	err := c.do(ctx, cmd)
	c.storeEstimate(cmd.n, err)
	return err
}

// storeEstimate stores n, the length of a value that was read, as the estimate for the next value
// of unknown length. If err is not nil, storeEstimate does nothing.
func (c *Client) storeEstimate(n int64, err error) {
	if err == nil && n != c.lastLen.Load() {
		c.lastLen.Store(n)
	}
}

// A getChainCmd reads a value into blocks of dst. If the value has more than limit bytes, the
// command fails.
type getChainCmd struct {
	getHeader
	dst   *millrace.Chain
	limit int64
}

var getChainCmds freeList[getChainCmd]

func (g *getChainCmd) weight(estimate int64) int64 { return min(g.limit, estimate) }

func (g *getChainCmd) read(c *conn) error {
	size, err := c.readValueHeader()
	if err != nil {
		return err
	}
	if size > g.limit {
		return c.skipUnwanted(size, &ValueTooLargeError{Size: size, Limit: g.limit})
	}
	whole := &c.chain
	defer whole.Release() // after an error, releases the bytes received so far
	for left := size; left > 0; {
		if err := c.readBlock(whole, &left); err != nil {
			return err
		}
	}
	if err := c.readEnd(); err != nil {
		return err
	}
	g.dst.Merge(whole)
	g.n = size
	return nil
}

// readBlock reads the next block of a value into dst. It subtracts the block's length from
// *remaining, the number of unread bytes.
func (c *conn) readBlock(dst *millrace.Chain, remaining *int64) error {
	n := int(min(*remaining, maxBlock))
	if *remaining > maxBlock {
		n = min(maxBlock, max(firstBlock, dst.Len()))
	}
	d := millrace.DefaultPool().Get(n)
	defer d.Release() // after an error; no effect after Freeze
	if err := c.readPart(d.Bytes()[:n]); err != nil {
		return err
	}
	ref := d.Freeze(n)
	dst.Append(&ref)
	*remaining -= int64(n)
	return nil
}
