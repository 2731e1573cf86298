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
	// MaxRedisValue is the maximum length in bytes of a value in Redis, if the Redis option
	// proto-max-bulk-len has its default value.
	MaxRedisValue = 512 << 20

	// conns is the maximum number of connections to one Redis server that transfer the bytes of
	// values. Scripts and other commands use different connections.
	conns = 32

	// spoolMemory is the maximum length in bytes of a body that is received into memory. A longer
	// body is received into a file.
	spoolMemory = 1 << 20

	// replacedFor is how long a replaced or deleted value is kept in Redis for downloads that still
	// read the value. Each of these downloads extends the time.
	replacedFor = time.Minute

	// pendingFor is how long a received value is kept in Redis until it is assigned to its key. If
	// the server is killed before that, the value expires.
	pendingFor = time.Minute

	// rememberedFor is how long Redis stores the outcome of a script. If the answer of the script
	// is lost, runScript runs the script again, and the script returns the stored outcome. All of
	// these runs together take less time than rememberedFor.
	rememberedFor = time.Minute
)

// A Redis is a Store that uses two Redis keys for each value, in the same slot of a cluster:
//
//	PREFIX{/KEY}            a hash with the fields "value" and "length"
//	PREFIX{/KEY}:VERSION    the bytes of the value
//
// The field "value" contains the second Redis key. The field "length" contains the length of the
// value in bytes.
//
// Two further Redis keys are temporary and expire:
//
//	PREFIX{/KEY}:VERSION:new     a value that is not complete yet
//	PREFIX{/KEY}:VERSION:done    the outcome of a script, in case the script is run again
//
// A version never changes, so the name of the version serves as an entity tag, and the version can
// be read in parts. A new value is a new version. A script switches the hash to the new version in
// one step. Redis keeps the old version for one more minute, for downloads that still read it.
//
// No connection to Redis has to wait for a client. A body is received completely before it is sent
// to Redis. A download requests the next part after the client has received the previous part.
type Redis struct {
	rdb    redis.UniversalClient
	values *redisbuf.Client
	prefix string
	blocks *millrace.Pool
	keep   time.Duration // replacedFor
}

// OpenRedis opens a store in a Redis server or cluster, without connecting to it yet. All Redis
// keys of the store begin with prefix, which must not contain braces. OpenRedis takes ownership of
// rdb, even if it fails. The store takes its transfer buffers from pool. The caller must call Close
// on the store.
func OpenRedis(rdb redis.UniversalClient, prefix string, pool *millrace.Pool) (*Redis, error) {
	if strings.ContainsAny(prefix, "{}") {
		return nil, errors.Join(
			fmt.Errorf("the prefix of keys is %q, and braces have a meaning in keys", prefix),
			rdb.Close())
	}
	// MaxInFlight is so high that it never limits a call. No limit is needed, because each call
	// takes at most spoolMemory bytes of memory.
	values, err := redisbuf.New(rdb, redisbuf.MaxConns(conns), redisbuf.MaxInFlight(conns*MaxRedisValue))
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &Redis{rdb: rdb, values: values, prefix: prefix, blocks: pool, keep: replacedFor}, nil
}

// Close closes all connections to Redis.
func (s *Redis) Close() error { return errors.Join(s.values.Close(), s.rdb.Close()) }

// Ping returns nil if the server answers.
func (s *Redis) Ping(ctx context.Context) error { return s.rdb.Ping(ctx).Err() }

// Stats returns the statistics of the connections that transfer the bytes of values. It does not
// include the connections for scripts and other commands.
func (s *Redis) Stats() redisbuf.Stats { return s.values.Stats() }

// hashKey returns the Redis key of a blob's hash. All other Redis keys of the blob begin with this
// key. All these keys are in the same slot of a cluster, because Redis computes the slot only from
// the part in braces.
func (s *Redis) hashKey(key string) string { return s.prefix + "{/" + key + "}" }

// newVersion returns a unique Redis key for a new value of a blob. The key begins with hashKey, the
// Redis key of the blob's hash.
func newVersion(hashKey string) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return hashKey + ":" + hex.EncodeToString(random[:])
}

