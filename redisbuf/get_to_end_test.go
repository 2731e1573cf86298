package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

// blockedSize is the size of a value that is longer than the buffers of a connection.
const blockedSize = 20 << 20

// soon is the time that a test gives a call to reach its blocked writer. If the time is too short,
// the test ends the call earlier, with the same result.
const soon = 50 * time.Millisecond

// usable fails the test unless c can start as many calls as it may have connections.
func usable(t *testing.T, c *Client, key string, size int) {
	t.Helper()
	eventually(t, func() bool { return c.Stats().InUse == 0 && !taken(c) })
	if s := c.Stats(); s.Conns != 0 {
		t.Errorf("%d connections in the middle of a value are kept", s.Conns)
	}
	if _, err := c.GetToBuffer(bounded(t), key, make([]byte, size)); err != nil {
		t.Error(err)
	}
}

// A socket with a peer that does not read cannot prevent GetTo from ending. The socket has no
// deadline afterwards.
func TestGetToEndsWhileASocketHangs(t *testing.T) {
	c, rdb := shared(t, MaxConns(1))
	must(t, rdb.Set(bounded(t), "hang", randomValue(blockedSize), 0).Err())
	hidden := func(w net.Conn) io.Writer { // without ReadFrom
		return struct {
			io.Writer
			writeWaker
		}{w, w}
	}
	plain := func(w net.Conn) io.Writer { return w }
	whole := func(ctx context.Context, w io.Writer) (int64, error) {
		return c.GetTo(ctx, "hang", w)
	}
	part := func(ctx context.Context, w io.Writer) (int64, error) {
		return c.GetRangeTo(ctx, "hang", 1, blockedSize, w)
	}
	inOnLength := func(ctx context.Context, w io.Writer) (int64, error) {
		return c.GetTo(ctx, "hang", w, OnLength(func(n int64) error {
			_, err := w.Write(make([]byte, blockedSize))
			return err
		}))
	}
	for name, test := range map[string]struct {
		get  func(ctx context.Context, w io.Writer) (int64, error)
		wrap func(w net.Conn) io.Writer
	}{
		"GetTo": {whole, plain}, "GetTo, copied": {whole, hidden},
		"GetRangeTo": {part, plain}, "GetRangeTo, copied": {part, hidden},
		"OnLength": {inOnLength, plain},
	} {
		w, r := tcpPair(t)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		n, err := test.get(ctx, test.wrap(w))
		cancel()
		if err != context.DeadlineExceeded || n >= blockedSize {
			t.Errorf("%s: %d, %v, want a part and context.DeadlineExceeded", name, n, err)
		}
		usable(t, c, "hang", blockedSize)
		c.drop(t)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, r)
		}()
		if _, err := io.WriteString(w, "after it"); err != nil {
			t.Errorf("%s: the deadline is still there: %v", name, err)
		}
		w.Close()
		<-drained
	}
}

// HTTP clients that do not read cannot prevent GetTo from ending, with or without a middleware. The
// response stays incomplete.
func TestGetToEndsWhileAnHTTPClientHangs(t *testing.T) {
	const calls = 2
	c, rdb := shared(t, MaxConns(calls))
	must(t, rdb.Set(bounded(t), "hang", randomValue(blockedSize), 0).Err())
	for name, wrap := range map[string]func(w http.ResponseWriter) http.ResponseWriter{
		"plain": func(w http.ResponseWriter) http.ResponseWriter { return w },
		"wrapped": func(w http.ResponseWriter) http.ResponseWriter {
			return &wrapper{ResponseWriter: w}
		},
		"chunked": func(w http.ResponseWriter) http.ResponseWriter {
			w.WriteHeader(http.StatusOK)
			return w
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, calls)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			n, err := c.GetTo(ctx, "hang", wrap(w))
			if n >= blockedSize {
				err = errors.New("the whole value was written")
			}
			errs <- err
		}))
		var clients []net.Conn
		for range calls {
			client, err := net.Dial("tcp", server.Listener.Addr().String())
			must(t, err)
			clients = append(clients, client)
			_, err = fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			must(t, err)
		}
		for _, client := range clients { // GetTo has begun to write
			_, err := io.ReadFull(client, make([]byte, 1))
			must(t, err)
		}
		cancel()
		for range calls {
			if err := <-errs; err != context.Canceled {
				t.Errorf("%s: %v, want context.Canceled", name, err)
			}
		}
		usable(t, c, "hang", blockedSize)
		c.drop(t)
		for _, client := range clients {
			got, _ := io.ReadAll(client) // ends although the client does not close the connection
			if len(got) >= blockedSize {
				t.Errorf("%s: a complete response", name)
			}
			client.Close()
		}
		server.Close()
	}
}

