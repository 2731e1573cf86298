// Package redisurl parses URLs of Redis servers.
package redisurl

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// errAddress does not quote the invalid part of the URL, because that part may be the password.
var errAddress = errors.New(
	"want redis://[USER:PASSWORD@]HOST:PORT[/DB], rediss://…, unix://PATH, " +
		"redis://HOST:PORT,HOST:PORT?master_name=NAME for Sentinel, or redis+cluster://HOST:PORT,HOST:PORT for a cluster")

var options = []string{"addr", "db", "master_name", "sentinel_username", "sentinel_password"}

var errOption = errors.New(
	"an option of the address cannot be used: there are addr=HOST:PORT, db=DB, and master_name=NAME " +
		"for Sentinel, with sentinel_username and sentinel_password; a cluster has addr alone")

// Parse returns the client options for a Redis URL, which has one of these forms:
//
//	redis://[USER:PASSWORD@]HOST:PORT[/DB]                      a server
//	unix://[USER:PASSWORD@]PATH[?db=DB]                         a server on this machine
//	redis://[USER:PASSWORD@]HOST:PORT,…[/DB]?master_name=NAME   the master that these sentinels call NAME
//	redis+cluster://[USER:PASSWORD@]HOST:PORT,…                 a cluster with these nodes and possibly others
//
// With rediss instead of redis, the client uses TLS. Parameters of the form addr=HOST:PORT add
// further hosts. USER and PASSWORD are for data servers. The parameters sentinel_username and
// sentinel_password are for sentinels.
//
// If the URL contains no password, Parse uses defaultPassword. Errors do not quote the URL.
func Parse(rawURL, defaultPassword string) (*redis.UniversalOptions, error) {
	// Parse only the first host here, with the parameter db. net/url accepts only one host, and
	// redis.ParseURL rejects parameters that a single server does not have.
	scheme, rest, _ := strings.Cut(rawURL, "://")
	end := strings.IndexAny(rest+"/", "/?#")
	at := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[at:end], ",")
	scheme, cluster := strings.CutSuffix(scheme, "+cluster")
	u, err := url.Parse(scheme + "://" + rest[:at] + hosts[0] + rest[end:])
	if err != nil {
		return nil, errAddress
	}
	q := u.Query()
	hosts = append(hosts, q["addr"]...)
	u.RawQuery = ""
	if q.Has("db") {
		u.RawQuery = "db=" + url.QueryEscape(q.Get("db"))
	}
	opt, err := redis.ParseURL(u.String())
	for _, host := range hosts[1:] {
		if _, _, bad := net.SplitHostPort(host); bad != nil {
			err = bad
		}
	}
	if err != nil || len(hosts) > 1 && !cluster && !q.Has("master_name") || cluster && opt.DB != 0 {
		return nil, errAddress
	}
	for name := range q {
		known := name == "addr" || name == "db" && !cluster || name == "master_name" && !cluster ||
			strings.HasPrefix(name, "sentinel_") && q.Has("master_name")
		if !known || !slices.Contains(options, name) {
			return nil, errOption
		}
	}
	hosts[0] = opt.Addr
	return &redis.UniversalOptions{
		Addrs: hosts, IsClusterMode: cluster, DB: opt.DB, TLSConfig: opt.TLSConfig,
		Username: opt.Username, Password: cmp.Or(opt.Password, defaultPassword),
		MasterName:       q.Get("master_name"),
		SentinelUsername: q.Get("sentinel_username"), SentinelPassword: q.Get("sentinel_password"),
		DialerRetries: 1, // number of attempts to connect; go-redis also retries the whole call
		// Turn off maintenance notifications, which only Redis Enterprise sends.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}
