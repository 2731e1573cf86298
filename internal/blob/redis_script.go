package blob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// anyVersion is what a script is told to expect when it does not matter what it finds.
const anyVersion = "*"

const (
	// scriptTries is how often a script is run until an answer comes. A connection that was cut is made anew at once; a
	// client that has waited longer than this takes should be told.
	scriptTries = 4

	// scriptPause is waited before the second try, and doubled after each further one.
	scriptPause = 10 * time.Millisecond
)

// The scripts name keys that are not among KEYS: those of versions, which the hash names. They are in the same slot, so
// that the server that runs the script has them.
var (
	// lookupScript returns the version that KEYS[1] names, how long it is, and for how many milliseconds it is there (-1: for
	// ever). A version that is not there, because Redis has evicted it, is none.
	lookupScript = redis.NewScript(`
local v = redis.call('HMGET', KEYS[1], 'value', 'length')
if not v[1] or redis.call('EXISTS', v[1]) == 0 then return false end
return {v[1], tonumber(v[2]), redis.call('PTTL', KEYS[1])}`)

	// commitScript has KEYS[1] name the version KEYS[3], whose value is in KEYS[2], if it names ARGV[1] so far. ARGV[2] is the
	// length, ARGV[3] the time to live (0: for ever) and ARGV[4] how long the old version is kept, both in milliseconds.
	// KEYS[4] remembers for ARGV[5] milliseconds that it was done.
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

	// deleteScript deletes KEYS[1] if it names ARGV[1], and has its version go after ARGV[2] milliseconds. KEYS[2] remembers
	// for ARGV[3] milliseconds that it was done.
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

// memoryOf returns the key under which a script remembers what it has said about a version, which is its caller's alone.
// It is a key of its own, and no field of the hash, because somebody else may write the hash between two tries.
func memoryOf(version string) string { return version + ":done" }

// run has Redis run a script that changes something and remembers that, and returns its answer. If the answer is lost,
// run asks for it again. A client's own tries would hide that there was one whose answer was lost: then a last one that
// was refused (LOADING, no connection) would look as if nothing had been done.
func (s *Redis) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (string, error) {
	lost, pause := false, scriptPause
	for try := 1; ; try++ {
		answer, err := script.Run(ctx, onceClient{s.rdb}, keys, args...).Text()
		if err == nil {
			return answer, nil
		}
		lost = lost || !undone(err)
		var reply redis.Error
		final := errors.As(err, &reply) && !passes(reply)
		if final || try == scriptTries || !rest(ctx, pause) {
			if lost {
				return "", fmt.Errorf("%w: %w", ErrUnsure, err)
			}
			return "", s.failed(err)
		}
		pause *= 2
	}
}

// rest waits, and reports whether ctx has not ended.
func rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// undone reports whether the error of a try says that the try has changed nothing.
func undone(err error) bool {
	var reply redis.Error
	var dial *net.OpError
	return errors.As(err, &reply) || errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout)
}

// A onceClient sends a script's command once: what go-redis would do again comes back as an error.
type onceClient struct{ redis.UniversalClient }

// Eval implements redis.Scripter.
func (c onceClient) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	return c.once(ctx, "eval", source, keys, args)
}

// EvalSha implements redis.Scripter.
func (c onceClient) EvalSha(ctx context.Context, hash string, keys []string, args ...any) *redis.Cmd {
	return c.once(ctx, "evalsha", hash, keys, args)
}

func (c onceClient) once(ctx context.Context, name, script string, keys []string, args []any) *redis.Cmd {
	words := []any{name, script, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := onceCmd{redis.NewCmd(ctx, append(words, args...)...)}
	_ = c.Process(ctx, cmd) // cmd has the error as well
	return cmd.Cmd
}

// A onceCmd is not to be retried.
type onceCmd struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (onceCmd) NoRetry() bool { return true }
