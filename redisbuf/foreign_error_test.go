package redisbuf

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// errForeign is what a reader or writer may give that stands on a Redis client of its own: an error of another server.
var errForeign = serverError("LOADING Redis is loading the dataset in memory")

// foreignReader gives so many bytes, and then that.
func foreignReader(n int) io.Reader {
	return io.MultiReader(strings.NewReader(strings.Repeat("x", n)), errReader{errForeign})
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// A reader that fails with an error of another server leaves half a command on the connection, which no other call gets.
func TestSetFromAReaderWithTheErrorOfAnotherServer(t *testing.T) {
	c, rdb := shared(t, Conns(1))
	ctx := bounded(t)
	old, next := []byte("old"), randomValue(100_000)
	for _, size := range []int{10, 100_000, 300_000} {
		must(t, rdb.Set(ctx, "foreign", old, 0).Err())
		var reader *ReaderError
		err := c.SetFrom(ctx, "foreign", foreignReader(size/2), int64(size))
		if !errors.As(err, &reader) || !errors.Is(err, errForeign) {
			t.Errorf("%d bytes: %v, want a ReaderError", size, err)
		}
		must(t, c.SetFromBuffer(ctx, "foreign/next", next))
		check(t, rdb, "foreign", old)
		check(t, rdb, "foreign/next", next)
	}
}

// foreignWriter fails with such an error after so many bytes.
type foreignWriter struct{ left int }

func (w *foreignWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errForeign
	}
	return len(p), nil
}

// What a writer fails with is not what this server has said: the call is not retried, and the topology is not reloaded.
func TestGetToAWriterWithTheErrorOfAnotherServer(t *testing.T) {
	c, rdb := shared(t, Conns(1))
	ctx := bounded(t)
	value := randomValue(300_000)
	must(t, rdb.Set(ctx, "foreign", value, 0).Err())
	var writer *WriterError
	if _, err := c.GetTo(ctx, "foreign", &foreignWriter{left: 100_000}); !errors.As(err, &writer) || isServerError(err) {
		t.Errorf("%v, want a WriterError", err)
	}
	var b bytes.Buffer
	if _, err := c.GetTo(ctx, "foreign", &b); err != nil || !bytes.Equal(b.Bytes(), value) {
		t.Errorf("and then %d bytes, %v", b.Len(), err)
	}
	if _, err := c.GetToBuffer(ctx, "none", nil); err != redis.Nil {
		t.Error(err)
	}
}
