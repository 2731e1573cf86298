package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/redisbuf"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/redis/go-redis/v9"
)

const (
	// MaxRedisValue is the maximum length of a value in Redis, in bytes, unless the server's
	// proto-max-bulk-len is changed.
	MaxRedisValue = 512 << 20

	// conns is the maximum number of connections to one server that carry values.
	conns = 32

	// spoolMemory is the number of bytes of a body that are received into memory. A longer body is
	// written to a file.
	spoolMemory = 1 << 20

	// replacedFor is how long a replaced or deleted value is kept for the downloads that read it.
	// Each such download extends the time.
	replacedFor = time.Minute

	// pendingFor is how long a received value is kept without a key. If the server is killed before
	// it assigns the value to its key, the value expires after this time.
	pendingFor = time.Minute

	// rememberedFor is how long Redis remembers the outcome of a script, in case the answer gets
	// lost. It is longer than all tries of the script take together.
	rememberedFor = time.Minute
)

// A Redis is a Store that has two keys for each value, in the same slot of a cluster:
//
//	PREFIX{/KEY}            a hash: value, the name of the key below, and length
//	PREFIX{/KEY}:VERSION    the value, unchanged
//
// and two more keys that expire: PREFIX{/KEY}:VERSION:new, while a value is received, and
// PREFIX{/KEY}:VERSION:done, see outcomeKey. A version never changes. So its name serves as an
// entity tag, and it can be read in parts. A new value is a new version. The hash is switched to
// the new version in one step, and the old version is kept for replacedFor.
//
// Connections to Redis never wait for a client. A body is received completely before it is sent to
// Redis. A download requests the next part only when the client has received the last one.
type Redis struct {
	rdb    redis.UniversalClient
	values *redisbuf.Client
	prefix string
	blocks *millrace.Pool
	keep   time.Duration // replacedFor
}

// OpenRedis opens the store in a Redis server or cluster. All keys of the store begin with prefix,
// which must not contain braces. OpenRedis takes ownership of rdb, even if it fails, and sends
// nothing to the server yet. Transfers take their memory from blocks. The caller must call Close on
// the store.
func OpenRedis(rdb redis.UniversalClient, prefix string, blocks *millrace.Pool) (*Redis, error) {
	if strings.ContainsAny(prefix, "{}") {
		return nil, errors.Join(
			fmt.Errorf("the prefix of keys is %q, and braces have a meaning in keys", prefix),
			rdb.Close())
	}
	// The bytes in flight need no separate limit, because a call holds at most spoolMemory.
	values, err := redisbuf.New(rdb, redisbuf.Conns(conns), redisbuf.InFlight(conns*MaxRedisValue))
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &Redis{rdb: rdb, values: values, prefix: prefix, blocks: blocks, keep: replacedFor}, nil
}

// Close implements Store.
func (s *Redis) Close() error { return errors.Join(s.values.Close(), s.rdb.Close()) }

// Ping returns nil if the server answers.
func (s *Redis) Ping(ctx context.Context) error { return s.rdb.Ping(ctx).Err() }

// Stats returns the state of the connections that carry values.
func (s *Redis) Stats() redisbuf.Stats { return s.values.Stats() }

// name returns the Redis key of the hash. All Redis keys of a value start with it. They are in the
// same slot, because Redis computes the slot from the part in braces.
func (s *Redis) name(key string) string { return s.prefix + "{/" + key + "}" }

// newVersion returns the name of a new version, which is unique.
func newVersion(name string) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return name + ":" + hex.EncodeToString(random[:])
}

// tagOf returns the entity tag of a version, or "" for the version "".
func tagOf(version string) string {
	if version == "" {
		return ""
	}
	return `"` + version[strings.LastIndexByte(version, ':')+1:] + `"`
}

// A version is the present value of a key.
type version struct {
	key  string // the Redis key
	size int64
	left time.Duration // time until it expires; 0 if it does not expire
}

