package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/redisurl"
	"github.com/redis/go-redis/v9"
)

// epochKept is how long Redis keeps the epoch of a stream after the stream has lost its owner.
//
// A process that was suspended may try to renew an ownership that has ended. Renew rejects the
// attempt only while Redis still has the epoch of the stream. epochKept is therefore longer than
// any command takes, and longer than a process is usually suspended.
const epochKept = time.Hour

// A Redis is a Directory in a Redis or Valkey server, or in a cluster of such servers. Each stream
// has one key, PREFIX{STREAM}owner. The value of the key is a hash with these fields:
//
//	epoch   the epoch of the present or last ownership of the stream
//	node    the address of the owner; absent if the owner has given up the stream
//	until   the end of the lease
//	heard   when the publisher last sent something
//	away    1 if the stream has no publisher at present
//	claim   the ID of the claim
//
// The times are in milliseconds, by the clock of the Redis server. Events are published in the
// channel PREFIXevents.
//
// If a key is missing, Renew assumes that Redis has lost its data, and restores the ownership of
// the calling node. The key outlives the lease by epochKept, so that a node that was replaced
// cannot restore its ownership.
//
// Each script uses only one key. A Redis Cluster cannot run a script with several keys while it
// moves their hash slot.
type Redis struct {
	rdb     redis.UniversalClient
	prefix  string
	lease   time.Duration
	channel string
	sharded atomic.Bool // see errSharded
}

// errSharded means that the address is for a single server, but the server is a node of a Redis
// Cluster. Such a node would answer only for some of the streams.
var errSharded = errors.New(
	"the server is a node of a Redis Cluster: its address must begin with redis+cluster:// or rediss+cluster://")

// A RedisConfig configures the connections to a Redis, and the keys in it.
type RedisConfig struct {
	Address  string // a URL; see [redisurl.Parse]
	Password string // used if Address has no password
	Prefix   string // the start of the Redis keys
	// Lease is the duration of the cluster's leases. The timeouts for Redis are a quarter of this
	// duration.
	Lease time.Duration
	Dial  live.Dial // connects to Redis; nil: a net.Dialer
}

// OpenRedis returns a Directory in Redis. It does not connect yet. The caller must call Close.
func OpenRedis(cfg RedisConfig) (*Redis, error) {
	if strings.ContainsAny(cfg.Prefix, "{} ") {
		return nil, fmt.Errorf("the prefix of keys is %q, and braces have a meaning in keys",
			cfg.Prefix)
	}
	rdb, err := cfg.openClient()
	if err != nil {
		return nil, err
	}
	return &Redis{rdb: rdb, prefix: cfg.Prefix, lease: cfg.Lease,
		channel: cfg.Prefix + "events"}, nil
}

func (c *RedisConfig) openClient() (redis.UniversalClient, error) {
	opt, err := redisurl.Parse(c.Address, c.Password)
	if err != nil {
		return nil, err
	}
	opt.Dialer = c.Dial
	most := attemptTime(c.Lease) // the context of a caller has the same limit
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout, opt.ContextTimeoutEnabled = most, most,
		most, true
	return redis.NewUniversalClient(opt), nil
}

// Close closes the connections to Redis.
func (d *Redis) Close() error { return d.rdb.Close() }

func (d *Redis) key(stream string) string { return d.prefix + "{" + stream + "}owner" }

// scriptTime contains the first lines of each Lua script. They read the clock of the Redis server
// into two variables: `t` (seconds and microseconds) and `now` (milliseconds).
const scriptTime = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)`

var (
	// claimScript makes a node the owner of a stream, and returns the epoch of the ownership. If
	// another node owns the stream and the claim does not replace that node, the script returns the
	// epoch of that node's ownership and the address of that node instead.
	//
	//	KEYS[1]   the key of the stream
	//	ARGV[1]   the address of the node
	//	ARGV[2]   the greatest epoch of the stream that the node knows
	//	ARGV[3]   the Takeover of the claim: "always", "stalled" or "never"
	//	ARGV[4]   the silence after which a publisher counts as stalled, in ms
	//	ARGV[5]   the duration of the lease, in ms
	//	ARGV[6]   how long the key outlives the lease, in ms
	//	ARGV[7]   the channel for events
	//	ARGV[8]   the name of the stream
	//	ARGV[9]   the ID of the claim, or empty
	//
	// If the claim was granted before, the script returns the same epoch. This matters because a
	// client may give up on a claim and repeat it, and the server may run both, in any order.
	//
	// The script formats the epoch with %.0f, because Lua would print only its first 14 digits.
	claimScript = redis.NewScript(scriptTime + `
