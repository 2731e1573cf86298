package redisbuf

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

func TestGetOfNoKey(t *testing.T) {
	c, _ := shared(t)
	for _, g := range gets {
		got, err := g.call(bounded(t), c, "no/such/key", 10)
		if len(got) != 0 {
			t.Errorf("%s: %d bytes, want 0", g.name, len(got))
		}
		if strings.HasPrefix(g.name, "GetRange") { // GETRANGE has no such reply
			must(t, err)
			continue
		}
		if err != redis.Nil || !errors.Is(err, redis.Nil) {
			t.Errorf("%s: %v, want redis.Nil", g.name, err)
		}
	}
	idle(t, c, 1)
}

func TestErrorsOfTheServer(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Del(ctx, "list").Err())
	must(t, rdb.LPush(ctx, "list", "x").Err())
	for _, g := range gets {
		if _, err := g.call(ctx, c, "list", 10); !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("%s: %v, want WRONGTYPE", g.name, err)
		}
	}
	idle(t, c, 1)

	user := redistest.Start(
		t, redistest.Config("user reader on >secret ~mine:* +@read +hello +client"))
	o := optionsOf(user.Endpoint())
	o.Username, o.Password, o.ClientName = "reader", "secret", "large"
	c, _ = clientOf(t, o)
	for _, s := range sets {
		if err := s.call(ctx, c, "mine:k", []byte("v")); !redis.IsPermissionError(err) {
			t.Errorf("%s: %v, want NOPERM", s.name, err)
		}
	}
	user.Do(t, "SET", "mine:k", strings.Repeat("*2\r\n:5\r\n$3\r\nabc\r\n", 10))
	for _, g := range gets {
		if _, err := g.call(ctx, c, "mine:k", 1000); err != nil {
			t.Errorf("%s: the connection is not usable after an error: %v", g.name, err)
		}
		if _, err := g.call(ctx, c, "others:k", 1000); !redis.IsPermissionError(err) {
			t.Errorf("%s of another's key: %v, want NOPERM", g.name, err)
		}
	}
	idle(t, c, 1)

	o = optionsOf(user.Endpoint())
	o.Username, o.Password = "reader", "wrong"
	c, _ = clientOf(t, o)
	if _, err := c.GetToBuffer(ctx, "mine:k", nil); !redis.IsAuthError(err) ||
		!redis.HasErrorPrefix(err, "WRONGPASS") {
		t.Errorf("%v, want WRONGPASS", err)
	}
	locked := redistest.Start(t, redistest.Password("open"))
	o = optionsOf(locked.Endpoint())
	o.Password = ""
	for _, protocol := range []int{2, 3} {
		o.Protocol = protocol
		c, _ = clientOf(t, o)
		if _, err := c.GetToBuffer(ctx, "k", nil); !redis.IsAuthError(err) {
			t.Errorf("%v, want NOAUTH", err)
		}
		// Without the password, a server does not read large values: it closes the connection in
		// the middle.
		if err := c.SetFromBuffer(ctx, "k", randomValue(8<<20)); !isServerError(err) {
			t.Errorf("%v, want an error of the server", err)
		}
	}
}

// A server that is loading its data says so. Calls that may be retried wait for it.
func TestLoading(t *testing.T) {
	_, shared := shared(t)
	if has, err := shared.ConfigGet(bounded(t), "enable-debug-command").Result(); err != nil ||
		len(has) == 0 {
		need.Missing(t,
			"redis-server 7.0 for enable-debug-command, by which a server loads slowly: apt-get install redis-server")
	}
	s := redistest.Start(t, redistest.Config("enable-debug-command local", "key-load-delay 1000",
		"loading-process-events-interval-bytes 1024"))
	o := optionsOf(s.Endpoint())
	patient(o)
	o.MaxRetries = -1
	once, rdb := clientOf(t, o)
	o = optionsOf(s.Endpoint())
	patient(o)
	o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 200, 10*time.Millisecond,
		50*time.Millisecond
	again, _ := clientOf(t, o)
	ctx := bounded(t)
	must(t, rdb.Do(ctx, "DEBUG", "POPULATE", 2000, "key", 100).Err())
	want, err := rdb.Get(ctx, "key:1").Bytes()
	must(t, err)
	loaded := make(chan error, 1)
	go func() { loaded <- rdb.Do(ctx, "DEBUG", "RELOAD").Err() }()
	for !redis.IsLoadingError(err) {
		_, err = once.GetToBuffer(ctx, "key:1", make([]byte, 100))
		if err != nil && !redis.IsLoadingError(err) {
			t.Fatal(err)
		}
		select {
		case err := <-loaded:
			t.Fatal("it was too quick: ", err)
		default:
		}
	}
	if err := once.SetFromBuffer(ctx, "key:1", nil); !redis.IsLoadingError(err) ||
		!redis.HasErrorPrefix(err, "LOADING") {
		t.Errorf("%v, want LOADING", err)
	}
	got, err := gets[0].call(ctx, again, "key:1", 100)
	if err != nil || !bytes.Equal(got, want) {
		t.Error(got, err)
	}
	must(t, <-loaded)
	idle(t, once, 1)
}

