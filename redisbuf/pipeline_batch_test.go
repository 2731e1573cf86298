package redisbuf

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// A lost connection does not mean a lost server: later batches are sent on another connection.
func TestPipelineGoesOnAfterALostConnection(t *testing.T) {
	for _, retries := range []int{-1, 1} {
		noValue := redistest.Say(":1\r\n")
		replies := []redistest.Answer{redistest.Say(""), redistest.Say(""), noValue}
		if retries > 0 {
			replies = append(replies, redistest.Say("$5\r\nagain\r\n"))
		}
		replies = append(replies, redistest.Say("$5\r\nlater\r\n"), redistest.Say("+OK\r\n"))
		h := redistest.StartHostile(t, replies...)
		o := optionsOf(h.Endpoint())
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = retries, 1, 1
		c, _ := clientOf(t, o, MaxInFlight(100))
		p := c.Pipeline()
		buf, again, later := make([]byte, 40), make([]byte, 5), make([]byte, 90)
		spoils, set, get := p.GetToBuffer("a", buf), p.SetFromBuffer("b", buf),
			p.GetToBuffer("c", again)
		getLater, setLater := p.GetToBuffer("d", later), p.SetFromBuffer("e", later)
		if err := p.Exec(bounded(t)); !isA[*ProtocolError](err) || spoils.Err() != err {
			t.Error(err)
		}
		if err := set.Err(); !isA[*SentError](err) || !errors.Is(err, ErrConnLost) {
			t.Error(err)
		}
		if err := get.Err(); retries < 0 && err != ErrConnLost || retries > 0 &&
			(err != nil || string(again) != "again") {
			t.Errorf("%d retries: %v, %q, want ErrConnLost or a second try", retries, err, again)
		}
		if getLater.Err() != nil || string(later[:getLater.Len()]) != "later" ||
			setLater.Err() != nil {
			t.Errorf("%d retries: %v, %v, want the rest of the pipeline", retries, getLater.Err(),
				setLater.Err())
		}
	}
}

// A pipeline waits only once for a silent server, after reads as well as after writes.
func TestPipelineOfASilentServer(t *testing.T) {
	const timeout = time.Second
	for name, collect := range map[string]func(p *Pipeline, buf []byte) *Result{
		"GET": func(p *Pipeline, buf []byte) *Result { return p.GetToBuffer("k", buf) },
		"SET": func(p *Pipeline, buf []byte) *Result { return p.SetFromBuffer("k", buf) },
	} {
		change := func(o *redis.Options) { o.MaxRetries = -1; o.ReadTimeout = timeout }
		onPipes(t, change, []Option{MaxInFlight(20_000)}, func(t *testing.T, c *Client, s *pipeRedis) {
			get5(t, c)
			s.silence()
			p := c.Pipeline()
			var results []*Result
			for range 20 {
				results = append(results, collect(p, make([]byte, 20_000)))
			}
			begun := time.Now() // in virtual time, only waiting takes time
			if err := p.Exec(context.Background()); !errors.Is(err, os.ErrDeadlineExceeded) ||
				results[0].Err() != err {
				t.Error(name, err)
			}
			if took := time.Since(begun); took > 3*timeout {
				t.Error(name, took)
			}
			if err := results[19].Err(); err != errNotSent {
				t.Error(name, err)
			}
		})
	}
}

// If a server closes the connection at a SET, the next call uses another connection. The remaining
// calls of a Conn report the lost connection.
func TestPipelineGoesOnAfterAServerHungUp(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		h := redistest.StartHostile(t, redistest.Say("").ThenClose(), redistest.Say("+OK\r\n"),
			redistest.Say("$0\r\n\r\n"))
		c, _ := clientOf(t, optionsOf(h.Endpoint()), MaxInFlight(100))
		requests, want := 3, error(nil)
		if sticky {
			conn, err := c.Conn(bounded(t))
			must(t, err)
			defer conn.Close()
			c, requests, want = &conn.Client, 1, ErrConnLost
		}
		p := c.Pipeline()
		value := make([]byte, 100)
		lost, set, get := p.SetFromBuffer("k", value), p.SetFromBuffer("k", value),
			p.GetToBuffer("k", value)
		err := p.Exec(bounded(t))
		if !isA[*SentError](err) || lost.Err() != err {
			t.Error(err)
		}
		if set.Err() != want || get.Err() != want || len(h.Requests()) != requests {
			t.Error(set.Err(), get.Err(), h.Requests())
		}
	}
}

// A negative limit, which no value meets, does not let too many other calls into the same batch.
func TestPipelineOfANegativeLimit(t *testing.T) {
	c, rdb := shared(t, MaxInFlight(100_000))
	g := &group{client: c}
	set := &Result{cmd: setOf("k", make([]byte, 60_000))}
	get := &Result{cmd: &getChainCmd{getHeader: wholeOf("k"), limit: -1_000_000}}
	if n, weight := g.nextBatch([]*Result{get, set, set}); n != 2 || weight != 60_002 {
		t.Errorf("%d of 3 calls go together, with %d bytes", n, weight)
	}
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "negative", "", 0).Err())
	var large *ValueTooLargeError
	if err := c.GetChain(ctx, "negative", new(millrace.Chain), -1); !errors.As(err, &large) ||
		large.Limit != -1 {
		t.Error(err)
	}
}
