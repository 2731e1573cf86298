package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/redisbuf"
	"github.com/redis/go-redis/v9"
)

// redisStore is a store in Redis. It has a key for each object and for the state of each stream:
//
//	PREFIX{STREAM}OBJECT   the bytes of the object
//	PREFIX{STREAM}hls      a hash with the fields "epoch" and "facts" (the state)
//
// All keys expire. Their names must not change, because nodes of different versions share them.
type redisStore struct {
	rdb    redis.UniversalClient
	values *redisbuf.Client
	prefix string
	keep   time.Duration
}

func openRedisStore(cfg RedisConfig, keep time.Duration) (*redisStore, error) {
	rdb, err := cfg.openClient()
	if err != nil {
		return nil, err
	}
	values, err := redisbuf.New(rdb)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return &redisStore{rdb, values, cfg.Prefix, keep}, nil
}

func (s *redisStore) key(stream, object string) string {
	return s.prefix + "{" + stream + "}" + object
}

func (s *redisStore) set(ctx context.Context, stream, object string, body *millrace.Chain) error {
	return s.values.SetChain(ctx, s.key(stream, object), body, redisbuf.Expire(s.keep))
}

const (
	// stateName is the last part of the Redis key for the playlist state of a stream. An HLS object
	// cannot have the same key, because the names of objects end with ".mp4" or ".m4s".
	stateName  = "hls"
	stateField = "facts"
)

// stateScript stores the playlist state of a stream, unless the stored state has a later epoch.
//
//	KEYS[1]   the key of the state
//	ARGV[1]   the epoch
//	ARGV[2]   the state
//	ARGV[3]   the time until the key expires, in ms
//	ARGV[4]   the field of the hash that holds the state
var stateScript = redis.NewScript(`
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], ARGV[4], ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[3])`)

func (s *redisStore) setState(ctx context.Context, stream string, epoch uint64,
	state []byte) error {
	return stateScript.Run(ctx, s.rdb, []string{s.key(stream, stateName)}, epoch, state,
		s.keep.Milliseconds(), stateField).Err()
}

func (s *redisStore) get(ctx context.Context, stream, object string, dst *millrace.Chain,
	limit int) (found bool, err error) {
	err = s.values.GetChain(ctx, s.key(stream, object), dst, limit)
	if err == redis.Nil {
		return false, nil
	}
	return err == nil, err
}

func (s *redisStore) state(ctx context.Context, stream string) ([]byte, error) {
	state, err := s.rdb.HGet(ctx, s.key(stream, stateName), stateField).Bytes()
	if err == redis.Nil {
		return nil, nil
	}
	return state, err
}

func (s *redisStore) close() error { return errors.Join(s.values.Close(), s.rdb.Close()) }
