package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// memory is all that the values of one test may take in one server. Beyond it a server answers OOM instead of taking
// the machine down.
const memory = "1gb"

func (s *Server) confPath() string { return filepath.Join(s.dir, "redis.conf") }

// configure writes redis.conf, or sentinel.conf, which a sentinel rewrites as it goes.
func (s *Server) configure() error {
	lines := []string{
		"bind " + host,
		"dir " + s.dir,
		"daemonize no",
		"supervised no",
	}
	listen, err := s.listenLines()
	if err != nil {
		return err
	}
	lines = append(lines, listen...)
	if s.conf.sentinelOf != nil {
		lines = append(lines, s.sentinelLines()...)
	} else {
		lines = append(lines, s.dataLines()...)
	}
	lines = append(lines, s.conf.lines...)
	return os.WriteFile(s.confPath(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// listenLines says where the server listens, and how.
func (s *Server) listenLines() ([]string, error) {
	switch {
	case s.conf.unix:
		return []string{"port 0", "unixsocket " + s.Addr()}, nil
	case !s.conf.tls:
		return []string{fmt.Sprint("port ", s.port)}, nil
	}
	a, err := theAuthority()
	if err != nil {
		return nil, err
	}
	lines, err := a.files(s.dir)
	return append(lines, "port 0", fmt.Sprint("tls-port ", s.port), "tls-auth-clients yes"), err
}

// dataLines is the configuration of a server that holds data.
func (s *Server) dataLines() []string {
	lines := []string{
		`save ""`,
		"appendonly no",
		"databases 16",
		"maxmemory " + memory,
		"maxmemory-policy noeviction",
		"maxclients 500",             // the default makes room for 10000
		"hz 100",                     // what a server does now and then, such as to see that a replica is there, it does at once
		"enable-debug-command local", // DEBUG SLEEP, DEBUG JMAP and the like are for tests
		"repl-diskless-sync yes",
		"repl-diskless-sync-delay 0", // a second replica need not be waited for
		"repl-ping-replica-period 1",
		"repl-backlog-size 1mb",
	}
	if p := s.conf.password; p != "" {
		lines = append(lines, "requirepass "+p, "masterauth "+p)
	}
	if s.conf.tls {
		lines = append(lines, "tls-replication yes")
	}
	if m := s.conf.master; m != nil {
		lines = append(lines, fmt.Sprintf("replicaof %s %d", host, m.port))
		if p := m.conf.password; p != "" {
			lines = append(lines, "masterauth "+p)
		}
	}
	if s.conf.cluster {
		lines = append(lines, s.clusterLines()...)
	}
	return lines
}

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
