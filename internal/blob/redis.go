package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/redisbuf"
	"github.com/redis/go-redis/v9"
)

const (
	// MaxRedisValue is the longest value that Redis takes, unless its proto-max-bulk-len is changed.
	MaxRedisValue = 512 << 20

	// conns is how many connections carry values to and from a server at most.
	conns = 32

	// straight is how many downloads, and how many uploads, may have a connection to Redis for as long as their client
	// takes for a piece, or for all that it sends. It leaves connections to all others, which use one only for a moment at
	// a time, and bounds what Redis holds for slow clients.
	straight = 12

	// replacedFor is how long a value that was replaced or deleted is kept, for downloads that are under way. Each of
	// those prolongs it while it goes on.
	replacedFor = time.Minute

	// pendingFor is how long a value is kept that has arrived but was never given its key, because the server was
	// killed.
	pendingFor = time.Minute

	// rememberedFor is how long Redis knows what a script has said, for those whose answer was lost: longer than all tries
	// take.
	rememberedFor = time.Minute
)

// A Redis is a Store that has two keys for each value, in the same slot of a cluster:
//
//	PREFIX{/KEY}            a hash: value, the name of the key below, and length
//	PREFIX{/KEY}:VERSION    the value, as it is
//
// and two more that expire: PREFIX{/KEY}:VERSION:new, while a value comes, and PREFIX{/KEY}:VERSION:done, see memoryOf.
// A version never changes, so it can serve as an entity tag, and can be read in parts. A new value is a new version,
// which the hash names from one moment to the next; the old one stays for replacedFor.
type Redis struct {
	rdb    redis.UniversalClient
	values *redisbuf.Client
	prefix string
	keep   time.Duration // replacedFor

	reading, writing chan struct{} // as many as are straight
	spliced, copied  atomic.Int64  // bytes sent
}

// OpenRedis opens the store in a Redis server or cluster, among keys that begin with prefix, which has no braces. It takes
// ownership of rdb. Nothing is asked of the server yet. The call that ends the store's life is Close.
func OpenRedis(rdb redis.UniversalClient, prefix string) (*Redis, error) {
	if strings.ContainsAny(prefix, "{}") {
		return nil, errors.Join(fmt.Errorf("the prefix of keys is %q, and braces have a meaning in keys", prefix), rdb.Close())
	}
	// What is in flight takes no memory here but a window or a spool each: the connections bound it.
	values, err := redisbuf.New(rdb, redisbuf.Conns(conns), redisbuf.InFlight(conns*MaxRedisValue))
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &Redis{
		rdb: rdb, values: values, prefix: prefix, keep: replacedFor,
		reading: make(chan struct{}, straight), writing: make(chan struct{}, straight),
	}, nil
}

// Close implements Store.
func (s *Redis) Close() error { return errors.Join(s.values.Close(), s.rdb.Close()) }

// Ping returns nil if the server answers.
func (s *Redis) Ping(ctx context.Context) error { return s.rdb.Ping(ctx).Err() }

// Stats says what the connections that carry values are doing.
func (s *Redis) Stats() redisbuf.Stats { return s.values.Stats() }

// Sent implements Store.
func (s *Redis) Sent() chunk.Report {
	r := chunk.Report{Splice: s.spliced.Load(), Copied: s.copied.Load()}
	r.Bytes = r.Splice + r.Copied
	return r
}

// name returns the Redis key of the hash. What is in braces decides the slot: it is never empty, and it is the same for
// all keys of a value, which begin with this one.
func (s *Redis) name(key string) string { return s.prefix + "{/" + key + "}" }

// newVersion returns the name of a version that has never existed.
func newVersion(name string) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // which never fails
	return name + ":" + hex.EncodeToString(random[:])
}

// tagOf returns the entity tag of a version, "" if there is none.
func tagOf(version string) string {
	if version == "" {
		return ""
	}
	return `"` + version[strings.LastIndexByte(version, ':')+1:] + `"`
}

// A version is the value that a key has at present.
type version struct {
	key  string // of Redis
	size int64
	left time.Duration // until it expires; 0: it does not
}

// lookup returns the present version, or ErrNotFound.
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
	case left == 0: // less than a millisecond, and not for ever
		left = 1
	}
	return version{key: key, size: size, left: time.Duration(left) * time.Millisecond}, nil
}

// current returns the present version's key if only allows a write, "" if there is none.
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

// Delete implements Store.
func (s *Redis) Delete(ctx context.Context, key string, only Condition) error {
	name := s.name(key)
	memory := memoryOf(newVersion(name))
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
		outcome, err := s.run(ctx, deleteScript, []string{name, memory},
			expected, s.keep.Milliseconds(), rememberedFor.Milliseconds())
		switch {
		case err != nil:
			return err
		case outcome == "deleted":
			return nil
		case outcome == "absent" && only == nil:
			return ErrNotFound
		}
		// Somebody else was quicker, so the condition has to be checked again.
	}
}

// failed returns what the error of a call means if the call has changed nothing.
func (s *Redis) failed(err error) error {
	var reply redis.Error
	switch {
	case errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "OOM"):
		return ErrFull
	case errors.As(err, &reply) && !passes(reply):
		return err
	}
	return &UnavailableError{err}
}

// passes reports whether a server's error is a transient one. A slot that moves to another server causes one: what is
// at fault is what this process knows of the cluster, or that half of a value's keys are there.
func passes(err redis.Error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "ASK ") || strings.Contains(text, nonLocal) ||
		redis.IsLoadingError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) || redis.IsReadOnlyError(err)
}

// nonLocal is what is said to a script that finds a key gone to another server while its slot moves.
const nonLocal = "attempted to access a non local key"