// A value above the server's limit is refused when its header arrives. The connection is closed
// while the rest is sent.
func TestServerRefusesALargeValueInTheMiddle(t *testing.T) {
	s := redistest.Start(t, redistest.Config("proto-max-bulk-len 1mb"))
	c, _ := clientOf(t, optionsOf(s.Endpoint()))
	ctx := bounded(t)
	value := randomValue(32 << 20)
	for _, set := range sets {
		if err := set.call(ctx, c, "k", value); !redis.HasErrorPrefix(err, "Protocol error") {
			t.Errorf("%s: %v, want a protocol error of the server", set.name, err)
		}
		must(t, set.call(ctx, c, "k", value[:1<<20]))
	}
}

// errForeign is an error of another server. A reader or writer that uses another Redis client may
// return it.
var errForeign = serverError("LOADING Redis is loading the dataset in memory")

// A failing reader or writer passes so many bytes, and then returns err.
type failing struct {
	left int
	err  error
}

func (f *failing) Read(p []byte) (int, error) {
	n := min(len(p), f.left)
	if f.left -= n; n == 0 {
		return 0, f.err
	}
	return n, nil
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

type failingReaderFrom struct{ failing }

func (f *failingReaderFrom) ReadFrom(io.Reader) (int64, error) { return 0, f.err }

// The error of a writer is distinguished from an error of the server, even if it is the error of
// another Redis server. The call is not retried, and the next call is not affected.
func TestGetToAWriterThatFails(t *testing.T) {
	c, rdb := shared(t, MaxConns(1))
	ctx := bounded(t)
	for _, size := range []int{10, 100_000, 3 << 20} {
		value := randomValue(size)
		must(t, rdb.Set(ctx, "writer", value, 0).Err())
		for _, fails := range []error{io.ErrClosedPipe, errForeign} {
			for _, w := range []io.Writer{
				&failing{err: fails}, &failing{left: size / 2, err: fails},
				&failingReaderFrom{failing{err: fails}},
			} {
				if _, err := c.GetTo(ctx, "writer", w); !isA[*WriterError](err) ||
					!errors.Is(err, fails) || isServerError(err) {
					t.Errorf("%d: %v, want a WriterError", size, err)
				}
				got, err := gets[0].call(ctx, c, "writer", size)
				if err != nil || !bytes.Equal(got, value) {
					t.Errorf("%d: and then %d bytes, %v", size, len(got), err)
				}
			}
		}
	}
}

// If a reader fails or ends early, half a command is left on the connection, and no other call uses
// that connection.
func TestSetFromAReaderThatFails(t *testing.T) {
	c, rdb := shared(t, MaxConns(1))
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "reader", "before", 0).Err())
	for _, size := range []int{10, 100_000, 3 << 20} {
		for _, have := range []int{0, 1, size / 2, size - 1} {
			for fails, want := range map[error]error{
				io.ErrClosedPipe: io.ErrClosedPipe, errForeign: errForeign,
				io.EOF: io.ErrUnexpectedEOF,
			} {
				err := c.SetFrom(ctx, "reader", &failing{left: have, err: fails}, int64(size))
				if !isA[*ReaderError](err) || !errors.Is(err, want) {
					t.Errorf("%d of %d: %v, want a ReaderError", have, size, err)
				}
				check(t, rdb, "reader", []byte("before"))
			}
			must(t, c.SetFromBuffer(ctx, "reader/next", randomValue(size)))
		}
	}
	if err := c.SetFrom(ctx, "reader", nil, -1); err != errOffset {
		t.Error(err)
	}
}