local o = redis.call('HMGET', KEYS[1], 'epoch', 'node', 'until', 'heard', 'away', 'claim')
if ARGV[9] ~= '' and o[6] == ARGV[9] then return {o[1]} end
if o[2] and o[2] ~= ARGV[1] and tonumber(o[3]) > now and o[5] ~= '1' and
  (ARGV[3] == 'never' or ARGV[3] == 'stalled' and now - o[4] < tonumber(ARGV[4])) then
  return {o[1], o[2]}
end
local epoch = string.format('%.0f', math.max(t[1] * 1000000 + t[2], (o[1] or 0) + 1, ARGV[2] + 1))
redis.call('HSET', KEYS[1], 'epoch', epoch, 'node', ARGV[1], 'until', now + ARGV[5], 'heard', now, 'away', 0, 'claim', ARGV[9])
redis.call('PEXPIRE', KEYS[1], ARGV[5] + ARGV[6])
redis.call('PUBLISH', ARGV[7], ARGV[1] .. ' ' .. epoch .. ' ' .. ARGV[8])
return {epoch}`)

	// renewScript renews or restores a node's ownership of a stream, and returns 1. It returns 0 if
	// the ownership has ended, because it was given up or because there was a later ownership.
	//
	//	KEYS[1]   the key of the stream
	//	ARGV[1]   the address of the node
	//	ARGV[2]   the epoch of the ownership
	//	ARGV[3]   how long the publisher has been silent, in ms
	//	ARGV[4]   1 if the stream has no publisher at present
	//	ARGV[5]   the duration of the lease, in ms
	//	ARGV[6]   how long the key outlives the lease, in ms
	//	ARGV[7]   the channel for events
	//	ARGV[8]   the name of the stream
	//	ARGV[9]   1 to give up the stream instead of renewing the ownership
	renewScript = redis.NewScript(scriptTime + `
local o = redis.call('HMGET', KEYS[1], 'epoch', 'node')
local stored, mine = tonumber(o[1] or 0), tonumber(ARGV[2])
if stored > mine or stored == mine and o[2] ~= ARGV[1] then return 0 end
if ARGV[9] == '1' then
  if stored == mine then
    redis.call('HDEL', KEYS[1], 'node')
    redis.call('PUBLISH', ARGV[7], ARGV[1] .. ' 0 ' .. ARGV[8])
  end
  return 1
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'node', ARGV[1],
  'until', now + ARGV[5], 'heard', now - ARGV[3], 'away', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5] + ARGV[6])
if stored < mine then redis.call('PUBLISH', ARGV[7], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[8]) end
return 1`)

	// lookupScript returns the epoch of the ownership of a stream and the address of the owner, or
	// an empty list if the stream has no owner. KEYS[1] is the key of the stream.
	lookupScript = redis.NewScript(scriptTime + `
