package sim

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RedisAddress is the address of the simulated Redis.
const RedisAddress = "redis:6379"

// A Redis is a simulated Redis server: the commands and scripts that a node uses. It has a clock of
// its own, and it loses data where a real one may lose them.
type Redis struct {
	host    *Host
	process *Process

	mu      sync.Mutex
	random  *rand.Rand
	skew    time.Duration // by how much its clock is ahead
	keys    map[string]value
	scripts map[string]script // by SHA-1, as loaded since the last restart
	undo    []change          // the latest changes, the oldest first
	conns   []*redisConn      // in the order of their arrival
	delay   time.Duration     // before each reply
	lossy   bool              // a third of the messages to subscribers is lost
	renewed map[string]bool   // keys of owners that have renewed their lease

	// Observe is called for each change of an owner, while mu is held. It may be nil.
	Observe func(OwnerChange)
}

// A value is the value of a key, a hash or a string. A value never changes; a key gets a new one.
type value struct {
	hash    map[string]string
	text    string
	expires time.Time // zero: never
}

// A change has the value of a key before a command. It is for a failover that loses the command.
type change struct {
	at  time.Time
	key string
	old value
	had bool
}

// An OwnerChange is a change of the owner of a stream.
type OwnerChange struct {
	Stream, Node string
	Epoch        uint64
	Restored     bool // by a renewal, after Redis had lost the data
	GivenUp      bool
	Replaced     string // the owner that had a publisher until then; "" if there was none
}

// undoFor is how long changes can be undone.
const undoFor = 5 * time.Second

// NewRedis returns a Redis that serves at RedisAddress until the host is killed.
func NewRedis(n *Network, random *rand.Rand) *Redis {
	r := &Redis{host: n.Host("redis"), random: random, keys: make(map[string]value),
		scripts: make(map[string]script), renewed: make(map[string]bool)}
	r.Start()
	return r
}

// Start serves, after Stop or for the first time.
func (r *Redis) Start() {
	r.process = r.host.Start()
	ln := r.process.Listen("6379")
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
}

// Stop ends the server. It keeps its data, as after SHUTDOWN SAVE.
func (r *Redis) Stop() {
	r.process.Kill()
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.scripts)
}

// Wipe deletes all data.
func (r *Redis) Wipe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.keys)
	r.undo = nil
}

// FailOver loses the changes of the last time, as a replica that lags behind has never got them,
// and sets the clock to that of the replica. It returns by how much the clock went back.
func (r *Redis) FailOver(lost, skew time.Duration) (back time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for since := time.Now().Add(-lost); len(r.undo) > 0; {
		last := r.undo[len(r.undo)-1]
		if last.at.Before(since) {
			break
		}
		r.undo = r.undo[:len(r.undo)-1]
		if last.had {
			r.keys[last.key] = last.old
		} else {
			delete(r.keys, last.key)
		}
	}
	back, r.skew = r.skew-skew, skew
	return back
}

// A leaseRecord is the record of a stream's owner.
type leaseRecord struct {
	node string        // the address
	left time.Duration // until the lease expires
}

// Leases returns the records of the owners that have renewed their lease, by key. Other owners may
// not know that they are, because the reply to their claim was lost.
func (r *Redis) Leases() map[string]leaseRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := make(map[string]leaseRecord)
	for key, v := range r.keys {
		if node := v.hash["node"]; node != "" && r.renewed[key] {
			m[key] = leaseRecord{node, time.Duration(number(v.hash["until"])-r.now().UnixMilli()) *
				time.Millisecond}
		}
	}
	return m
}

// SetDelay makes each reply late by a time.
func (r *Redis) SetDelay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

// SetLossy makes the server lose some messages to subscribers.
func (r *Redis) SetLossy(lossy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lossy = lossy
}

// DropSubscribers closes the connections of all subscribers.
func (r *Redis) DropSubscribers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		if len(c.channels) > 0 {
			_ = c.conn.Close()
		}
	}
}

func (r *Redis) now() time.Time { return time.Now().Add(r.skew) }

// get returns the value of a key that has not expired. The caller must hold r.mu.
func (r *Redis) get(key string) (value, bool) {
	v, ok := r.keys[key]
	if ok && !v.expires.IsZero() && !r.now().Before(v.expires) {
		delete(r.keys, key)
		return value{}, false
	}
	return v, ok
}

// set sets the value of a key. The caller must hold r.mu.
func (r *Redis) set(key string, v value) {
	old, had := r.get(key)
	now := time.Now()
	r.undo = append(r.undo, change{now, key, old, had})
	for len(r.undo) > 0 && now.Sub(r.undo[0].at) > undoFor {
		r.undo = r.undo[1:]
	}
	r.keys[key] = v
}

