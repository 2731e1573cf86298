package chunk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	defaultPoll = 250 * time.Millisecond // see PollInterval

	// openGrace is how long Read ignores errors from opening the next file. A program that rotates
	// logs may create the new file before it sets the file's permissions.
	openGrace = 5 * time.Second
)

var errTruncated = errors.New("chunk: the file has been truncated")

// A Tail is the endless stream of the bytes that are appended to a log file, like the output of
// tail -F. Read waits at the end of the file for more bytes, and continues with the next file after
// a rotation. Read never returns io.EOF. Use a Tail as the source of a [Reader]:
//
//	tail, err := chunk.OpenTail(name, position)
//	if err != nil {
//		return err
//	}
//	defer tail.Close()
//	r := chunk.NewReader(tail, chunk.At(chunk.Lines()))
//	defer r.Close()
//
// # Rotation by renaming
//
// If the name of the log refers to another file than before, the log has been rotated. Read returns
// the rest of the old file. It then waits until the new file has a byte and one more [PollInterval]
// has passed, and continues at the start of the new file. No byte is lost or repeated if these
// conditions hold:
//
//   - One PollInterval after the first byte of the new file, the writer no longer writes to the old
//     file.
//   - Between two calls to Read, and within one PollInterval, the log is rotated at most once. With
//     the option [Rotated], it may be rotated more often, as long as the modification times of the
//     files differ. Files that are written within one tick of the file system's clock have the same
//     time. A tick may be several milliseconds, or one or two seconds.
//
// If the old file ends within a record, the record continues with the first bytes of the new file.
// If the name does not exist, Read continues to wait for bytes in the old file. The name may be a
// symbolic link, and a link to another file is a rotation.
//
// # Truncation
//
// If the file is shorter than the bytes that Read has returned, or its first KiB has changed, the
// file has been truncated, or copied and truncated (copytruncate). Read continues at the start of
// the file. With [Rotated], it first returns the rest of the copy. Without Rotated, bytes that Read
// has not returned before are lost. Bytes that the writer appends between the copy and the
// truncation are lost in any case.
//
// Read cannot notice a truncation if, within one PollInterval, the file grows again to at least as
// many bytes as Read has returned, with the same first bytes (up to 1 KiB). Bytes that Read has not
// returned before are then lost. This can happen if Read has returned only a header line that each
// file repeats.
//
// # Systems
//
// A Tail polls the file, so it works on all systems and network file systems. On Windows, a file
// cannot be renamed while a Tail has it open, so a log must be rotated by copying and truncating.
//
// Read is for one goroutine at a time. The other methods may be called from any goroutine.
type Tail struct {
	name    string
	poll    time.Duration
	pattern string        // see Rotated
	wake    chan struct{} // wakes a waiting Read after a new deadline or Close

	// Only Read uses these fields.
	headBuf [headLen]byte
	noticed time.Time // when next was opened
	failing time.Time // time of the first failed attempt to open the next file, or zero

	mu       sync.Mutex // guards the fields below; only Read changes file and next
	file     *os.File   // nil until the file exists
	next     *os.File   // the file that continues the log after file; nil if none was found yet
	nextHead []byte     // the first bytes of next
	parts    []tailPart // the last part belongs to file
	read     int64      // number of bytes that Read has returned
	deadline time.Time
	closed   bool
}

// A tailPart describes the bytes of the stream that come from one file.
type tailPart struct {
	start  int64  // offset of the part in the stream
	offset int64  // offset of the part in the file
	head   []byte // first bytes of the file, as far as known
}

// A TailOption changes the Tail that [OpenTail] returns. An option panics if its value is invalid.
type TailOption func(*Tail)

// PollInterval sets how often a waiting Read checks for new bytes and for a rotation. The default
// is 250 ms. A check takes five system calls.
func PollInterval(d time.Duration) TailOption {
	if d <= 0 {
		panic(fmt.Sprintf("chunk: PollInterval(%v) is not positive", d))
	}
	return func(t *Tail) { t.poll = d }
}

// Rotated sets the pattern (see filepath.Glob) for the older files of the log. For example,
// "/var/log/app.log.?" matches app.log.1 and app.log.2. The pattern must not match other files,
// such as compressed files.
//
// With Rotated, a Tail finds the file of a [Position] after a rotation. It reads the files from
// that file to the current one, in the order of their modification times. It also finds the copy of
// a truncated file.
func Rotated(pattern string) TailOption {
	if _, err := filepath.Match(pattern, ""); err != nil {
		panic(fmt.Sprintf("chunk: Rotated(%q): %v", pattern, err))
	}
	return func(t *Tail) { t.pattern = pattern }
}