// lookup returns the present version of a key, or ErrNotFound. name is the Redis key of the key's
// hash.
func (s *Redis) lookup(ctx context.Context, name string) (version, error) {
	reply, err := lookupScript.Run(ctx, s.rdb, []string{name}).Slice()
	switch {
	case err == redis.Nil:
		return version{}, ErrNotFound
	case err != nil:
		return version{}, s.failed(err)
	}
	if len(reply) != 3 {
		return version{}, fmt.Errorf("a reply of %d elements", len(reply))
	}
	key, isText := reply[0].(string)
	size, isSize := reply[1].(int64)
	left, isTime := reply[2].(int64)
	if !isText || !isSize || !isTime {
		return version{}, fmt.Errorf("a reply of other types: %T", reply)
	}
	switch {
	case left < 0:
		left = 0
	case left == 0: // less than a millisecond left; 0 would mean forever
		left = 1
	}
	return version{key: key, size: size, left: time.Duration(left) * time.Millisecond}, nil
}

// Open implements Store.
func (s *Redis) Open(ctx context.Context, key string) (*Value, error) {
	v, err := s.lookup(ctx, s.name(key))
	if err != nil {
		return nil, err
	}
	return &Value{Tag: tagOf(v.key), TTL: v.left, Content: s.content(ctx, v), blocks: s.blocks}, nil
}

// A content is the content of a Value: a versionReader with a read position.
type content struct {
	*io.SectionReader
	io.Closer
}

func (s *Redis) content(ctx context.Context, v version) content {
	r := &versionReader{store: s, key: v.key, prolonged: time.Now()}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return content{io.NewSectionReader(r, 0, v.size), r}
}

// A versionReader reads a version. If the version is replaced or deleted while it is read, the
// reader keeps it from expiring.
type versionReader struct {
	store  *Redis
	key    string
	ctx    context.Context // canceled by Close
	cancel context.CancelFunc

	mu        lock.Mutex // held during a call to Redis
	prolonged time.Time
}

// errGone ends a download if the value disappears before the end.
var errGone = fmt.Errorf("the value is not there any more: %w", io.ErrUnexpectedEOF)

// ReadAt implements io.ReaderAt.
func (v *versionReader) ReadAt(p []byte, off int64) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.ctx.Err(); err != nil {
		return 0, err
	}
	if keep := v.store.keep; time.Since(v.prolonged) > keep/4 {
		// GT does not change a version that never expires. If this command fails, the read will
		// fail too.
		v.store.rdb.Do(v.ctx, "PEXPIRE", v.key, keep.Milliseconds(), "GT")
		v.prolonged = time.Now()
	}
	n, err := v.store.values.GetRangeToBuffer(v.ctx, v.key, off, p)
	if err == nil && n < len(p) {
		err = errGone
	}
	return n, err
}

// Close implements io.Closer. It waits until a running read has ended, because for a response of
// several ranges, net/http reads in a goroutine that may outlive the response.
func (v *versionReader) Close() error {
	v.cancel()
	v.mu.Lock()
	defer v.mu.Unlock()
	return nil
}

// current returns the Redis key of the present version, or "" if there is none. If the Condition
// does not allow a write, it returns ErrCondition.
func (s *Redis) current(ctx context.Context, name string, only Condition) (string, error) {
	v, err := s.lookup(ctx, name)
	if err != nil && err != ErrNotFound {
		return "", err
	}
	if !only.allows(tagOf(v.key)) {
		return "", ErrCondition
	}
	return v.key, nil
}

// Check implements Store.
func (s *Redis) Check(ctx context.Context, key string, only Condition) error {
	if only == nil {
		return nil
	}
	_, err := s.current(ctx, s.name(key), only)
	return err
}

// errLost is the error of a Put whose value was sent to Redis, but had disappeared before it was
// assigned to its key.
var errLost = fmt.Errorf(
	"the value was lost before it got its key: Redis was restarted or has evicted it, or %v went by", pendingFor)

// Put implements Store.
func (s *Redis) Put(ctx context.Context, key string, body io.Reader, size int64,
	put Put) (tag string, created bool, err error) {
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
	created, err = s.commit(ctx, []string{name, pending, version, outcomeKey(version)}, length, put)
	if err != nil && !errors.Is(err, ErrUnsure) {
		s.rdb.Unlink(context.WithoutCancel(ctx), pending) // it would expire anyway
	}
	return tagOf(version), created, err
}