// setFields sets fields of a hash. The caller must hold r.mu.
func (r *Redis) setFields(key string, pairs ...string) {
	v, _ := r.get(key)
	if v.hash = maps.Clone(v.hash); v.hash == nil {
		v.hash = make(map[string]string)
	}
	for i := 0; i < len(pairs); i += 2 {
		v.hash[pairs[i]] = pairs[i+1]
	}
	r.set(key, v)
}

func (r *Redis) expire(key string, in time.Duration) {
	v, _ := r.get(key)
	v.expires = r.now().Add(in)
	r.set(key, v)
}

// publish sends a message to the subscribers of a channel. The caller must hold r.mu.
func (r *Redis) publish(channel, text string) {
	for _, c := range r.conns {
		if c.channels[channel] && !(r.lossy && r.random.IntN(3) == 0) {
			c.push(fmt.Sprintf("*3\r\n$7\r\nmessage\r\n%s%s", bulk(channel), bulk(text)))
		}
	}
}

// A redisConn is a connection of a client. Redis.mu guards channels.
type redisConn struct {
	conn     net.Conn
	channels map[string]bool

	mu  sync.Mutex
	out []byte
	// Has an element if out is not empty, or if the connection has ended.
	waking chan struct{}
	ended  bool
}

// push queues text for the client. Only the goroutine of flush waits for the network.
func (c *redisConn) push(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, text...)
	select {
	case c.waking <- struct{}{}:
	default:
	}
}

func (c *redisConn) flush() {
	for range c.waking {
		c.mu.Lock()
		out, ended := c.out, c.ended
		c.out = nil
		c.mu.Unlock()
		if _, err := c.conn.Write(out); err != nil || ended {
			_ = c.conn.Close()
			return
		}
	}
}

func (r *Redis) serve(conn net.Conn) {
	c := &redisConn{conn: conn, channels: make(map[string]bool), waking: make(chan struct{}, 1)}
	r.mu.Lock()
	r.conns = append(r.conns, c)
	r.mu.Unlock()
	go c.flush()
	in := bufio.NewReader(conn)
	for {
		args, err := readCommand(in)
		if err != nil {
			break
		}
		r.mu.Lock()
		delay := r.delay
		r.mu.Unlock()
		if delay > 0 {
			time.Sleep(delay)
		}
		r.mu.Lock()
		reply := r.run(c, args)
		c.push(reply) // while mu is held, so that a message of the command comes before or after
		r.mu.Unlock()
	}
	r.mu.Lock()
	r.conns = slices.DeleteFunc(r.conns, func(other *redisConn) bool { return other == c })
	r.mu.Unlock()
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.push("")
}

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		p := make([]byte, size+2)
		if _, err := io.ReadFull(in, p); err != nil {
			return nil, err
		}
		args[i] = string(p[:size])
	}
	return args, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("a client sends %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

func integer(n int) string { return ":" + strconv.Itoa(n) + "\r\n" }

func array(list ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(list))
	for _, s := range list {
		b.WriteString(bulk(s))
	}
	return b.String()
}

const (
	ok      = "+OK\r\n"
	missing = "$-1\r\n"
)

// run runs a command and returns the reply. The caller must hold r.mu.
func (r *Redis) run(c *redisConn, args []string) string {
	switch name := strings.ToLower(args[0]); name {
	case "client", "select":
		return ok
	case "ping":
		if len(c.channels) > 0 {
			return array("pong", "")
		}
		return "+PONG\r\n"
	case "subscribe", "unsubscribe":
		var reply strings.Builder
		for _, channel := range args[1:] {
			if c.channels[channel] = name == "subscribe"; name != "subscribe" {
				delete(c.channels, channel)
			}
			fmt.Fprintf(&reply, "*3\r\n%s%s%s", bulk(name), bulk(channel), integer(len(c.channels)))
		}
		return reply.String()
	case "publish":
		r.publish(args[1], args[2])
		return integer(0)
	case "eval", "evalsha":
		return r.eval(name == "eval", args)
	case "set": // SET key value [PX milliseconds]
		v := value{text: args[2]}
		if len(args) == 5 && strings.EqualFold(args[3], "px") {
			ms, _ := strconv.Atoi(args[4])
			v.expires = r.now().Add(time.Duration(ms) * time.Millisecond)
		} else if len(args) != 3 {
			return fmt.Sprintf("-ERR the simulated Redis does not know the options %q\r\n", args[3:])
		}
		r.set(args[1], v)
		return ok
	case "get":
		if v, ok := r.get(args[1]); ok {
			return bulk(v.text)
		}
		return missing
	case "hget":
		v, _ := r.get(args[1])
		if text, ok := v.hash[args[2]]; ok {
			return bulk(text)
		}
		return missing
	}
	return fmt.Sprintf("-ERR unknown command '%s'\r\n", args[0])
}