// OpenTail opens the log with the given file name, and continues at a Position that an earlier Tail
// of the log has returned. The zero Position is the start of the file. The caller must close the
// Tail.
//
// If the file does not exist and the Position is the zero Position, Read waits for the file.
//
// If the Position belongs to another file, OpenTail searches the [Rotated] files for that file. If
// it does not find the file, for example because the file has been deleted or truncated, the error
// is [ErrNoPosition]. The program then decides whether to begin with the zero Position.
//
// Several files match a Position if they begin with the same bytes, for example with the same
// header line, and the Position was stored directly after these bytes. OpenTail then continues in
// the matching file with the oldest modification time. Read may therefore repeat bytes, but loses
// none. Without Rotated, OpenTail knows only the current file, and bytes of older files are lost.
func OpenTail(name string, from Position, opts ...TailOption) (*Tail, error) {
	t := &Tail{name: name, poll: defaultPoll, wake: make(chan struct{}, 1)}
	for _, opt := range opts {
		opt(t)
	}
	file, head, err := openAt(name, from)
	switch {
	case err == nil && 0 < from.Head && from.Head < headLen, // an older file may also match
		err == errOtherFile, from != (Position{}) && errors.Is(err, fs.ErrNotExist):
		file, head, err = t.findRotated(from, file, head)
	}
	switch {
	case err == nil:
		t.file = file
	case errors.Is(err, fs.ErrNotExist):
	default:
		return nil, err
	}
	t.parts = []tailPart{{offset: from.Offset, head: head}}
	return t, nil
}

// Read reads the next bytes of the log, and waits for at least one byte. If the file cannot be
// read, or attempts to open the next file fail for five seconds, Read returns the error. The
// following call to Read tries again.
func (t *Tail) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if err := t.interrupted(); err != nil {
			return 0, err
		}
		if err := t.findNext(); err != nil {
			return 0, err
		}
		if t.file != nil {
			n, err := t.readFile(p)
			switch {
			case err == errTruncated:
				if err := t.restart(); err != nil {
					return 0, err
				}
				continue
			case n > 0:
				return n, nil
			case err != io.EOF:
				return 0, err
			}
		}
		if t.next != nil && time.Since(t.noticed) >= t.poll {
			if err := t.moveTo(t.next, tailPart{head: t.nextHead}); err != nil {
				return 0, err
			}
			continue
		}
		t.wait()
	}
	return 0, nil
}

func (t *Tail) interrupted() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return os.ErrClosed
	case !t.deadline.IsZero() && time.Until(t.deadline) <= 0:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (t *Tail) wait() {
	t.mu.Lock()
	d := t.poll
	if !t.deadline.IsZero() {
		d = min(d, time.Until(t.deadline))
	}
	t.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.wake:
	}
}

// current returns the first bytes of the current file, and the offset of the next Read in the file.
func (t *Tail) current() (head []byte, offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	part := &t.parts[len(t.parts)-1]
	return part.head, part.offset + t.read - part.start
}

// readFile reads the next bytes of the current file. If the file has been truncated since its first
// bytes were read, the error is errTruncated.
func (t *Tail) readFile(p []byte) (int, error) {
	head, at := t.current()
	n, err := t.file.ReadAt(p, at)
	// Check after the read, because the file could be truncated between a check and the read.
	if info, err := t.file.Stat(); err != nil {
		return 0, err
	} else if info.Size() < at+int64(n) {
		return 0, errTruncated
	} else if err := t.checkHead(head); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read += int64(n)
	if known := int64(len(head)); known < headLen && known < at+int64(n) {
		head = append(head, p[known-at:min(headLen-at, int64(n))]...)
		t.parts[len(t.parts)-1].head = head
	}
	return n, err
}

// findNext searches for the next file of the log, and stores it in t.next. If no file is open yet,
// the next file becomes the current file.
func (t *Tail) findNext() error {
	if t.next != nil {
		return nil
	}
	named, err := os.Stat(t.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t.ignoreBriefly(err)
	}
	var current os.FileInfo
	if t.file != nil {
		if current, err = t.file.Stat(); err != nil {
			return err
		}
	}
	if named == nil && t.pattern == "" || os.SameFile(named, current) {
		return t.ignoreBriefly(nil)
	}
	next, head, err := t.openNext(current, named)
	if err := t.ignoreBriefly(err); err != nil || next == nil {
		return err
	}
	if t.file == nil {
		return t.moveTo(next, tailPart{head: head})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = next.Close()
		return os.ErrClosed
	}
	t.next, t.nextHead, t.noticed = next, head, time.Now()
	return nil
}

// ignoreBriefly returns nil until attempts to open the next file have failed for openGrace. After
// that, it returns err, the last error.
func (t *Tail) ignoreBriefly(err error) error {
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		t.failing = time.Time{}
		return nil
	case t.failing.IsZero():
		t.failing = time.Now()
	case time.Since(t.failing) >= openGrace:
		t.failing = time.Time{}
		return err
	}
	return nil
}

// restart continues a truncated file in its rotated copy, or at its start if there is none.
func (t *Tail) restart() error {
	head, at := t.current()
	if file, head, err := t.findRotated(newPosition(at, head), nil, nil); err == nil {
		return t.moveTo(file, tailPart{offset: at, head: head})
	}
	return t.moveTo(t.file, tailPart{})
}

