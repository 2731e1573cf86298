package redisbuf

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// A refused call is retried unless a later call with its key was executed, or may have been. Reads
// do not matter to other reads.
func TestPipelineRetriesInOrder(t *testing.T) {
	const ok, value, none = "+OK\r\n", "$1\r\nv\r\n", "$-1\r\n"
	for _, refusal := range []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"CLUSTERDOWN Hash slot not served", "TRYAGAIN Multiple keys request during rehashing of slot",
		"MASTERDOWN Link with MASTER is down", "ERR max number of clients reached",
	} {
		no := "-" + refusal + "\r\n"
		for _, test := range []struct {
			calls string // r and w read and write key a; R and W read and write key b
			// First the replies to all calls, then the replies to retried calls. "" closes the
			// connection.
			replies []string
			want    string // results: + executed, - refused, 0 redis.Nil, ? a SentError
			again   string // the retried calls
		}{
			{"ww", []string{no, ok}, "-+", ""},
			{"ww", []string{no, none}, "-0", ""},
			{"ww", []string{no, ""}, "-?", ""},
			{"wr", []string{no, value}, "-+", ""},
			{"wr", []string{no, none}, "-0", ""},
			{"rw", []string{no, ok}, "-+", ""},
			{"rr", []string{no, value, value}, "++", "0"},
			{"wW", []string{no, ok, ok}, "++", "0"},
			{"ww", []string{ok, no, ok}, "++", "1"},
			{"ww", []string{no, no, ok, ok}, "++", "01"},
			{"wr", []string{no, no, ok, value}, "++", "01"},
			{"www", []string{no, no, ok}, "--+", ""},
			{"wrw", []string{no, value, no, ok}, "-++", "2"},
			{"wRwWr", []string{no, no, ok, no, no, value, ok, value}, "-++++", "134"},
		} {
			replies := make([]redistest.Answer, len(test.replies))
			for i, r := range test.replies {
				replies[i] = redistest.Say(r)
				if r == "" {
					replies[i] = replies[i].ThenClose()
				}
			}
			h := redistest.StartHostile(t, replies...)
			o := optionsOf(h.Endpoint())
			o.MinRetryBackoff, o.MaxRetryBackoff = 1, 1
			c, _ := clientOf(t, o)
			p := c.Pipeline()
			results := numbered(p, test.calls)
			err := p.Exec(bounded(t))
			got := ""
			for _, r := range results {
				got += ending(r.Err())
			}
			if again := numbersOf(h.Requests()[len(test.calls):]); got != test.want ||
				again != test.again {
				t.Errorf("%s of %s: %s, %q again; want %s, %q", refusal, test.calls, got, again,
					test.want, test.again)
			}
			if i := strings.IndexAny(got, "-0?"); i >= 0 && err != results[i].Err() || i < 0 &&
				err != nil {
				t.Errorf("%s of %s: Exec returns %v", refusal, test.calls, err)
			}
		}
	}
}

// numbered adds a call for each letter: r and w read and write key a; R and W read and write key b.
// A request has the number of its call after the key.
func numbered(p *Pipeline, calls string) []*Result {
	results := make([]*Result, len(calls))
	for i, kind := range calls {
		key := "a"
		if kind == 'R' || kind == 'W' {
			key = "b"
		}
		if kind == 'r' || kind == 'R' {
			results[i] = p.GetRangeToBuffer(key, int64(i), make([]byte, 100))
		} else {
			results[i] = p.SetFromBuffer(key, fmt.Append(nil, i))
		}
	}
	return results
}

// numbersOf returns the numbers in such requests.
func numbersOf(requests []string) (numbers string) {
	for _, r := range requests {
		numbers += strings.Fields(r)[2]
	}
	return numbers
}

// ending returns a letter for the result of a call.
func ending(err error) string {
	switch _, sent := err.(*SentError); {
	case err == nil:
		return "+"
	case err == redis.Nil:
		return "0"
	case sent:
		return "?"
	}
	return "-"
}

