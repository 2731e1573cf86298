package blob

import "github.com/redis/go-redis/v9"

// anyVersion is what a script is told to expect where it may find whatever there is.
const anyVersion = "*"

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
	// length, ARGV[3] the time to live (0: for ever) and ARGV[4] how long the old version is kept, both in milliseconds. Run
	// again, because its answer was lost, it does nothing: KEYS[2] is gone.
	commitScript = redis.NewScript(`
local now = redis.call('HGET', KEYS[1], 'value')
if now and redis.call('EXISTS', now) == 0 then now = false end
if redis.call('EXISTS', KEYS[2]) == 0 then
  if redis.call('EXISTS', KEYS[3]) == 1 then return 'again' end
  return 'lost'
end
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
if not now then return 'created' end
redis.call('PEXPIRE', now, ARGV[4])
return 'replaced'`)

	// deleteScript deletes KEYS[1] if it names ARGV[1], and has its version go after ARGV[2] milliseconds.
	deleteScript = redis.NewScript(`
local now = redis.call('HGET', KEYS[1], 'value')
if not now or redis.call('EXISTS', now) == 0 then return 'absent' end
if ARGV[1] ~= '*' and now ~= ARGV[1] then return 'changed' end
redis.call('DEL', KEYS[1])
redis.call('PEXPIRE', now, ARGV[2])
return 'deleted'`)
)
