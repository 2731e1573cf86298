package blob

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// Put implements Store.
func (d *Directory) Put(
	ctx context.Context, key string, body io.Reader, size int64, put Put,
) (tag string, created bool, err error) {
	if size > put.Limit {
		return "", false, &TooLargeError{put.Limit}
	}
	pending := incoming + "/" + rand.Text()
	defer func() {
		if err != nil {
			_ = d.root.Remove(pending)
			err = roomError(err)
		}
	}()
	if err := d.write(ctx, pending, body, size, put); err != nil {
		return "", false, err
	}
	return d.commit(pending, placeOf(key), put.Only)
}

// write writes body to a new file, and makes that durable.
func (d *Directory) write(ctx context.Context, pending string, body io.Reader, size int64, put Put) error {
	f, err := d.root.OpenFile(pending, os.O_WRONLY|os.O_CREATE|os.O_EXCL, lasting)
	if err != nil {
		return err
	}
	defer f.Close() // if there is an error
	src := newSource(body, size, put.Limit)
	moved, err := chunk.Copy(ctx, f, src)
	if err == nil && size != Unknown && moved.Bytes != size {
		err = &BodyError{io.ErrUnexpectedEOF}
	}
	if err = src.failure(err); err != nil {
		return err
	}
	mode, at := d.stamp(put.TTL)
	if err := errors.Join(f.Chmod(mode), d.root.Chtimes(pending, at, at)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// stamp returns the permissions and the time of a new file. Entity tags are made of times: those of two files differ,
// if only by less than a millisecond, whatever clock the file system has.
func (d *Directory) stamp(ttl time.Duration) (mode fs.FileMode, at time.Time) {
	at, mode = d.clock(), lasting
	if ttl > 0 {
		at, mode = at.Add(ttl), expiring
	}
	return mode, at.Truncate(time.Millisecond).Add(time.Duration(d.serial.Add(1) % int64(time.Millisecond)))
}

// commit gives a file its key's name, if only allows that.
func (d *Directory) commit(pending string, to place, only Condition) (tag string, created bool, err error) {
	before, tag, err := d.rename(pending, to, only)
	if err != nil {
		return "", false, err
	}
	if err := d.sync(shardName(to.shard)); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return tag, before == "", nil
}

func (d *Directory) rename(pending string, to place, only Condition) (before, after string, err error) {
	d.writing[to.shard].Lock()
	defer d.writing[to.shard].Unlock()
	if before, err = d.allowed(to, only); err != nil {
		return before, "", err
	}
	if err := d.root.Rename(pending, to.path); err != nil {
		return before, "", err
	}
	if after, err = d.served(to.path); err != nil {
		err = fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return before, after, err
}

// allowed returns the present entity tag, or ErrCondition.
func (d *Directory) allowed(to place, only Condition) (tag string, err error) {
	if tag, err = d.tag(to.path); err == nil && !only.allows(tag) {
		err = ErrCondition
	}
	return tag, err
}

// Check implements Store.
func (d *Directory) Check(_ context.Context, key string, only Condition) error {
	_, err := d.allowed(placeOf(key), only)
	return err
}

// Delete implements Store.
func (d *Directory) Delete(_ context.Context, key string, only Condition) error {
	at := placeOf(key)
	if err := d.remove(at, only); err != nil {
		return err
	}
	return d.sync(shardName(at.shard))
}

func (d *Directory) remove(at place, only Condition) error {
	d.writing[at.shard].Lock()
	defer d.writing[at.shard].Unlock()
	switch tag, err := d.allowed(at, only); {
	case err != nil:
		return err
	case tag == "":
		return ErrNotFound
	}
	return d.drop(at.path)
}

// drop deletes a file. Its shard is locked.
func (d *Directory) drop(path string) error {
	err := d.root.Remove(path)
	if err == nil {
		_, _ = d.served(path) // there is none any more
	}
	return err
}

// roomError returns ErrFull for the errors of a file system that has no room.
func roomError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return ErrFull
	}
	return err
}