// tagOf returns the entity tag of the version with the given Redis key, or "" for "".
func tagOf(key string) string {
	if key == "" {
		return ""
	}
	return `"` + key[strings.LastIndexByte(key, ':')+1:] + `"`
}

type version struct {
	key  string
	size int64
	left time.Duration // time until the version expires; 0 if it does not expire
}

// lookup returns the current version of a blob, or ErrNotFound.
func (s *Redis) lookup(ctx context.Context, hashKey string) (version, error) {
	reply, err := lookupScript.Run(ctx, s.rdb, []string{hashKey}).Slice()
	switch {
	case err == redis.Nil:
		return version{}, ErrNotFound
	case err != nil:
		return version{}, s.storeError(err)
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
	case left == 0: // less than a millisecond is left, and 0 would mean forever
		left = 1
	}
	return version{key: key, size: size, left: time.Duration(left) * time.Millisecond}, nil
}

// Open returns the value of key. The bytes of the value are read from Redis only when the caller
// reads the Value. If key has no value, Open returns ErrNotFound.
func (s *Redis) Open(ctx context.Context, key string) (*Value, error) {
	v, err := s.lookup(ctx, s.hashKey(key))
	if err != nil {
		return nil, err
	}
	return &Value{Tag: tagOf(v.key), TTL: v.left, Content: s.content(ctx, v), blocks: s.blocks}, nil
}

// A contentReader reads a blob from Redis. It is used as Value.Content.
type contentReader struct {
	*io.SectionReader
	io.Closer
}

func (s *Redis) content(ctx context.Context, v version) contentReader {
	r := &versionReader{store: s, key: v.key, prolonged: time.Now()}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return contentReader{io.NewSectionReader(r, 0, v.size), r}
}

// A versionReader reads one version of a value from Redis. If the value is replaced or deleted
// during the download, the reads postpone the expiry of the old version.
type versionReader struct {
	store  *Redis
	key    string
	ctx    context.Context // canceled by Close
	cancel context.CancelFunc

	mu        lock.Mutex // held during a call to Redis
	prolonged time.Time
}

var errGone = fmt.Errorf("the value is not there any more: %w", io.ErrUnexpectedEOF)

// ReadAt reads bytes of the value from Redis, from the offset off. If the value has disappeared
// from Redis, it returns errGone.
func (v *versionReader) ReadAt(p []byte, off int64) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.ctx.Err(); err != nil {
		return 0, err
	}
	if keep := v.store.keep; time.Since(v.prolonged) > keep/4 {
		// With GT, PEXPIRE does not affect a version that never expires. If the command fails, the
		// read fails as well.
		v.store.rdb.Do(v.ctx, "PEXPIRE", v.key, keep.Milliseconds(), "GT")
		v.prolonged = time.Now()
	}
	n, err := v.store.values.GetRangeToBuffer(v.ctx, v.key, off, p)
	if err == nil && n < len(p) {
		err = errGone
	}
	return n, err
}

// Close makes further calls to ReadAt fail, and waits for a running ReadAt. The wait is necessary
// because for a response with several ranges, net/http reads in a goroutine that may outlive the
// response.
func (v *versionReader) Close() error {
	v.cancel()
	v.mu.Lock()
	defer v.mu.Unlock()
	return nil
}

// current returns the Redis key of a blob's current version, or "" if the blob does not exist. If
// cond does not hold, it returns ErrCondition.
func (s *Redis) current(ctx context.Context, hashKey string, cond Condition) (string, error) {
	v, err := s.lookup(ctx, hashKey)
	if err != nil && err != ErrNotFound {
		return "", err
	}
	if !cond.allows(tagOf(v.key)) {
		return "", ErrCondition
	}
	return v.key, nil
}

// Check returns ErrCondition if cond does not hold for the present value of key.
func (s *Redis) Check(ctx context.Context, key string, cond Condition) error {
	if cond == nil {
		return nil
	}
	_, err := s.current(ctx, s.hashKey(key), cond)
	return err
}

var errLost = fmt.Errorf(
	"the value was lost before it got its key: Redis was restarted or has evicted it, or %v went by", pendingFor)