// Calls are refused at random. The calls with one key are executed in order, except reads among
// themselves. Calls without an error are executed once.
func TestPipelineOrderOfAnything(t *testing.T) {
	h := redistest.StartHostile(t)
	o := optionsOf(h.Endpoint())
	o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 1, 1, 1
	c, _ := clientOf(t, o)
	p := c.Pipeline()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		calls := ""
		for range 1 + rnd.IntN(9) {
			calls += string("rwRW"[rnd.IntN(4)])
		}
		refused := make([]bool, 3*len(calls))
		replies := make([]redistest.Answer, len(refused))
		for i := range refused {
			replies[i] = redistest.Say("$-1\r\n") // a valid reply to a read and to a SET
			if refused[i] = rnd.IntN(2) == 0; refused[i] {
				replies[i] = redistest.Say("-LOADING Redis is loading the dataset in memory\r\n")
			}
		}
		h.Script(replies...)
		before := len(h.Requests())
		results := numbered(p, calls)
		_ = p.Exec(bounded(t))
		var executed []int
		for i, r := range h.Requests()[before:] {
			if !refused[i] {
				executed = append(executed, int(strings.Fields(r)[2][0]-'0'))
			}
		}
		for i, r := range results {
			if times := strings.Count(fmt.Sprint(executed),
				fmt.Sprint(i)); (r.Err() == redis.Nil) != (times == 1) || times > 1 {
				t.Fatalf("%s: call %d was executed %d times: %v", calls, i, times, r.Err())
			}
		}
		for i, one := range executed {
			for _, later := range executed[i+1:] {
				pair := string(calls[one]) + string(calls[later])
				if later < one && slices.Contains([]string{"rw", "wr", "ww", "RW", "WR", "WW"},
					pair) {
					t.Fatalf("%s: executed as %v", calls, executed)
				}
			}
		}
	}
}

// If a key has moved in a cluster, all its calls are sent to its new server at once and in order. A
// key that has not moved stays.
func TestPipelineRedirectsInOrder(t *testing.T) {
	for _, word := range []string{"MOVED", "ASK"} {
		here, there := redistest.StartHostile(t), redistest.StartHostile(t)
		there.Always(redistest.Say("+OK\r\n"))
		var asked atomic.Int64
		o := optionsOf(here.Endpoint())
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &asking{Conn: conn, n: &asked}, err
		}
		c, _ := clientOf(t, o)
		c.router.redirects = true
		away, stays := redistest.Say("-"+word+" 1 "+there.Addr()+"\r\n"), redistest.Say("+OK\r\n")
		here.Script(away, away, away)
		p := c.Pipeline()
		numbered(p, "wWw")
		if err := p.Exec(bounded(t)); err != nil || numbersOf(there.Requests()) != "012" {
			t.Error(word, err, there.Requests())
		}
		if n := asked.Load(); word == "ASK" && n != 3 || word == "MOVED" && n != 0 {
			t.Error(word, "has ASKING sent", n, "times")
		}
		here.Script(away, away, stays) // the migration was cancelled in between
		before := len(there.Requests())
		results := numbered(p, "wWw")
		err := p.Exec(bounded(t))
		if !redis.HasErrorPrefix(err, word) || results[0].Err() != err || results[1].Err() != nil ||
			results[2].Err() != nil {
			t.Error(word, err, results[1].Err(), results[2].Err())
		}
		if numbersOf(there.Requests()[before:]) != "1" {
			t.Error(word, there.Requests()[before:])
		}
		if n := len(here.Requests()); n != 6 {
			t.Errorf("%s: %d requests where the keys are not", word, n)
		}
	}
}

// An asking connection counts the ASKING commands on it.
type asking struct {
	net.Conn
	n *atomic.Int64
}

func (a *asking) Write(p []byte) (int, error) {
	a.n.Add(int64(bytes.Count(p, []byte("ASKING"))))
	return a.Conn.Write(p)
}
