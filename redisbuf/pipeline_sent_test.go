package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/redistest"
)

// A stingy connection takes some bytes and gives some, and then it is closed.
type stingy struct {
	net.Conn // nil: what is not below is not called
	takes    int
	took     int
	gives    io.Reader
}

func (s *stingy) Write(p []byte) (int, error) {
	n := min(len(p), s.takes-s.took)
	s.took += n
	if n < len(p) {
		return n, &net.OpError{Op: "write", Err: syscall.EPIPE}
	}
	return n, nil
}

func (s *stingy) Read(p []byte) (int, error)    { return s.gives.Read(p) }
func (s *stingy) SetDeadline(t time.Time) error { return nil }

// Those SETs of a pipeline may have been executed that have left to their last byte, and no others, wherever the
// connection ends. A reader that fails ends it as well, behind the calls before it.
func TestPipelineSaysWhatMayHaveBeenSent(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "value"))
	must(t, err)
	defer f.Close()
	_, err = f.WriteString("from a file")
	must(t, err)
	chain := scattered(t, []byte("twelve blocks"), 12) // more than are pushed before something is sent
	failing := func() *call {
		return &call{verb: setFrom, key: "broken", reader: strings.NewReader("half"), size: 10}
	}
	kinds := []func() *call{
		func() *call { return &call{verb: setFromBuffer, key: "a", buf: []byte("value"), size: 5} },
		func() *call { return &call{verb: getToBuffer, key: "a", buf: make([]byte, 5)} },
		func() *call { return &call{verb: setFromBuffer, key: "nothing"} },
		func() *call {
			return &call{verb: setFrom, key: "b", reader: strings.NewReader("from a reader"), size: 13}
		},
		func() *call { return &call{verb: setChain, key: "c", chain: chain} },
		func() *call { return &call{verb: setFile, key: "d", file: f, size: 11, set: IfAbsent()} },
		func() *call { return &call{verb: setFromBuffer, key: "e", buf: []byte("value"), size: 5} },
	}
	// execute returns what a connection that takes so many bytes makes of such calls, and how many it has taken.
	execute := func(kinds []func() *call, takes int) (calls []*call, took int) {
		s := &stingy{takes: takes, gives: strings.NewReader("")}
		for _, kind := range kinds {
			calls = append(calls, kind())
		}
		_ = newConn(s, time.Second, time.Second, defaultMaxValue).executeAll(context.Background(), calls)
		return calls, s.took
	}
	for _, last := range []func() *call{kinds[0], failing} {
		kinds := append(slices.Clone(kinds), last)
		ends := make([]int, len(kinds))
		for i := range kinds {
			_, ends[i] = execute(kinds[:i+1], math.MaxInt)
		}
		for takes := range ends[len(ends)-1] + 1 {
			calls, _ := execute(kinds, takes)
			for i, op := range calls {
				var sent *SentError
				isReader := i == len(calls)-1 && isReaderError(op.err)
				want := takes >= ends[i] && op.purpose() == writes && !isReader
				if op.err == nil || errors.As(op.err, &sent) != want || !isReader && !isLoss(op.err) {
					t.Fatalf("%d bytes of %v, call %d: %v", takes, ends, i, op.err)
				}
			}
		}
	}
}

// The kernel may have taken some of what it was given at once.
func TestPipelineWhoseServerStopsReading(t *testing.T) {
	client, _ := tcpPair(t)
	c := newConn(client, time.Minute, 50*time.Millisecond, defaultMaxValue)
	calls := []*call{
		{verb: setFromBuffer, key: "first", buf: []byte("value"), size: 5},
		{verb: setFromBuffer, key: "large", buf: make([]byte, headStartLeast-1), size: headStartLeast - 1},
	}
	for range 64 { // more than the sockets hold
		calls = append(calls, calls[1])
	}
	for i, op := range calls {
		calls[i] = new(*op)
	}
	if err := c.executeAll(context.Background(), calls); !isTimeout(err) {
		t.Fatal(err)
	}
	var sent *SentError
	more := true
	for i, op := range calls {
		was := more
		if more = errors.As(op.err, &sent); more && !was || i == 0 && !more || !isTimeout(op.err) {
			t.Errorf("call %d: %v", i, op.err)
		}
	}
	if more {
		t.Error("all are said to have been sent")
	}
}

// What a server has said before it closed the connection is why, if it is an error, and no reply to what has not left.
func TestPipelineOnAConnectionWithLastWords(t *testing.T) {
	for words, refuses := range map[string]bool{
		"-ERR max number of clients reached\r\n": true, "-ERR max": false, "": false,
		"+OK\r\n": false, "$1\r\nv\r\n": false, "$-1\r\n": false, "_\r\n": false,
	} {
		for _, verb := range []verb{setFromBuffer, getToBuffer} {
			s := &stingy{gives: strings.NewReader(words)}
			c := newConn(s, time.Second, time.Second, defaultMaxValue)
			calls := []*call{{verb: verb, key: "a", buf: []byte("v"), size: 1}, {verb: verb, key: "b", buf: []byte("v"), size: 1}}
			_ = c.executeAll(context.Background(), calls)
			if err := calls[0].err; refuses != redis.IsMaxClientsError(err) || !refuses && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("%q: %v", words, err)
			}
			if err := calls[1].err; !errors.Is(err, syscall.EPIPE) || !c.broken {
				t.Errorf("%q, the second call: %v", words, err)
			}
			if sent := (*SentError)(nil); errors.As(calls[0].err, &sent) || errors.As(calls[1].err, &sent) {
				t.Errorf("%q: %v, %v", words, calls[0].err, calls[1].err)
			}
		}
	}
}

// A connection that takes nothing any more costs a pipeline nothing but another one, as it does a single call.
func TestPipelineOnAConnectionThatTakesNothing(t *testing.T) {
	var mu sync.Mutex
	var dialed []*net.TCPConn
	o := redistest.Shared(t).Options()
	dial := new(net.Dialer)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		dialed = append(dialed, conn.(*net.TCPConn))
		return conn, nil
	}
	c, _ := clientOf(t, o)
	ctx := bounded(t)
	p := c.Pipeline()
	for range 3 {
		must(t, c.SetFromBuffer(ctx, "takes", nil))
		must(t, dialed[len(dialed)-1].CloseWrite())
		bufs := [2][]byte{guarded(5), guarded(5)}
		p.SetFromBuffer("takes", []byte("value"))
		p.GetToBuffer("takes", bufs[0])
		p.SetFromBuffer("takes", []byte("other"))
		p.GetToBuffer("takes", bufs[1])
		must(t, p.Exec(ctx))
		if !bytes.Equal(intact(bufs[0]), []byte("value")) || !bytes.Equal(intact(bufs[1]), []byte("other")) {
			t.Errorf("%q, %q", bufs[0], bufs[1])
		}
	}
}
