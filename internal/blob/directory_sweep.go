package blob

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

const (
	// sweepEvery is how often a shard is looked through for values that have expired. It takes four minutes to look
	// through them all. Nobody gets such a value; it only takes room.
	sweepEvery = time.Second

	// sweepNames is how many names are read at a time.
	sweepNames = 256
)

// sweep is the janitor: it deletes what has expired.
func (d *Directory) sweep(ctx context.Context) {
	defer close(d.swept)
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for i := 0; ; i = (i + 1) % shards {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		d.sweepShard(ctx, i)
	}
}

// sweepShard deletes what has expired in a shard. What cannot be read is left for the next time.
func (d *Directory) sweepShard(ctx context.Context, shard int) {
	dir, err := d.root.Open(shardName(shard))
	if err != nil {
		return
	}
	defer dir.Close()
	for ctx.Err() == nil {
		entries, err := dir.ReadDir(sweepNames)
		for _, e := range entries {
			if info, err := e.Info(); err == nil && d.over(info) {
				d.sweepFile(shard, shardName(shard)+"/"+e.Name())
			}
		}
		if err != nil {
			return
		}
	}
}

// sweepFile deletes a file, if it still is one that has expired.
func (d *Directory) sweepFile(shard int, path string) {
	d.writing[shard].Lock()
	defer d.writing[shard].Unlock()
	info, err := d.root.Lstat(path)
	if err != nil || !d.over(info) {
		return
	}
	if err := d.drop(path); err == nil || errors.Is(err, fs.ErrNotExist) {
		d.expired.Add(1)
	}
}

// over reports whether a file's value has expired.
func (d *Directory) over(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && expires(info) && !d.clock().Before(info.ModTime())
}
