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

// anyVersion makes a script replace or delete any value.
const anyVersion = "*"

const (
	// scriptTries is the maximum number of times that a script is run to get its answer.
	scriptTries = 4

	// scriptPause is the pause before the second run. It doubles before each further run.
	scriptPause = 10 * time.Millisecond
)

// Each blob has a hash in Redis. The field "value" contains the Redis key of the blob's value, and
// the field "length" contains the length of the value in bytes.
//
// The scripts use the Redis key in the field "value", although this key is not in KEYS. This works
// because the key is in the same slot as the hash, and therefore on the same server.
var (
	// lookupScript looks up a blob. KEYS[1] is the key of the Redis hash that describes the blob.
	// The script returns the Redis key of the blob's value, the length of the value, and the
	// milliseconds until the blob expires (-1: never). If the Redis hash does not exist, or if
	// Redis has evicted the value, the script returns nil.
	lookupScript = redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'value', 'length')
if not v[1] or redis.call('EXISTS', v[1]) == 0 then return false end
return {v[1], tonumber(v[2]), redis.call('PTTL', KEYS[1])}`)

	// commitScript gives a blob a new value, which Redis has already received. The script renames
	// the Redis key of the new value, and stores the new name in the blob's hash.
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
	// If the content of the field "value" differs from ARGV[1], the script changes nothing. If
	// ARGV[1] is "", the blob must not exist. If ARGV[1] is anyVersion, the script does not check
	// the field.
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

	// deleteScript deletes the hash of a blob. The blob's value expires later, so that reads in
	// progress can finish.
	//
	//	KEYS[1]   the blob's hash
	//	KEYS[2]   for the outcome of the script; see outcomeKey
	//	ARGV[1]   the expected content of the field "value" of the hash
	//	ARGV[2]   how long the deleted value is kept, in ms
	//	ARGV[3]   how long the outcome is kept, in ms
	//
	// If the content of the field "value" differs from ARGV[1], the script changes nothing. If
	// ARGV[1] is anyVersion, the script does not check the field.
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
// the answer of the script is lost and the script is run again, the script finds and returns the
// stored outcome. The argument version is a Redis key that is unique to the call.
//
// The outcome is not stored in the Redis hash that describes the blob, because another writer may
// replace this hash before the script is run again.
func outcomeKey(version string) string { return version + ":done" }

// runScript runs a script, and returns the script's answer. The script must store its outcome, so
// that runScript can run the script again if an answer is lost. If an answer is lost and all
// further tries fail, runScript returns ErrUnsure.
//
// runScript does not use the retries of go-redis, because they hide lost answers: if the last try
// is refused, go-redis returns only this refusal, although an earlier try may have changed the
// value.
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

// isTransient reports whether a later try may succeed after the error err. A try may fail, for
// example, while a slot moves to another server: this process may not know the new server yet, or
// only some of a value's keys have moved.
func isTransient(err redis.Error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "ASK ") ||
		strings.Contains(text, nonLocal) ||
		redis.IsLoadingError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) || redis.IsReadOnlyError(err)
}

// nonLocal is part of the error message that Redis returns for a script if one of the script's keys
// is on another server of the cluster.
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