// drop closes the idle connections.
func (c *Client) drop(t *testing.T) {
	t.Helper()
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, n := range c.nodes {
		n.reset()
	}
}

// A context that ends after the value is written leaves no deadline, even if later calls use the
// same context.
func TestGetToLeavesTheDeadlineOfACompleteWriter(t *testing.T) {
	c, rdb := shared(t)
	must(t, rdb.Set(bounded(t), "complete", randomValue(1000), 0).Err())
	w, r := tcpPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 { // the third call finds the context registered
		_, err := c.GetTo(ctx, "complete", w)
		must(t, err)
	}
	cancel()
	if n, err := c.GetTo(ctx, "complete", w); n != 0 || err != context.Canceled {
		t.Error(n, err)
	}
	_, err := io.WriteString(w, "after it")
	must(t, err)
	w.Close()
	if got, err := io.ReadAll(r); err != nil || len(got) != 3008 {
		t.Error(len(got), err)
	}
}

// A miscounting writer reads everything, and returns a count that is off by a number.
type miscounting struct {
	io.Writer
	off int64
}

func (m miscounting) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, r)
	return n + m.off, err
}

// A ReadFrom that returns a wrong count ends the call. GetTo never returns a count that is out of
// range.
func TestGetToOfAMiscountingReadFrom(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	const size = 1 << 20
	must(t, rdb.Set(ctx, "miscount", randomValue(size), 0).Err())
	for _, off := range []int64{-1 << 50, -size, -1, 1, size, 1 << 50} {
		n, err := c.GetTo(ctx, "miscount", miscounting{io.Discard, off})
		if runtime.GOOS != "linux" {
			continue // ReadFrom is not used
		}
		if !errors.Is(err, io.ErrShortWrite) || n < 0 || n > size {
			t.Errorf("off by %d: %d, %v, want io.ErrShortWrite", off, n, err)
		}
	}
	_, err := c.GetToBuffer(ctx, "miscount", make([]byte, size))
	must(t, err)
}

// An uncomparable response is a middleware's struct value with a map.
type uncomparable struct {
	http.ResponseWriter
	_ map[string]string
}

func (u uncomparable) Unwrap() http.ResponseWriter { return u.ResponseWriter }

type uncomparableReaderFrom struct{ uncomparable }

func (u uncomparableReaderFrom) ReadFrom(r io.Reader) (int64, error) {
	return u.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
}

// A middleware's response may have a type that cannot be compared.
func TestGetToOfAnUncomparableResponse(t *testing.T) {
	c, rdb := shared(t)
	const size = 300_000
	must(t, rdb.Set(bounded(t), "uncomparable", randomValue(size), 0).Err())
	for name, wrap := range map[string]func(u uncomparable) http.ResponseWriter{
		"Write":    func(u uncomparable) http.ResponseWriter { return u },
		"ReadFrom": func(u uncomparable) http.ResponseWriter { return uncomparableReaderFrom{u} },
	} {
		length, got := response(t, "GET", func(w http.ResponseWriter) {
			n, err := c.GetTo(bounded(t), "uncomparable", wrap(uncomparable{ResponseWriter: w}))
			if n != size || err != nil {
				t.Error(name, n, err)
			}
		})
		if length != size || len(got) != size {
			t.Errorf("%s: length %d, %d bytes", name, length, len(got))
		}
	}
}