// Put stores a value under key in Redis. It first sends the value, and then replaces the previous
// value of key if the write condition put.Only holds. See [Store].
func (s *Redis) Put(ctx context.Context, key string, body io.Reader, size int64,
	put Put) (tag string, created bool, err error) {
	if size > put.Limit {
		return "", false, &TooLargeError{put.Limit}
	}
	hashKey := s.hashKey(key)
	version := newVersion(hashKey)
	pending := version + ":new"
	length, err := s.send(ctx, pending, body, size, put)
	if err != nil {
		return "", false, err
	}
	keys := []string{hashKey, pending, version, outcomeKey(version)}
	created, err = s.commit(ctx, keys, length, put)
	if err != nil && !errors.Is(err, ErrUnsure) {
		s.rdb.Unlink(context.WithoutCancel(ctx), pending) // it would expire anyway
	}
	return tagOf(version), created, err
}

// send receives a body and stores it in Redis under key. It returns the body's length in bytes.
func (s *Redis) send(ctx context.Context, key string, body io.Reader, size int64,
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
		err = s.values.SetFile(ctx, key, b.file, expire)
	} else {
		err = s.values.SetChain(ctx, key, &b.chain, expire)
	}
	if err != nil {
		return 0, s.storeError(err)
	}
	return b.size, nil
}

// A spool stores a received body in memory or in a file, before it is sent to Redis.
type spool struct {
	// Invariant: the body is either in chain, which has at most spoolMemory+1 bytes, or in file.
	chain millrace.Chain
	file  *os.File // has no name, so that the kernel deletes it when the process ends
	size  int64
}

// fill receives the complete body from src. The caller must call release, even after an error.
func (b *spool) fill(ctx context.Context, src *source, blocks *millrace.Pool) error {
	r := millrace.NewReader(&io.LimitedReader{R: src, N: spoolMemory + 1})
	defer r.Release()
	r.SetPool(blocks)
	n, err := b.chain.ReadFrom(r) // r gives its blocks to the chain
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

func (b *spool) release() {
	b.chain.Release()
	if b.file != nil {
		_ = b.file.Close()
	}
}

// commit replaces the current value of a blob with a value that Redis has received. It returns true
// if the blob did not exist before. If the write condition put.Only does not hold, it returns
// ErrCondition. The argument length is the length of the new value in bytes, and keys are the KEYS
// of commitScript.
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
		// Another writer has changed the blob since the check of the condition, so the check is
		// repeated.
	}
}

// Delete deletes the value of key. If cond does not hold, it returns ErrCondition. If key has no
// value, it returns ErrNotFound.
func (s *Redis) Delete(ctx context.Context, key string, cond Condition) error {
	hashKey := s.hashKey(key)
	outcome := outcomeKey(newVersion(hashKey))
	for {
		expected := anyVersion
		if cond != nil {
			var err error
			if expected, err = s.current(ctx, hashKey, cond); err != nil {
				return err
			}
			if expected == "" {
				return ErrNotFound
			}
		}
		said, err := s.run(ctx, deleteScript, []string{hashKey, outcome},
			expected, s.keep.Milliseconds(), rememberedFor.Milliseconds())
		switch {
		case err != nil:
			return err
		case said == "deleted":
			return nil
		case said == "absent" && cond == nil:
			return ErrNotFound
		}
		// Another writer has changed the blob since the check of the condition, so the check is
		// repeated.
	}
}

// run executes a script, and returns the script's answer. The error is one that the methods of a
// Store return, such as ErrUnavailable.
func (s *Redis) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (string,
	error) {
	answer, err := runScript(ctx, s.rdb, script, keys, args...)
	if err != nil && !errors.Is(err, ErrUnsure) {
		err = s.storeError(err)
	}
	return answer, err
}

// storeError converts a Redis error to an error that the methods of a Store return, such as ErrFull
// or ErrUnavailable. These two errors mean that the call to Redis has changed nothing. The caller
// must not use storeError if the call may have changed a blob.
func (s *Redis) storeError(err error) error {
	var reply redis.Error
	switch {
	case errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "OOM"):
		return ErrFull
	case errors.As(err, &reply) && !isTransient(reply):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
