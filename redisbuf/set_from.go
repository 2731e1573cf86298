package redisbuf

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/millrace-io/millrace"
)

// SetFrom sets key to the next n bytes of r. It borrows r, and reads no more than n bytes.
//
// If r is a TCP or Unix connection and the server's connection is TCP, the kernel moves the bytes
// (splice). Otherwise they pass through one pooled block.
//
// SetFrom returns the same errors as SetFromBuffer. If r fails, the error is a *ReaderError and the
// key is unchanged. The ReaderError wraps io.ErrUnexpectedEOF if r ends early, and io.ErrNoProgress
// after a hundred reads without bytes or an error.
//
// The end of ctx does not interrupt a blocked Read of r. The call keeps its connection while r
// blocks, so a reader that itself reads from Redis must use another Client.
//
// A call that has read from r is not retried. While a cluster moves slots, SetFrom may therefore
// return a redirection:
//
//   - A MOVED error (redis.IsMovedError). A new call succeeds as soon as go-redis knows the new
//     server.
//   - An ASK error (redis.IsAskError). New calls fail until the slot has been moved.
//
// SetFromBuffer, SetChain and SetFile follow redirections themselves.
func (c *Client) SetFrom(ctx context.Context, key string, r io.Reader, n int64,
	opts ...SetOption) error {
	cmd, err := newSetFrom(key, r, n, opts)
	if err != nil {
		return err
	}
	return c.do(ctx, cmd)
}

type setFromCmd struct {
	setHeader
	r io.Reader
}

func newSetFrom(key string, r io.Reader, n int64, opts []SetOption) (*setFromCmd, error) {
	set, err := newSetHeader(key, n, opts)
	if err == nil && n < 0 {
		err = errOffset
	}
	return &setFromCmd{setHeader: set, r: r}, err
}

func (s *setFromCmd) compose(c *conn) error {
	s.begin(c)
	left := s.size
	s.used = left > 0
	for left >= minSplice && c.canSpliceFrom(s.r) {
		n, err := c.spliceFrom(s.r, left)
		if left -= n; err != nil {
			return err
		}
	}
	return s.copyFrom(c, s.r, left)
}

// copyFrom reads the last n bytes of the value from r, and sends them and the rest of the command.
func (s *setHeader) copyFrom(c *conn, r io.Reader, n int64) error {
	if n == 0 {
		s.end(c)
		return nil
	}
	block := millrace.DefaultPool().Get(int(min(n, relayBlock)))
	defer block.Release() // after flush has sent its bytes
	for n > 0 {
		p := block.Bytes()
		p = p[:min(n, int64(len(p)))]
		m, err := c.readFrom(r, p)
		if err := c.push(p[:m]); err != nil {
			return err
		}
		if n -= int64(m); n == 0 {
			s.end(c)
		}
		if flushErr := c.flush(); flushErr != nil {
			return flushErr
		}
		if n > 0 && err != nil {
			return err
		}
	}
	return nil
}

// maxEmptyReads is the maximum number of consecutive reads without bytes or an error, as in bufio.
const maxEmptyReads = 100

// readFrom reads at least one byte from r, or returns a *ReaderError or the context's error.
func (c *conn) readFrom(r io.Reader, p []byte) (int, error) {
	for range maxEmptyReads {
		n, err := r.Read(p)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			err = &ReaderError{Err: err}
		} else if n == 0 {
			err = c.watcher.err()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, &ReaderError{Err: io.ErrNoProgress}
}

// A ReaderError reports that the reader of SetFrom, or the file of SetFile, failed. The key is
// unchanged.
type ReaderError struct{ Err error }

func (e *ReaderError) Error() string {
	return fmt.Sprintf("redisbuf: reading the value: %v", e.Err)
}

// Unwrap returns the reader's error.
func (e *ReaderError) Unwrap() error { return e.Err }

// minSendfile is the minimum size of a file that is sent with sendfile. A shorter file is read into
// a block of memory, and sent together with the SET command.
const minSendfile = 64 << 10

// SetFile sets key to the content of f. It borrows f, and neither uses nor changes its file offset.
// On a TCP or Unix connection, the kernel moves the bytes of a file of 64 KiB and more (sendfile).
//
// SetFile refuses a file that is not regular, and a file that reports size 0 but has content, as in
// /proc.
//
// If f cannot be read, the error is a *ReaderError and the key is unchanged. If f becomes shorter
// during the call, the ReaderError wraps io.ErrUnexpectedEOF. The error is redis.Nil if a condition
// ([IfAbsent] or [IfPresent]) was not met. After a *SentError it is unknown whether the key was
// set.
func (c *Client) SetFile(ctx context.Context, key string, f *os.File, opts ...SetOption) error {
	cmd, err := newSetFile(key, f, opts)
	if err != nil {
		return err
	}
	return c.do(ctx, cmd)
}

type setFileCmd struct {
	setHeader
	f *os.File
}

func newSetFile(key string, f *os.File, opts []SetOption) (*setFileCmd, error) {
	size, err := fileSize(f)
	if err != nil {
		return nil, err
	}
	set, err := newSetHeader(key, size, opts)
	return &setFileCmd{setHeader: set, f: f}, err
}

// fileSize returns the size of f. It returns an error if f is not a regular file, or if f reports
// size 0 but has content, as in /proc.
func fileSize(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("redisbuf: SetFile of %s, which is not a regular file", f.Name())
	}
	if info.Size() == 0 {
		var p [1]byte
		switch n, err := f.ReadAt(p[:], 0); {
		case n > 0:
			return 0, fmt.Errorf("redisbuf: SetFile of %s, which reports size 0 but has content",
				f.Name())
		case err != nil && err != io.EOF:
			return 0, &ReaderError{Err: err}
		}
	}
	return info.Size(), nil
}

func (s *setFileCmd) compose(c *conn) error {
	s.begin(c)
	off := int64(0)
	if s.size >= minSendfile {
		var err error
		if off, err = c.sendFile(s.f, s.size); err != nil {
			return err
		}
	}
	left := s.size - off
	return s.copyFrom(c, io.NewSectionReader(s.f, off, left), left)
}
