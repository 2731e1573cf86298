package blob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/redis/go-redis/v9"
)

// anyVersion lets a script replace or delete any value.
const anyVersion = "*"

const (
	// scriptTries limits how many times a script is run to get its answer.
	scriptTries = 4

	// scriptPause is the pause after the first run of a script. It doubles after each further run.
	scriptPause = 10 * time.Millisecond
)

// The scripts use the Redis key in the field "value" of a blob's hash, although this key is not in
// KEYS. This works because the key is in the same slot as the hash, and therefore on the same
// server.
var (
	// lookupScript returns the Redis key of a blob's value, the length of the value, and the
	// milliseconds until it expires (-1: never). If the hash does not exist, or if Redis has
	// evicted the value, it returns nil. KEYS[1] is the blob's hash.
	lookupScript = redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'value', 'length')
if not v[1] or redis.call('EXISTS', v[1]) == 0 then return false end
return {v[1], tonumber(v[2]), redis.call('PTTL', KEYS[1])}`)

	// commitScript gives a blob a new value, which Redis has already received.
	//
	//	KEYS[1]   the blob's hash
	//	KEYS[2]   the new value
	//	KEYS[3]   the new name of KEYS[2], to be stored in the field "value" of the hash
	//	KEYS[4]   for the outcome of the script; see outcomeKey
	//	ARGV[1]   the expected old content of the field "value"
	//	ARGV[2]   the length of the new value in bytes
	//	ARGV[3]   the time to live in ms; 0 means unlimited
	//	ARGV[4]   how long the replaced value is kept, in ms
	//	ARGV[5]   how long the outcome is kept, in ms
	//
	// If the field "value" differs from ARGV[1], the script changes nothing. If ARGV[1] is "", the
	// blob must not exist. anyVersion matches every content.
	commitScript = redis.NewScript(`
local said = redis.call('GET', KEYS[4])
if said then return said end
local now = redis.call('HGET', KEYS[1], 'value')
if now and redis.call('EXISTS', now) == 0 then now = false end
if redis.call('EXISTS', KEYS[2]) == 0 then return 'lost' end
if ARGV[1] ~= '*' and (now or '') ~= ARGV[1] then return 'changed' end
redis.call('RENAME', KEYS[2], KEYS[3])
redis.call('HSET', KEYS[1], 'value', KEYS[3], 'length', ARGV[2])
if ARGV[3] == '0' then
  redis.call('PERSIST', KEYS[3])
  redis.call('PERSIST', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[3], ARGV[3] + ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if now then redis.call('PEXPIRE', now, ARGV[4]) end
local outcome = now and 'replaced' or 'created'
redis.call('SET', KEYS[4], outcome, 'PX', ARGV[5])
return outcome`)

	// deleteScript deletes the hash of a blob. The value expires later, so that reads in progress
	// can finish.
	//
	//	KEYS[1]   the blob's hash
	//	KEYS[2]   for the outcome of the script; see outcomeKey
	//	ARGV[1]   the expected content of the field "value" of the hash
	//	ARGV[2]   how long the deleted value is kept, in ms
	//	ARGV[3]   how long the outcome is kept, in ms
	//
	// If the field "value" differs from ARGV[1], the script changes nothing. anyVersion matches
	// every content.
	deleteScript = redis.NewScript(`
local said = redis.call('GET', KEYS[2])
if said then return said end
local now = redis.call('HGET', KEYS[1], 'value')
if not now or redis.call('EXISTS', now) == 0 then return 'absent' end
if ARGV[1] ~= '*' and now ~= ARGV[1] then return 'changed' end
redis.call('DEL', KEYS[1])
redis.call('PEXPIRE', now, ARGV[2])
redis.call('SET', KEYS[2], 'deleted', 'PX', ARGV[3])
return 'deleted'`)
)

// outcomeKey returns the Redis key under which a script stores its outcome, such as "created". If
// the answer is lost, the next run of the script returns this outcome. version is unique to the
// call.
//
// The outcome is not in the blob's hash, because another writer may replace the hash before the
// next run.
func outcomeKey(version string) string { return version + ":done" }

// runScript runs a script that stores its outcome. If the answer is lost, it runs the script again.
// If no other answer arrives, it returns ErrUnsure.
//
// It does not use the retries of go-redis. If the last of them is refused, go-redis returns only
// the refusal, although an earlier try may have changed the value.
func runScript(ctx context.Context, rdb redis.UniversalClient, script *redis.Script, keys []string,
	args ...any) (string, error) {
	lost, pause := false, scriptPause
	for try := 1; ; try++ {
		answer, err := script.Run(ctx, onceClient{rdb}, keys, args...).Text()
		if err == nil {
			return answer, nil
		}
		lost = lost || !notExecuted(err)
		var reply redis.Error
		final := errors.As(err, &reply) && !isTransient(reply)
		if final || try == scriptTries || !sleep.For(ctx, pause) {
			if lost {
				err = fmt.Errorf("%w: %w", ErrUnsure, err)
			}
			return "", err
		}
		pause *= 2
	}
}

// isTransient reports whether a later try may succeed. For example, while a slot moves to another
// server, this process may not know the new server yet, or only some keys have moved.
func isTransient(err redis.Error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "ASK ") ||
		strings.Contains(text, nonLocal) ||
		redis.IsLoadingError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) || redis.IsReadOnlyError(err)
}

// nonLocal is part of the error of a script if one of its keys is on another server.
const nonLocal = "attempted to access a non local key"

// notExecuted reports whether err proves that the script was not executed.
func notExecuted(err error) bool {
	var reply redis.Error
	var dial *net.OpError
	return errors.As(err, &reply) || errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout)
}

// A onceClient runs scripts without the retries of go-redis.
type onceClient struct{ redis.UniversalClient }

// Eval is like the Eval of go-redis, but does not retry.
func (c onceClient) Eval(ctx context.Context, source string, keys []string,
	args ...any) *redis.Cmd {
	return c.once(ctx, "eval", source, keys, args)
}

// EvalSha is like the EvalSha of go-redis, but does not retry.
func (c onceClient) EvalSha(ctx context.Context, hash string, keys []string,
	args ...any) *redis.Cmd {
	return c.once(ctx, "evalsha", hash, keys, args)
}

func (c onceClient) once(ctx context.Context, name, script string, keys []string,
	args []any) *redis.Cmd {
	words := []any{name, script, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := onceCmd{redis.NewCmd(ctx, append(words, args...)...)}
	_ = c.Process(ctx, cmd) // the error is also in cmd
	return cmd.Cmd
}

// A onceCmd is a command that go-redis does not retry.
type onceCmd struct{ *redis.Cmd }

// NoRetry returns true, so that go-redis does not send the command again.
func (onceCmd) NoRetry() bool { return true }
