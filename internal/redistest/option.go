package redistest

import (
	"fmt"
	"strings"
)

// An Option changes what [Start], [StartCluster] and [StartSentinel] start.
type Option func(*config)

// config is what the options say.
type config struct {
	password   string
	lines      []string // of redis.conf, behind our own: the last one counts
	tls        bool
	unix       bool
	master     *Server
	cluster    bool
	sentinelOf *Server
	masters    int
	replicas   int
}

func configure(opts []Option) config {
	c := config{masters: 3, replicas: 3}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// Password sets requirepass. [Server.Options] and the like hold it, and replicas give it to their masters.
func Password(password string) Option {
	return func(c *config) { c.password = password }
}

// User adds an ACL user with the rules of ACL SETUSER, for example User("alice", "on", ">secret", "~blob:*", "+get").
func User(name string, rules ...string) Option {
	return Config(fmt.Sprintf("user %s %s", name, strings.Join(rules, " ")))
}

// TLS has the server speak nothing else on its port, and ask for a client's certificate. [Server.Options] holds one.
func TLS() Option {
	return func(c *config) { c.tls = true }
}

// UnixSocket has the server listen on a Unix socket instead of a port.
func UnixSocket() Option {
	return func(c *config) { c.unix = true }
}

// ReplicaOf makes the server a replica of master, in step with it before [Start] returns. It takes over master's
// password and speaks TLS to it if master does.
func ReplicaOf(master *Server) Option {
	return func(c *config) { c.master = master }
}

// Config adds lines to redis.conf. They come last and win over ours.
func Config(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// Masters sets how many masters a [Cluster] has instead of 3. They share the slots evenly.
func Masters(n int) Option {
	return func(c *config) { c.masters = n }
}

// Replicas sets how many replicas a [Cluster] has altogether instead of 3. They are dealt to the masters in turn.
func Replicas(n int) Option {
	return func(c *config) { c.replicas = n }
}
