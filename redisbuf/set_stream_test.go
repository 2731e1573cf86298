package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"
)

// nothingReader gives nothing, but says that there is more.
type nothingReader struct{ times int }

func (r *nothingReader) Read([]byte) (int, error) {
	r.times++
	return 0, nil
}

// A reader that gives nothing does not have SetFrom wait for ever.
func TestSetFromAReaderThatGivesNothing(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "nothing", "before", 0).Err())
	for _, size := range []int64{1, 10, 100000} {
		r := new(nothingReader)
		var reader *ReaderError
		if err := c.SetFrom(ctx, "nothing", r, size); !errors.As(err, &reader) || !errors.Is(err, io.ErrNoProgress) {
			t.Error(err)
		}
		if r.times != maxEmptyReads {
			t.Errorf("read %d times", r.times)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.SetFrom(cancelled, "nothing", readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, nil
	}), 10); err != context.Canceled {
		t.Error(err)
	}
	check(t, rdb, "nothing", []byte("before"))
	value := randomValue(1000)
	half := iotest.DataErrReader(iotest.OneByteReader(&patchy{p: value}))
	must(t, c.SetFrom(ctx, "nothing", half, int64(len(value))))
	check(t, rdb, "nothing", value)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// patchy gives nothing every other time.
type patchy struct {
	p     []byte
	empty bool
}

func (r *patchy) Read(p []byte) (int, error) {
	if r.empty = !r.empty; r.empty && len(r.p) > 0 {
		return 0, nil
	}
	if len(r.p) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.p)
	r.p = r.p[n:]
	return n, nil
}

// A context that ends when all of a SET has left is no reason to say that it was not sent, whenever that is noticed.
func TestContextEndsBehindAValue(t *testing.T) {
	value := randomValue(sendfileLeast)
	f, err := os.Create(filepath.Join(t.TempDir(), "value"))
	must(t, err)
	defer f.Close()
	_, err = f.Write(value)
	must(t, err)
	request := int64(len("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$65536\r\n") + len(value) + len("\r\n"))
	for _, op := range []call{{verb: setFrom}, {verb: setFile, file: f}} {
		op.key, op.size = "k", int64(len(value))
		sent := 0
		for looks := 0; ; looks++ {
			client, server := tcpPair(t)
			whole := make(chan bool, 1)
			go func() {
				n, _ := io.CopyN(io.Discard, server, request)
				whole <- n == request
				_, _ = io.WriteString(server, "+OK\r\n")
			}()
			c := newConn(client, time.Minute, time.Hour, defaultMaxValue)
			c.resumes = false // so that the context is looked at from the beginning
			op.reader = bytes.NewReader(value)
			err := c.execute(&fickleContext{Context: context.Background(), looks: looks}, &op)
			client.Close()
			if err == nil {
				break
			}
			if all := <-whole; err != context.Canceled || all != c.sent {
				t.Errorf("verb %d, after %d looks: %v, all of it is there: %t, sent: %t", op.verb, looks, err, all, c.sent)
			} else if all {
				sent++
			}
		}
		if sent == 0 {
			t.Errorf("verb %d: the context has never ended behind the value", op.verb)
		}
	}
}

// A fickleContext is cancelled when it has been asked so often whether it is.
type fickleContext struct {
	context.Context
	looks int
}

func (c *fickleContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *fickleContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A file that is none, or does not say how long it is, is no value.
func TestSetFileOfOddFiles(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "odd", "before", 0).Err())
	set := func(f *os.File) error {
		p := c.Pipeline()
		r := p.SetFile("odd", f)
		err := c.SetFile(ctx, "odd", f)
		if piped := p.Exec(ctx); (piped == nil) != (err == nil) || r.Err() != piped {
			t.Errorf("%v in a pipeline, %v by itself", piped, err)
		}
		return err
	}
	for _, name := range []string{"/proc/self/status", "/dev/zero", "/dev/null", t.TempDir()} {
		f, err := os.Open(name)
		if err != nil {
			t.Log(err) // not on this system
			continue
		}
		if err := set(f); err == nil || isServerError(err) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, f.Close())
	}
	name := filepath.Join(t.TempDir(), "empty")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	must(t, err)
	var reader *ReaderError
	if err := set(f); !errors.As(err, &reader) {
		t.Error("of a file that cannot be read:", err)
	}
	must(t, f.Close())
	full, err := os.OpenFile(filepath.Join(t.TempDir(), "full"), os.O_WRONLY|os.O_CREATE, 0o600)
	must(t, err)
	defer full.Close()
	_, err = full.WriteString("after")
	must(t, err)
	if err := set(full); !errors.As(err, &reader) {
		t.Error("of a file with bytes that cannot be read:", err)
	}
	if err := set(nil); !errors.Is(err, os.ErrInvalid) {
		t.Error(err)
	}
	check(t, rdb, "odd", []byte("before"))
	f, err = os.Open(name)
	must(t, err)
	defer f.Close()
	must(t, set(f))
	check(t, rdb, "odd", nil)
}

// A file that is closed before its pipeline is executed is what has failed, and not the connection.
func TestSetFileThatIsClosed(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "closed", "before", 0).Err())
	for _, size := range []int64{10, sendfileLeast, 1 << 20} {
		f, err := os.Create(filepath.Join(t.TempDir(), "value"))
		must(t, err)
		must(t, f.Truncate(size))
		p := c.Pipeline()
		r := p.SetFile("closed", f)
		must(t, f.Close())
		var reader *ReaderError
		if err := p.Exec(ctx); !errors.As(err, &reader) || r.Err() != err {
			t.Errorf("%d bytes: %v", size, err)
		}
		check(t, rdb, "closed", []byte("before"))
	}
}

// An expiry that Redis does not know is told apart from one that has passed.
func TestShortExpiry(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	for _, d := range []time.Duration{0, -1, 1, time.Millisecond - 1} {
		if err := c.SetFromBuffer(ctx, "short", nil, Expire(d)); err != errExpiry {
			t.Error(d, err)
		}
	}
	must(t, c.SetFromBuffer(ctx, "short", nil, Expire(time.Millisecond)))
	must(t, c.SetFromBuffer(ctx, "short", nil, ExpireAt(time.Now().Add(-time.Hour))))
	if n := rdb.Exists(ctx, "short").Val(); n != 0 {
		t.Error("it is there, and has expired an hour ago")
	}
}
