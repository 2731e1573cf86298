package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

func TestNewTakesWhatTheClientHas(t *testing.T) {
	s := redistest.Start(t, redistest.Config("user alice on >first allkeys allcommands"))
	for name, change := range map[string]func(*redis.Options){
		"password": func(o *redis.Options) { o.Username, o.Password = "alice", "first" },
		"provider": func(o *redis.Options) {
			o.CredentialsProvider = func() (string, string) {
				return "alice", "first"
			}
		},
		"RESP2": func(o *redis.Options) {
			o.Username, o.Password, o.Protocol = "alice", "first", 2
		},
		"RESP3": func(o *redis.Options) {
			o.Username, o.Password, o.Protocol = "alice", "first", 3
		},
		"with a name": func(o *redis.Options) {
			o.Username, o.Password, o.ClientName = "alice", "first", "large"
		},
		"streaming provider": func(o *redis.Options) {
			o.StreamingCredentialsProvider = oneCredential{func() error { return nil }}
		},
		"streaming provider, nothing to unsubscribe": func(o *redis.Options) {
			o.StreamingCredentialsProvider = oneCredential{nil}
		},
		"streaming provider that cannot unsubscribe": func(o *redis.Options) {
			o.StreamingCredentialsProvider = oneCredential{func() error { return errors.New("no") }}
		},
		"provider with a context": func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) {
				return "alice", "first", nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(s.Endpoint())
			o.DB = 3
			change(o)
			c, rdb := clientOf(t, o)
			ctx := bounded(t)
			must(t, c.SetFromBuffer(ctx, "where", []byte(name)))
			check(t, rdb, "where", []byte(name)) // in database 3
			list := rdb.ClientList(ctx).Val()
			ours := ""
			for line := range strings.Lines(list) {
				if strings.Contains(line, "cmd=set") {
					ours = line
				}
			}
			resp := 3
			if o.Protocol == 2 {
				resp = 2
			}
			for _, want := range []string{"db=3", "user=alice",
				fmt.Sprintf("name=%s ", o.ClientName), fmt.Sprintf("resp=%d", resp)} {
				if !strings.Contains(ours, want) {
					t.Errorf("the server has %q, without %s", ours, want)
				}
			}
		})
	}
	if _, err := New(nil); err == nil {
		t.Error("New without a client")
	}
	if _, err := New((*redis.Client)(nil)); err == nil {
		t.Error("New without a client")
	}
}

func TestOptionsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"MaxConns":    func() { MaxConns(0) },
		"MaxInFlight": func() { MaxInFlight(0) },
	} {
		func() {
			defer func() {
				if v, ok := recover().(string); !ok || !strings.HasPrefix(v, "redisbuf: "+name) {
					t.Errorf("%s: recovered %v, want a panic that names the option", name, v)
				}
			}()
			f()
		}()
	}
}

// oneCredential is a provider with constant credentials.
type oneCredential struct{ unsubscribe auth.UnsubscribeFunc }

func (o oneCredential) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc,
	error) {
	return auth.NewBasicCredentials("alice", "first"), o.unsubscribe, nil
}

// A countedCredential counts the subscribers to new credentials.
type countedCredential struct {
	oneCredential
	subscribed, listening atomic.Int64
}

func (p *countedCredential) Subscribe(l auth.CredentialsListener) (auth.Credentials,
	auth.UnsubscribeFunc, error) {
	now, _, err := p.oneCredential.Subscribe(l)
	p.subscribed.Add(1)
	p.listening.Add(1)
	return now, func() error { p.listening.Add(-1); return nil }, err
}

// If a provider keeps its subscribers, closed connections do not stay subscribed.
func TestNoCredentialSubscriptionIsKept(t *testing.T) {
	p := new(countedCredential)
	change := func(o *redis.Options) { o.StreamingCredentialsProvider = p }
	onPipes(t, change, nil, func(t *testing.T, c *Client, s *pipeRedis) {
		rest(t, c, 3)
		if n, listening := p.subscribed.Load(), p.listening.Load(); n != 3 || listening != 0 {
			t.Errorf("%d connections asked for credentials, %d still listen", n, listening)
		}
	})
}
