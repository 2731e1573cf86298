package redisurl

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		address, password string
		want              redis.UniversalOptions
		tls               bool
	}{
		{"redis://h:7/2", "", redis.UniversalOptions{Addrs: []string{"h:7"}, DB: 2}, false},
		{"redis://u:p@h:7", "other", redis.UniversalOptions{Addrs: []string{"h:7"}, Username: "u",
			Password: "p"}, false},
		{"rediss://h", "p", redis.UniversalOptions{Addrs: []string{"h:6379"}, Password: "p"}, true},
		{"unix://u:p@/run/redis?db=1", "",
			redis.UniversalOptions{Addrs: []string{"/run/redis"}, Username: "u", Password: "p",
				DB: 1}, false},
		{"redis://u:p@h:1,i:2,[::1]:3/4?master_name=m", "",
			redis.UniversalOptions{Addrs: []string{"h:1", "i:2", "[::1]:3"}, Username: "u",
				Password: "p", DB: 4, MasterName: "m"}, false},
		{"rediss://h:1?master_name=m&addr=i:2&sentinel_username=s&sentinel_password=t", "p",
			redis.UniversalOptions{Addrs: []string{"h:1", "i:2"}, Password: "p", MasterName: "m",
				SentinelUsername: "s",
				SentinelPassword: "t"}, true},
		{"redis+cluster://u:p@h:1,i:2", "",
			redis.UniversalOptions{Addrs: []string{"h:1", "i:2"}, Username: "u", Password: "p",
				IsClusterMode: true}, false},
		{"rediss+cluster://h:1?addr=i:2", "p",
			redis.UniversalOptions{Addrs: []string{"h:1", "i:2"}, Password: "p",
				IsClusterMode: true}, true},
	} {
		got, err := Parse(tt.address, tt.password)
		if err != nil {
			t.Errorf("Parse(%s): %v", tt.address, err)
			continue
		}
		want := tt.want
		if !slices.Equal(got.Addrs, want.Addrs) || got.IsClusterMode != want.IsClusterMode ||
			got.DB != want.DB ||
			got.Username != want.Username || got.Password != want.Password ||
			got.MasterName != want.MasterName ||
			got.SentinelUsername != want.SentinelUsername ||
			got.SentinelPassword != want.SentinelPassword ||
			(got.TLSConfig != nil) != tt.tls || got.ReadOnly || got.RouteByLatency ||
			got.RouteRandomly {
			t.Errorf("%s is parsed as %+v", tt.address, got)
		}
		client := redis.NewUniversalClient(got)
		if _, isCluster := client.(*redis.ClusterClient); isCluster != want.IsClusterMode {
			t.Errorf("%s: the client is a %T", tt.address, client)
		}
		client.Close()
	}
}

// No error contains anything that may be a password.
func TestParseRefuses(t *testing.T) {
	for _, address := range []string{
		"", "h:1", "http://secret@h:1", "redis://:sec/ret@h:1", "redis://:12/secret@h:1",
		"redis://:12?secret@h:1",
		"redis://:secret@h:port", "redis://:secret@h:1/secret", "redis://:secret@h:1?secret=1",
		"redis://u:secret@h:1/1/2",
		"redis+cluster://:secret@h:1,secret", "redis://:secret@h:1,secret?master_name=m",
		"redis+cluster://:%secret@h:1",
		"redis+sentinel://:secret@h:1", "unix://:secret@h",
		"redis+cluster://:secret@h:1?read_only=true",
		"redis://h:1,secret:2", "redis://:secret@h:1?db=secret", "redis+cluster://:secret@h:1/3",
		"redis+cluster://:secret@h:1?db=3", "redis+cluster://:secret@h:1?master_name=m",
		"redis://:secret@h:1?sentinel_username=u",
		"rediss://:secret@h:1?skip_verify=true",
	} {
		if _, err := Parse(address, ""); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("Parse(%s) = %v, want an error without the password", address, err)
		}
	}
}
