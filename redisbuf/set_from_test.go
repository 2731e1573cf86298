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

// If a reader repeatedly returns nothing, SetFrom gives up.
func TestSetFromAReaderThatGivesNothing(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "nothing", "before", 0).Err())
	for _, size := range []int64{1, 10, 100000} {
		times := 0
		r := readerFunc(func([]byte) (int, error) {
			times++
			return 0, nil
		})
		if err := c.SetFrom(ctx, "nothing", r, size); !isA[*ReaderError](err) ||
			!errors.Is(err, io.ErrNoProgress) {
			t.Error(err)
		}
		if times != maxEmptyReads {
			t.Errorf("read %d times", times)
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
	whole, nothing := iotest.DataErrReader(iotest.OneByteReader(bytes.NewReader(value))), false
	must(t, c.SetFrom(ctx, "nothing", readerFunc(func(p []byte) (int, error) {
		if nothing = !nothing; nothing {
			return 0, nil
		}
		return whole.Read(p)
	}), int64(len(value))))
	check(t, rdb, "nothing", value)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// If a context ends after the whole SET was sent, the error never says that it was not sent.
func TestContextEndsBehindAValue(t *testing.T) {
	value := randomValue(minSendfile)
	f, err := os.Create(filepath.Join(t.TempDir(), "value"))
	must(t, err)
	defer f.Close()
	_, err = f.Write(value)
	must(t, err)
	request := int64(len("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$65536\r\n") + len(value) + len("\r\n"))
	for name, newCmd := range map[string]func() (command, error){
		"SetFrom": func() (command, error) {
			return newSetFrom("k", bytes.NewReader(value), int64(len(value)), nil)
		},
		"SetFile": func() (command, error) { return newSetFile("k", f, nil) },
	} {
		sent := 0
		for looks := 0; ; looks++ {
			client, server := tcpPair(t)
			whole := make(chan bool, 1)
			go func() {
				n, _ := io.CopyN(io.Discard, server, request)
				whole <- n == request
				_, _ = io.WriteString(server, "+OK\r\n")
			}()
			c := newConn(client, time.Minute, time.Hour)
			cmd, err := newCmd()
			must(t, err)
			err = c.run(&fickleContext{Context: context.Background(), looks: looks}, cmd)
			c.close()
			if err == nil {
				break
			}
			if all := <-whole; err != context.Canceled || all != c.sent {
				t.Errorf("%s, after %d looks: %v, all of it is there: %t, sent: %t", name, looks,
					err, all, c.sent)
			} else if all {
				sent++
			}
		}
		if sent == 0 {
			t.Errorf("%s: the context has never ended behind the value", name)
		}
	}
}

// A fickleContext is cancelled after a number of calls of Err.
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

// Directories and files without a length are refused.
func TestSetFileOfOddFiles(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "odd", "before", 0).Err())
	set := func(f *os.File) error {
		return c.SetFile(ctx, "odd", f)
	}
	for _, name := range []string{"/proc/self/status", "/dev/zero", "/dev/null", t.TempDir()} {
		f, err := os.Open(name)
		if err != nil {
			t.Log(err) // does not exist on this system
			continue
		}
		if err := set(f); err == nil || isServerError(err) {
			t.Errorf("%s: %v, want an error before the call", name, err)
		}
		must(t, f.Close())
	}
	name := filepath.Join(t.TempDir(), "empty")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	must(t, err)
	if err := set(f); !isA[*ReaderError](err) {
		t.Error("of a file that cannot be read:", err)
	}
	must(t, f.Close())
	full, err := os.OpenFile(filepath.Join(t.TempDir(), "full"), os.O_WRONLY|os.O_CREATE, 0o600)
	must(t, err)
	defer full.Close()
	_, err = full.WriteString("after")
	must(t, err)
	if err := set(full); !isA[*ReaderError](err) {
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

// If a file is closed during its SET, the error is the file's, and not the connection's.
func TestSetFileThatIsClosed(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "closed", "before", 0).Err())
	for _, size := range []int64{10, minSendfile, 1 << 20} {
		f, err := os.Create(filepath.Join(t.TempDir(), "value"))
		must(t, err)
		must(t, f.Truncate(size))
		cmd, err := newSetFile("closed", f, nil)
		must(t, err)
		must(t, f.Close())
		if err := c.do(ctx, cmd); !isA[*ReaderError](err) {
			t.Errorf("%d bytes: %v, want a ReaderError", size, err)
		}
		check(t, rdb, "closed", []byte("before"))
	}
}
