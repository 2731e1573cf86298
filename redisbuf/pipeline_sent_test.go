package redisbuf

import (
	"context"
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Wherever the connection ends, SentError is the result of exactly those SETs that were sent to
// their last byte.
func TestPipelineSaysWhatMayHaveBeenSent(t *testing.T) {
	// More pieces than are queued before something is sent.
	chain := scattered(t, []byte("twelve blocks"), 12)
	kinds := []func() command{
		func() command { return setOf("a", []byte("value")) },
		func() command { return getOf("a", make([]byte, 5)) },
		func() command { return setOf("nothing", nil) },
		func() command {
			set, _ := newSetHeader("c", int64(chain.Len()), nil)
			return &setChainCmd{setHeader: set, src: chain}
		},
		func() command { return setOf("e", []byte("value")) },
	}
	// execute runs commands on a connection that accepts a number of bytes. It returns the results
	// and the number of accepted bytes.
	execute := func(kinds []func() command, takes int) (calls []*Result, took int) {
		s := &tape{takes: takes}
		for _, kind := range kinds {
			calls = append(calls, &Result{cmd: kind()})
		}
		newConn(s, time.Second, time.Second).runAll(context.Background(), calls)
		return calls, len(s.took)
	}
	ends := make([]int, len(kinds))
	for i := range kinds {
		_, ends[i] = execute(kinds[:i+1], math.MaxInt)
	}
	for takes := range ends[len(ends)-1] + 1 {
		calls, _ := execute(kinds, takes)
		for i, r := range calls {
			want := takes >= ends[i] && r.cmd.info().writes
			if isA[*SentError](r.err) != want || !isLoss(r.err) {
				t.Fatalf("%d bytes of %v, call %d: %v", takes, ends, i, r.err)
			}
		}
	}
}

// The kernel may have accepted some of the bytes.
func TestPipelineWhoseServerStopsReading(t *testing.T) {
	client, _ := tcpPair(t)
	// Long enough for the first call on a busy machine.
	c := newConn(client, time.Minute, time.Second/2)
	defer c.close()
	calls := []*Result{{cmd: setOf("first", []byte("value"))}}
	for range 64 { // more than the sockets' buffers hold
		calls = append(calls, &Result{cmd: setOf("large", make([]byte, minHeadStart-1))})
	}
	c.runAll(context.Background(), calls)
	more := true
	for i, r := range calls {
		was := more
		if more = isA[*SentError](r.err); more && !was || i == 0 && !more || !isTimeout(r.err) {
			t.Errorf("call %d: %v, want SentError for the calls that were sent, and then timeouts",
				i, r.err)
		}
	}
	if more {
		t.Error("all are said to have been sent")
	}
}

// An error that the server sent before it closed the connection is the reported reason. It is not a
// reply to calls that were not sent.
func TestPipelineWithAPendingError(t *testing.T) {
	for reply, refuses := range map[string]bool{
		"-ERR max number of clients reached\r\n": true, "-ERR max": false, "": false,
		"+OK\r\n": false, "$1\r\nv\r\n": false, "$-1\r\n": false, "_\r\n": false,
	} {
		for _, cmds := range [][2]command{
			{setOf("a", []byte("v")), setOf("b", []byte("v"))},
			{getOf("a", []byte("v")), getOf("b", []byte("v"))},
		} {
			s := &tape{left: []byte(reply), step: len(reply)}
			c := newConn(s, time.Second, time.Second)
			calls := []*Result{{cmd: cmds[0]}, {cmd: cmds[1]}}
			c.runAll(context.Background(), calls)
			if err := calls[0].err; refuses != redis.IsMaxClientsError(err) || !refuses &&
				!errors.Is(err, syscall.EPIPE) {
				t.Errorf("%q: %v, want the server's error, or EPIPE", reply, err)
			}
			if err := calls[1].err; !errors.Is(err, syscall.EPIPE) || !c.broken {
				t.Errorf("%q, the second call: %v", reply, err)
			}
			if isA[*SentError](calls[0].err) || isA[*SentError](calls[1].err) {
				t.Errorf("%q: %v, %v, want no SentError", reply, calls[0].err, calls[1].err)
			}
		}
	}
}