local o = redis.call('HMGET', KEYS[1], 'epoch', 'node', 'until')
if o[2] and tonumber(o[3]) > now then return {o[1], o[2]} end
return {}`)
)

// checkError must be called with the result err of every Redis command. It returns the error for
// the caller. If err shows that the server belongs to a Redis Cluster, but the address is for a
// single server, the returned error is errSharded. Otherwise it is err.
//
// If a Redis Cluster has sent no reply, another master may have the hash slot now. checkError then
// makes go-redis reload its table of slots at once. Otherwise go-redis could take up to a minute.
func (d *Redis) checkError(ctx context.Context, err error) error {
	var reply redis.Error
	switch c, ok := d.rdb.(*redis.ClusterClient); {
	case ok && err != nil && !errors.As(err, &reply):
		c.ReloadState(ctx)
	case !ok && redis.HasErrorPrefix(err, "MOVED"):
		d.sharded.Store(true)
		return errSharded
	}
	return err
}

// Claim makes c.Node the owner of a stream, and returns the epoch of the ownership; see
// [Directory].
func (d *Redis) Claim(ctx context.Context, c Claim) (uint64, error) {
	if d.sharded.Load() {
		return 0, errSharded
	}
	reply, err := claimScript.Run(ctx, d.rdb, []string{d.key(c.Stream)}, c.Node, c.Seen,
		string(c.Takeover),
		live.StalledAfter.Milliseconds(), d.lease.Milliseconds(), epochKept.Milliseconds(),
		d.channel, c.Stream, c.ID).StringSlice()
	if err != nil {
		return 0, d.checkError(ctx, err)
	}
	o, err := parseOwner(reply)
	if err == nil && o.Node != "" {
		err = &TakenError{o}
	}
	return o.Epoch, err
}

// parseOwner parses a reply of claimScript or lookupScript. The reply consists of an epoch and, in
// some cases, the address of the owner.
func parseOwner(reply []string) (o Owner, err error) {
	if len(reply) == 0 || len(reply) > 2 {
		return Owner{}, fmt.Errorf("an answer of %d elements", len(reply))
	}
	if o.Epoch, err = strconv.ParseUint(reply[0], 10, 64); err != nil || o.Epoch > maxEpoch {
		return Owner{}, fmt.Errorf("%.30q is no epoch", reply[0])
	}
	if len(reply) == 2 {
		if o.Node = reply[1]; !isAddress(o.Node) {
			return Owner{}, fmt.Errorf("%.80q is no address of a node", o.Node)
		}
	}
	return o, nil
}

// Renew announces that a node is alive, and renews the leases of the streams that the node owns.
//   - If Ownership.GiveUp is set, Renew ends this ownership instead of renewing its lease.
//   - If Redis has lost an ownership, Renew restores this ownership.
//
// See [Directory] for the errors.
func (d *Redis) Renew(ctx context.Context, node string, owned ...Ownership) ([]error, error) {
	if d.sharded.Load() {
		return slices.Repeat([]error{errSharded}, len(owned)), errSharded
	}
	type run func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd
	queue := func(run run, pipe redis.Pipeliner, o Ownership) *redis.Cmd {
		return run(ctx, pipe, []string{d.key(o.Stream)}, node, o.Epoch, o.Silent.Milliseconds(),
			o.Away,
			d.lease.Milliseconds(), epochKept.Milliseconds(), d.channel, o.Stream, o.GiveUp)
	}
	pipe, whole := d.rdb.Pipeline(), d.rdb.Pipeline()
	alive := pipe.Publish(ctx, d.channel, Event{Owner: Owner{Node: node}}.String())
	cmds := make([]*redis.Cmd, len(owned))
	for i, o := range owned {
		cmds[i] = queue(renewScript.EvalSha, pipe, o)
	}
	exec(ctx, pipe)
	for i, o := range owned {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") {
			cmds[i] = queue(renewScript.Eval, whole, o)
		}
	}
	if whole.Len() > 0 {
		exec(ctx, whole)
	}
	errs := make([]error, len(owned))
	for i, cmd := range cmds {
		kept, err := cmd.Bool()
		if errs[i] = d.checkError(ctx, err); err == nil && !kept {
			errs[i] = ErrLost
		}
	}
	return errs, d.checkError(ctx, alive.Err())
}

// exec sends the commands that are queued in pipe. If the commands cannot be sent, exec stores the
// error in each command. This is needed because go-redis does not set the errors for all causes.
// Examples are a wrong password, and sentinels that do not know the master.
func exec(ctx context.Context, pipe redis.Pipeliner) {
	cmds, err := pipe.Exec(ctx)
	if err == nil || slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return c.Err() != nil }) {
		return
	}
	for _, c := range cmds {
		c.SetErr(err)
	}
}

// Lookup returns the owner of a stream, or ErrNoOwner.
func (d *Redis) Lookup(ctx context.Context, stream string) (Owner, error) {
	if d.sharded.Load() {
		return Owner{}, errSharded
	}
	reply, err := lookupScript.Run(ctx, d.rdb, []string{d.key(stream)}).StringSlice()
	if err != nil {
		return Owner{}, d.checkError(ctx, err)
	}
	if len(reply) == 0 {
		return Owner{}, ErrNoOwner
	}
	return parseOwner(reply)
}

// Watch calls the function f for each change of a stream's owner, and each time that a node
// announces that it is alive. It returns when ctx ends. After each connect, it calls f with
// Event{}, because earlier events may have been missed. f must not block.
func (d *Redis) Watch(ctx context.Context, f func(Event)) {
	for ctx.Err() == nil {
		d.watchOnce(ctx, f)
		// The pause is random, so that nodes that lost their connections at the same moment do not
		// all reconnect at once.
		sleep.For(ctx, d.lease/50+rand.N(d.lease/10))
	}
}

// watchOnce opens one connection, and calls f for each event. It returns when the connection has
// failed, or has been silent for the duration of a lease. A working connection is never silent for
// that long, because this node publishes an event three times during a lease.
func (d *Redis) watchOnce(ctx context.Context, f func(Event)) {
	sub := d.rdb.Subscribe(ctx, d.channel)
	defer sub.Close()
	unwatch := func() bool { return true }
	defer func() { unwatch() }()
	for limit := attemptTime(d.lease); ; limit = d.lease {
		message, err := sub.ReceiveTimeout(ctx, limit)
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *redis.Subscription:
			// Only now, because Close would wait until the connection has been made.
			unwatch = context.AfterFunc(ctx, func() { _ = sub.Close() })
			f(Event{})
		case *redis.Message:
			if e, ok := parseEvent(m.Payload); ok {
				f(e)
			}
		}
	}
}
