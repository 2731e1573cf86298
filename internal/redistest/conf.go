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