// moveTo makes file the current file and closes the other files. It takes ownership of file. The
// tailPart describes the bytes that come from the file.
func (t *Tail) moveTo(file *os.File, part tailPart) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = file.Close()
		return os.ErrClosed
	}
	for _, f := range []*os.File{t.file, t.next} {
		if f != nil && f != file {
			_ = f.Close()
		}
	}
	t.file, t.next = file, nil
	part.start = t.read
	if last := len(t.parts) - 1; last > 0 && t.parts[last].start == t.read {
		t.parts = t.parts[:last] // Read has returned nothing of this part
	}
	t.parts = append(t.parts, part)
	return nil
}

// openNext opens the file that continues the log. This is the oldest rotated file that is newer
// than the current file. If there is no such rotated file, openNext opens the file t.name, unless
// that file is empty. If no file continues the log, openNext returns nil. The arguments describe
// the current file and the file t.name. Each may be nil.
func (t *Tail) openNext(current, named os.FileInfo) (*os.File, []byte, error) {
	name, next := t.name, named
	if current != nil {
		for _, m := range t.rotated() {
			info, err := os.Stat(m)
			if err == nil && info.ModTime().After(current.ModTime()) &&
				!os.SameFile(info, current) && !os.SameFile(info, named) &&
				(name == t.name || info.ModTime().Before(next.ModTime())) {
				name, next = m, info
			}
		}
		if name == t.name && (named == nil || named.Size() == 0) {
			return nil, nil, nil
		}
	}
	file, head, err := openRegular(name)
	if err != nil {
		return nil, nil, err
	}
	if info, err := file.Stat(); err != nil || !os.SameFile(info, next) {
		_ = file.Close() // the log has been rotated since
		return nil, nil, nil
	}
	return file, head, nil
}

func (t *Tail) rotated() []string {
	names, _ := filepath.Glob(t.pattern) // Rotated has checked the pattern
	return names
}

// findRotated opens the oldest file that matches p, and returns it with its first bytes. found is a
// file that already matches, or nil. findRotated takes ownership of found, and may return it.
func (t *Tail) findRotated(p Position, found *os.File, foundHead []byte) (*os.File, []byte, error) {
	for _, name := range t.rotated() {
		file, head, err := openAt(name, p)
		if err != nil {
			continue
		}
		if found != nil && !isOlder(file, found) {
			_ = file.Close()
			continue
		}
		if found != nil {
			_ = found.Close()
		}
		found, foundHead = file, head
	}
	if found == nil {
		return nil, nil, fmt.Errorf("%w: %s", ErrNoPosition, t.name)
	}
	return found, foundHead, nil
}

func isOlder(a, b *os.File) bool {
	ia, errA := a.Stat()
	ib, errB := b.Stat()
	return errA == nil && errB == nil && ia.ModTime().Before(ib.ModTime())
}

// checkHead returns errTruncated if the current file does not begin with head.
func (t *Tail) checkHead(head []byte) error {
	n, err := t.file.ReadAt(t.headBuf[:len(head)], 0)
	switch {
	case err != nil && err != io.EOF:
		return err
	case !bytes.Equal(t.headBuf[:n], head):
		return errTruncated
	}
	return nil
}

// Position returns the place in the log directly after the first n bytes that Read has returned, so
// that another Tail can continue there. If a [Reader] reads t, n is [Reader.Offset].
//
// The Tail keeps up to 1 KiB of each file, from the file of the last Position to the current file.
// It forgets earlier files, so n must not decrease from one call to the next. Position panics if
// the Tail has forgotten the file, or if Read has returned fewer than n bytes.
func (t *Tail) Position(n int64) Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < t.parts[0].start || n > t.read {
		panic(fmt.Sprintf("chunk: Position(%d) is not between %d and %d", n, t.parts[0].start,
			t.read))
	}
	// Between two files, use the end of the first file. The first bytes of the second may be
	// unknown.
	for len(t.parts) > 1 && n > t.parts[1].start {
		t.parts = t.parts[1:]
	}
	part := &t.parts[0]
	return newPosition(part.offset+n-part.start, part.head)
}

// SetReadDeadline makes a waiting Read return os.ErrDeadlineExceeded at the given time. A zero time
// removes the deadline.
func (t *Tail) SetReadDeadline(deadline time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return os.ErrClosed
	}
	t.deadline = deadline
	t.notify()
	return nil
}

func (t *Tail) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Close closes the file. Every Read, even a waiting one, then returns an error that matches
// os.ErrClosed (see errors.Is). Position still works.
func (t *Tail) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return os.ErrClosed
	}
	t.closed = true
	t.notify()
	var err error
	if t.file != nil {
		err = t.file.Close()
	}
	if t.next != nil {
		err = errors.Join(err, t.next.Close())
	}
	return err
}