// send receives body, stores it under the Redis key pending, and returns its length in bytes.
func (s *Redis) send(ctx context.Context, pending string, body io.Reader, size int64,
	put Put) (int64, error) {
	src := newSource(body, size, put.Limit)
	var b spool
	defer b.release()
	if err := b.fill(ctx, src, s.blocks); err != nil {
		return 0, src.failure(err)
	}
	if size != unknownSize && b.size != size {
		return 0, fmt.Errorf("%w: %w", ErrBody, io.ErrUnexpectedEOF)
	}
	var err error
	if expire := redisbuf.Expire(pendingFor); b.file != nil {
		err = s.values.SetFile(ctx, pending, b.file, expire)
	} else {
		err = s.values.SetChain(ctx, pending, &b.chain, expire)
	}
	if err != nil {
		return 0, s.failed(err)
	}
	return b.size, nil
}

// A spool holds a body until all of it has been received.
type spool struct {
	// Invariant: the body is either in chain, which has at most spoolMemory+1 bytes, or in file.
	chain millrace.Chain
	file  *os.File // has no name, so that the kernel deletes it when the process ends
	size  int64
}

// fill receives all of src. The caller must call release, even after an error.
func (b *spool) fill(ctx context.Context, src *source, blocks *millrace.Pool) error {
	r := millrace.NewReader(&io.LimitedReader{R: src, N: spoolMemory + 1})
	defer r.Release()
	r.SetPool(blocks)
	n, err := b.chain.ReadFrom(r) // takes ownership of the blocks
	b.size = n
	if err != nil || n <= spoolMemory {
		return err
	}
	if b.file, err = os.CreateTemp("", "millrace-*"); err != nil {
		return roomError(err)
	}
	if err := os.Remove(b.file.Name()); err != nil {
		return err
	}
	if _, err := b.chain.WriteTo(b.file); err != nil {
		return roomError(err)
	}
	n, err = src.copyTo(ctx, b.file, blocks)
	b.size += n
	return roomError(err)
}

// release releases the memory and the file of the spool.
func (b *spool) release() {
	b.chain.Release()
	if b.file != nil {
		_ = b.file.Close()
	}
}

// commit makes the hash name the new version, if put.Only allows that. keys are the hash, the
// pending value, the version, and the outcome.
func (s *Redis) commit(ctx context.Context, keys []string, length int64, put Put) (created bool,
	err error) {
	for {
		expected := anyVersion
		if put.Only != nil {
			if expected, err = s.current(ctx, keys[0], put.Only); err != nil {
				return false, err
			}
		}
		said, err := s.run(ctx, commitScript, keys,
			expected, length, put.TTL.Milliseconds(), s.keep.Milliseconds(),
			rememberedFor.Milliseconds())
		switch {
		case err != nil:
			return false, err
		case said == "lost":
			return false, fmt.Errorf("%w: %w", ErrUnavailable, errLost)
		case said != "changed":
			return said == "created", nil
		}
		// Another writer has changed the key meanwhile, so the condition is checked again.
	}
}

// Delete implements Store.
func (s *Redis) Delete(ctx context.Context, key string, only Condition) error {
	name := s.name(key)
	outcome := outcomeKey(newVersion(name))
	for {
		expected := anyVersion
		if only != nil {
			var err error
			if expected, err = s.current(ctx, name, only); err != nil {
				return err
			}
			if expected == "" {
				return ErrNotFound
			}
		}
		said, err := s.run(ctx, deleteScript, []string{name, outcome},
			expected, s.keep.Milliseconds(), rememberedFor.Milliseconds())
		switch {
		case err != nil:
			return err
		case said == "deleted":
			return nil
		case said == "absent" && only == nil:
			return ErrNotFound
		}
		// Another writer has changed the key meanwhile, so the condition is checked again.
	}
}

// run runs a script and translates its errors into those of a Store.
func (s *Redis) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (string,
	error) {
	answer, err := runScript(ctx, s.rdb, script, keys, args...)
	if err != nil && !errors.Is(err, ErrUnsure) {
		err = s.failed(err)
	}
	return answer, err
}

// failed translates the error of a call that has changed nothing into that of a Store.
func (s *Redis) failed(err error) error {
	var reply redis.Error
	switch {
	case errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "OOM"):
		return ErrFull
	case errors.As(err, &reply) && !isTransient(reply):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
