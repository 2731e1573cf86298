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

// anyVersion is the argument of a script that accepts every present version.
const anyVersion = "*"

const (
	// scriptTries is the maximum number of times that a script is run to get an answer.
	scriptTries = 4

	// scriptPause is the pause before the second try. The pause doubles before each further try.
	scriptPause = 10 * time.Millisecond
)

// The scripts use the key of the version that the hash names, although that key is not among KEYS.
// They can, because that key is in the same slot as the hash, and so on the same server.
var (
	// lookupScript returns the version that KEYS[1] names, its length, and the milliseconds until
	// it expires (-1: never). It returns nil if there is no version, or if Redis has evicted it.
	lookupScript = redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'value', 'length')
if not v[1] or redis.call('EXISTS', v[1]) == 0 then return false end
return {v[1], tonumber(v[2]), redis.call('PTTL', KEYS[1])}`)

	// commitScript assigns a received value to its key. If KEYS[1] still names ARGV[1], or ARGV[1]
	// is anyVersion, it moves the value from KEYS[2] to the version KEYS[3], and makes KEYS[1] name
	// that version. ARGV[2] is the length in bytes. ARGV[3] is the time to live (0: unlimited), and
	// ARGV[4] is how long the old version is kept, both in milliseconds. KEYS[4] remembers the
	// outcome for ARGV[5] milliseconds.
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

	// deleteScript deletes KEYS[1] if it names ARGV[1], or if ARGV[1] is anyVersion. It then lets
	// the version expire after ARGV[2] milliseconds. KEYS[2] remembers the outcome for ARGV[3]
	// milliseconds.
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

// outcomeKey returns the Redis key under which a script stores its outcome, for a retry of the
// script. version is unique to the call. The outcome has a separate key, because another writer may
// replace the hash of the blob before the retry.
func outcomeKey(version string) string { return version + ":done" }

// runScript runs a script that remembers its outcome, and returns the answer. If the answer gets
// lost, runScript runs the script again. If then no answer comes either, it returns ErrUnsure. It
// does not leave the retries to go-redis, because go-redis does not report that an answer was lost.
// If its last try was refused (LOADING, no connection), it would look as if nothing had been done.
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

// isTransient reports whether a later try may succeed. For example, tries fail while a slot moves
// to another server, because this process does not know the new server yet, or because only some of
// a value's keys have moved.
func isTransient(err redis.Error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "ASK ") ||
		strings.Contains(text, nonLocal) ||
		redis.IsLoadingError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) || redis.IsReadOnlyError(err)
}

// nonLocal is part of the error of a script that uses a key which has moved to another server.
const nonLocal = "attempted to access a non local key"

// notExecuted reports whether an error proves that the try has changed nothing.
func notExecuted(err error) bool {
	var reply redis.Error
	var dial *net.OpError
	return errors.As(err, &reply) || errors.As(err, &dial) && dial.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout)
}

// A onceClient sends the command of a script only once, without the retries of go-redis.
type onceClient struct{ redis.UniversalClient }

// Eval implements redis.Scripter.
func (c onceClient) Eval(ctx context.Context, source string, keys []string,
	args ...any) *redis.Cmd {
	return c.once(ctx, "eval", source, keys, args)
}

// EvalSha implements redis.Scripter.
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
	_ = c.Process(ctx, cmd) // cmd holds the error as well
	return cmd.Cmd
}

// A onceCmd is a command that go-redis does not retry.
type onceCmd struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (onceCmd) NoRetry() bool { return true }
