// Package redisclient returns go-redis options for the servers that package redistest starts.
package redisclient

import (
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options returns the go-redis options for a client of the server e.
func Options(e redistest.Endpoint) *redis.Options {
	return &redis.Options{
		Network:                  e.Network,
		Addr:                     e.Addr,
		Password:                 e.Password,
		TLSConfig:                e.TLS,
		MaintNotificationsConfig: noMaintenance(),
	}
}

// ClusterOptions returns the options for a client of the cluster c.
func ClusterOptions(c *redistest.Cluster) *redis.ClusterOptions {
	return &redis.ClusterOptions{Addrs: c.Addrs(), MaintNotificationsConfig: noMaintenance()}
}

// noMaintenance turns off maintenance notifications, which only Redis Enterprise sends.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
