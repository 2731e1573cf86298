package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// A script is one of the scripts of package cluster, in Go. keys and argv are those of EVAL. The
// caller must hold Redis.mu.
type script func(r *Redis, key string, argv []string) string

// known returns the script with the given source.
func known(source string) script {
	switch {
	case strings.Contains(source, "'never'"):
		return (*Redis).claim
	case strings.Contains(source, "HDEL"):
		return (*Redis).renew
	case strings.Contains(source, "ARGV[4], ARGV[2]"):
		return (*Redis).setState
	case strings.Contains(source, "return {}"):
		return (*Redis).lookup
	}
	return nil
}

// eval runs EVAL or EVALSHA with one key. The caller must hold r.mu.
func (r *Redis) eval(whole bool, args []string) string {
	sha := args[1]
	if whole {
		sum := sha1.Sum([]byte(args[1]))
		sha = hex.EncodeToString(sum[:])
		f := known(args[1])
		if f == nil {
			return "-ERR the simulated Redis does not know this script\r\n"
		}
		r.scripts[sha] = f
	}
	f := r.scripts[sha]
	if f == nil {
		return "-NOSCRIPT No matching script.\r\n"
	}
	return f(r, args[3], args[4:])
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func milliseconds(s string) time.Duration { return time.Duration(number(s)) * time.Millisecond }

func isTrue(s string) bool { return s == "1" }

// ownerOf returns the owner of the stream with the given key, or "".
func (r *Redis) ownerOf(key string) (fields map[string]string, owned bool) {
	v, _ := r.get(key)
	return v.hash, v.hash["node"] != "" && number(v.hash["until"]) > r.now().UnixMilli()
}

func (r *Redis) claim(key string, argv []string) string {
	node, seen, takeover, stalled := argv[0], number(argv[1]), argv[2], number(argv[3])
	now := r.now()
	o, owned := r.ownerOf(key)
	if argv[8] != "" && o["claim"] == argv[8] {
		return array(o["epoch"])
	}
	if owned && o["node"] != node && o["away"] != "1" && (takeover == "never" ||
		takeover == "stalled" && now.UnixMilli()-number(o["heard"]) < stalled) {
		return array(o["epoch"], o["node"])
	}
	var replaced string
	if owned && o["node"] != node && o["away"] != "1" {
		replaced = o["node"]
	}
	epoch := max(now.UnixMicro(), number(o["epoch"])+1, seen+1)
	text := strconv.FormatInt(epoch, 10)
	ms := now.UnixMilli()
	r.setFields(key, "epoch", text, "node", node, "until",
		strconv.FormatInt(ms+number(argv[4]), 10), "heard", strconv.FormatInt(ms, 10), "away", "0",
		"claim", argv[8])
	r.expire(key, milliseconds(argv[4])+milliseconds(argv[5]))
	r.renewed[key] = false
	r.publish(argv[6], node+" "+text+" "+argv[7])
	r.observe(OwnerChange{Stream: argv[7], Node: node, Epoch: uint64(epoch), Replaced: replaced})
	return array(text)
}

func (r *Redis) observe(c OwnerChange) {
	if r.Observe != nil {
		r.Observe(c)
	}
}

func (r *Redis) renew(key string, argv []string) string {
	node, mine, stream := argv[0], number(argv[1]), argv[7]
	v, _ := r.get(key)
	stored := number(v.hash["epoch"])
	if stored > mine || stored == mine && v.hash["node"] != node {
		return integer(0)
	}
	if isTrue(argv[8]) {
		if stored == mine {
			r.setFields(key, "node", "")
			r.publish(argv[6], node+" 0 "+stream)
			r.observe(OwnerChange{Stream: stream, Node: node, Epoch: uint64(mine), GivenUp: true})
		}
		return integer(1)
	}
	r.renewed[key] = true
	ms := r.now().UnixMilli()
	r.setFields(key, "epoch", argv[1], "node", node,
		"until", strconv.FormatInt(ms+number(argv[4]), 10),
		"heard", strconv.FormatInt(ms-number(argv[2]), 10), "away", argv[3])
	r.expire(key, milliseconds(argv[4])+milliseconds(argv[5]))
	if stored < mine {
		r.publish(argv[6], node+" "+argv[1]+" "+stream)
		r.observe(OwnerChange{Stream: stream, Node: node, Epoch: uint64(mine), Restored: true})
	}
	return integer(1)
}

func (r *Redis) lookup(key string, _ []string) string {
	if o, owned := r.ownerOf(key); owned {
		return array(o["epoch"], o["node"])
	}
	return array()
}

func (r *Redis) setState(key string, argv []string) string {
	v, _ := r.get(key)
	if epoch, ok := v.hash["epoch"]; ok && number(epoch) > number(argv[0]) {
		return integer(0)
	}
	r.setFields(key, "epoch", argv[0], argv[3], argv[1])
	r.expire(key, milliseconds(argv[2]))
	return integer(1)
}
