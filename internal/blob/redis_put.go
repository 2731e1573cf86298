package blob

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/redisbuf"
)

// errLost says that a value had arrived, and was gone when it was to get its key.
var errLost = fmt.Errorf("the value was lost before it got its key: Redis was started anew or has evicted it, or %v went by", pendingFor)

// Put implements Store.
func (s *Redis) Put(
	ctx context.Context, key string, body io.Reader, size int64, put Put,
) (tag string, created bool, err error) {
	if size > put.Limit {
		return "", false, &TooLargeError{put.Limit}
	}
	name := s.name(key)
	version := newVersion(name)
	pending := version + ":new"
	length, err := s.send(ctx, pending, body, size, put)
	if err != nil {
		return "", false, err
	}
	created, err = s.commit(ctx, []string{name, pending, version, memoryOf(version)}, length, put)
	if err != nil && !errors.Is(err, ErrUnsure) {
		s.rdb.Unlink(context.WithoutCancel(ctx), pending) // otherwise it expires
	}
	return tagOf(version), created, err
}

// send sets pending to body, and returns how long it is.
func (s *Redis) send(ctx context.Context, pending string, body io.Reader, size int64, put Put) (int64, error) {
	src := newSource(body, size, put.Limit)
	expire := redisbuf.Expire(pendingFor)
	if size > spoolMemory {
		select {
		case s.writing <- struct{}{}:
			defer func() { <-s.writing }()
			if err := s.values.SetFrom(ctx, pending, src, size, expire); err != nil {
				return 0, src.failure(s.failedSend(err))
			}
			return size, nil
		default:
		}
	}
	// A value that is short, of unknown length, or comes while many others do is received first, so that Redis gets it
	// at once, and again if that fails.
	var b spool
	defer b.release()
	if err := b.fill(ctx, src); err != nil {
		return 0, src.failure(err)
	}
	if size != Unknown && b.size != size {
		return 0, &BodyError{io.ErrUnexpectedEOF}
	}
	var err error
	if b.file != nil {
		err = s.values.SetFile(ctx, pending, b.file, expire)
	} else {
		err = s.values.SetChain(ctx, pending, &b.chain, expire)
	}
	return b.size, s.failedSend(err)
}

// failedSend returns what an error of setting the pending key means: that no key that anybody sees has changed.
func (s *Redis) failedSend(err error) error {
	var reader *redisbuf.ReaderError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &reader):
		return &BodyError{reader.Err}
	}
	return s.failed(err)
}

// commit has the hash name the new version. keys are the hash, the pending value, the version, and the script's memory.
func (s *Redis) commit(ctx context.Context, keys []string, length int64, put Put) (created bool, err error) {
	for {
		expected := anyVersion
		if put.Only != nil {
			if expected, err = s.current(ctx, keys[0], put.Only); err != nil {
				return false, err
			}
		}
		outcome, err := s.run(ctx, commitScript, keys,
			expected, length, put.TTL.Milliseconds(), s.keep.Milliseconds(), rememberedFor.Milliseconds())
		switch {
		case err != nil:
			return false, err
		case outcome == "lost":
			return false, &UnavailableError{errLost}
		case outcome != "changed":
			return outcome == "created", nil
		}
		// Somebody else was quicker, so the condition has to be checked again.
	}
}
