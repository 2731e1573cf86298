package redisbuf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// lengths records the calls of the function of OnLength.
type lengths struct {
	calls []int64
	err   error
}

func (l *lengths) option() GetToOption {
	return OnLength(func(n int64) error {
		l.calls = append(l.calls, n)
		return l.err
	})
}

// The function of OnLength can write a length prefix before the value, whatever the writer.
func TestOnLengthWritesAPrefix(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	for _, size := range []int{0, 1, 5000, 200_000, 3 << 20} {
		value := randomValue(size)
		must(t, rdb.Set(ctx, "length", value, 0).Err())
		for name, test := range map[string]struct {
			get  func(w io.Writer, opt GetToOption) (int64, error)
			want []byte
		}{
			"GetTo": {func(w io.Writer, opt GetToOption) (int64, error) {
				return c.GetTo(ctx, "length", w, opt)
			}, value},
			"GetRangeTo": {func(w io.Writer, opt GetToOption) (int64, error) {
				return c.GetRangeTo(ctx, "length", 1, 150_000, w, opt)
			}, value[min(1, size):min(150_001, size)]},
			"GetRangeTo of nothing": {func(w io.Writer, opt GetToOption) (int64, error) {
				return c.GetRangeTo(ctx, "length", 1, 0, w, opt)
			}, nil},
			"GetRangeTo of no value": {func(w io.Writer, opt GetToOption) (int64, error) {
				return c.GetRangeTo(ctx, "length/none", 1, 9, w, opt)
			}, nil},
		} {
			framed := func(w io.Writer) (int64, error) {
				n, err := test.get(w, OnLength(func(n int64) error {
					return binary.Write(w, binary.BigEndian, n)
				}))
				if n != int64(len(test.want)) {
					t.Errorf("%s of %d: n is %d, want %d", name, size, n, len(test.want))
				}
				return n, err
			}
			want := append(binary.BigEndian.AppendUint64(nil, uint64(len(test.want))), test.want...)
			var b, plain bytes.Buffer
			_, err := framed(&b)
			must(t, err)
			_, err = framed(plainWriter{&plain})
			must(t, err)
			socket, err := throughSocket(framed)
			must(t, err)
			for kind, got := range map[string][]byte{"buffer": b.Bytes(), "Writer": plain.Bytes(),
				"socket": socket} {
				if !bytes.Equal(got, want) {
					t.Errorf("%s of %d to a %s: %d bytes, want the frame of %d", name, size, kind,
						len(got), len(want))
				}
			}
		}
	}
	idle(t, c, 1)
}

// If the function of OnLength fails, nothing is written, and the error wraps the function's error,
// even if that is a reply of a server.
func TestOnLengthFails(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	for _, size := range []int{0, 10, 100_000, maxSkip + 1} {
		must(t, rdb.Set(ctx, "length/err", randomValue(size), 0).Err())
		for _, reason := range []error{errors.New("no room"), redis.Nil, context.Canceled} {
			l, b := lengths{err: reason}, bytes.Buffer{}
			n, err := c.GetTo(ctx, "length/err", &b, l.option())
			if !isA[*WriterError](err) || !errors.Is(err, reason) || n != 0 || b.Len() != 0 {
				t.Errorf("%d bytes: %d, %v, and %d are written", size, n, err, b.Len())
			}
			if !slices.Equal(l.calls, []int64{int64(size)}) {
				t.Errorf("calls with %d, want %d", l.calls, size)
			}
		}
		got, err := gets[0].call(ctx, c, "length/err", size)
		if err != nil || len(got) != size {
			t.Errorf("the next call: %d bytes, %v", len(got), err)
		}
	}
}

// The function of OnLength is called only once, and only for a value: a call is retried before it,
// and not after it.
func TestOnLengthIsCalledOnce(t *testing.T) {
	p := redistest.Shared(t).Proxy(t)
	c, rdb := clientOf(t, optionsOf(p.Endpoint()))
	ctx := bounded(t)
	const size = 200_000
	const header = int64(len("$200000\r\n"))
	must(t, rdb.Set(ctx, "length/once", randomValue(size), 0).Err())
	must(t, rdb.Del(ctx, "length/list").Err())
	must(t, rdb.LPush(ctx, "length/list", "x").Err())
	for _, cut := range []int64{-1, 0, 3, header, header + 1, header + 100_000} {
		for name, w := range map[string]io.Writer{"buffer": new(bytes.Buffer),
			"Writer": plainWriter{io.Discard}} {
			if p.Set(); cut >= 0 {
				p.Set(redistest.CutReply(cut).On("\r\nlength/once\r\n").Once())
			}
			var l lengths
			n, err := c.GetTo(ctx, "length/once", w, l.option())
			if complete := cut <= header; (err == nil) != complete ||
				complete && n != size || !slices.Equal(l.calls, []int64{size}) {
				t.Errorf("%s, cut at %d: %d, %v, and calls with %d", name, cut, n, err, l.calls)
			}
		}
	}
	p.Set()
	for key, want := range map[string]string{"length/none": "redis: nil",
		"length/list": "WRONGTYPE"} {
		var l lengths
		_, err := c.GetTo(ctx, key, io.Discard, l.option())
		if err == nil || !strings.HasPrefix(err.Error(), want) || len(l.calls) > 0 {
			t.Errorf("%s: %v, and calls with %d", key, err, l.calls)
		}
	}
}

// A redirected call tells only the length of the value that it writes.
func TestOnLengthOfARedirectedCall(t *testing.T) {
	for _, word := range []string{"MOVED", "ASK"} {
		there := redistest.StartHostile(t, redistest.Say("$5\r\nvalue\r\n"))
		here := redistest.StartHostile(t, redistest.Say("-"+word+" 1 "+there.Addr()+"\r\n"))
		o := optionsOf(here.Endpoint())
		o.Protocol = 2
		c, _ := clientOf(t, o)
		c.router.redirects = true
		var l lengths
		var b bytes.Buffer
		n, err := c.GetTo(bounded(t), "k", &b, l.option())
		if err != nil || n != 5 || b.String() != "value" || !slices.Equal(l.calls, []int64{5}) {
			t.Errorf("%s: %d, %v, %q, and calls with %d", word, n, err, &b, l.calls)
		}
	}
}

// A call that the function of OnLength makes on the same Conn fails, and changes nothing.
func TestOnLengthOfAConn(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "length/conn", "value", 0).Err())
	conn, err := c.Conn(ctx)
	must(t, err)
	defer conn.Close()
	var b bytes.Buffer
	_, err = conn.GetTo(ctx, "length/conn", &b, OnLength(func(int64) error {
		if _, err := conn.GetToBuffer(ctx, "length/conn", nil); err != ErrConnBusy {
			t.Errorf("%v, want ErrConnBusy", err)
		}
		return nil
	}))
	if err != nil || b.String() != "value" {
		t.Errorf("%q, %v", &b, err)
	}
}

// A wrapper is a middleware's response without ReadFrom.
type wrapper struct {
	http.ResponseWriter
	wrote int
}

func (w *wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *wrapper) Write(p []byte) (int, error) {
	w.wrote += len(p)
	return w.ResponseWriter.Write(p)
}

// endless wraps itself.
type endless struct{ wrapper }

func (e *endless) Unwrap() http.ResponseWriter { return e }

// GetTo declares the length of a response, unless the handler or a middleware may know better.
func TestGetToDeclaresTheLength(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	get := func(w http.ResponseWriter) (int64, error) { return c.GetTo(ctx, "declare", w) }
	set := func(name, value string) func(w http.ResponseWriter) (int64, error) {
		return func(w http.ResponseWriter) (int64, error) {
			w.Header().Set(name, value)
			return get(w)
		}
	}
	wrapped := func(name, value string) func(w http.ResponseWriter) (int64, error) {
		return func(w http.ResponseWriter) (int64, error) {
			w.Header().Set(name, value)
			inner := &wrapper{ResponseWriter: w}
			n, err := get(inner)
			if encoded := name != "X"; encoded != (int64(inner.wrote) == n) {
				t.Errorf("%s: the middleware has seen %d bytes of %d", name, inner.wrote, n)
			}
			return n, err
		}
	}
	const size = 300_000
	value := randomValue(size)
	must(t, rdb.Set(ctx, "declare", value, 0).Err())
	for name, test := range map[string]struct {
		method string
		handle func(w http.ResponseWriter) (int64, error)
		length int64 // of the response; -1 for none
		want   []byte
	}{
		"plain":            {"GET", get, size, value},
		"HEAD":             {"HEAD", get, size, nil},
		"its own length":   {"GET", set("Content-Length", "300000"), size, value},
		"trailers":         {"GET", set("Trailer", "X"), -1, value},
		"encoded":          {"GET", set("Content-Encoding", "x"), size, value},
		"wrapped":          {"GET", wrapped("X", "y"), size, value},
		"wrapped, encoded": {"GET", wrapped("Content-Encoding", "x"), -1, value},
		"wrapped, may be encoded": {"GET", wrapped("Vary", "Origin, Accept-Encoding"), -1,
			value},
		"wraps itself": {"GET", func(w http.ResponseWriter) (int64, error) {
			return get(&endless{wrapper{ResponseWriter: w}})
		}, size, value},
		"no Unwrap": {"GET", func(w http.ResponseWriter) (int64, error) {
			return get(struct{ http.ResponseWriter }{w})
		}, size, value},
		"after a header": {"GET", func(w http.ResponseWriter) (int64, error) {
			w.WriteHeader(http.StatusOK)
			return get(w)
		}, -1, value},
		"after a header and before more": {"GET", func(w http.ResponseWriter) (int64, error) {
			w.WriteHeader(http.StatusOK)
			n, err := get(w)
			if err == nil {
				_, err = io.WriteString(w, "more")
			}
			return n, err
		}, -1, append(slices.Clone(value), "more"...)},
		"OnLength": {"GET", func(w http.ResponseWriter) (int64, error) {
			return c.GetTo(ctx, "declare", w, OnLength(func(int64) error { return nil }))
		}, -1, value},
		"OnLength that declares": {"GET", func(w http.ResponseWriter) (int64, error) {
			return c.GetTo(ctx, "declare", &wrapper{ResponseWriter: w},
				OnLength(func(n int64) error {
					w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
					return nil
				}))
		}, size, value},
		"ranges": {"GET", func(w http.ResponseWriter) (int64, error) {
			n, err := c.GetRangeTo(ctx, "declare", 0, 100_000, w)
			if err != nil {
				return n, err
			}
			m, err := c.GetRangeTo(ctx, "declare", 100_000, size, w)
			return n + m, err
		}, -1, value},
	} {
		t.Run(name, func(t *testing.T) {
			length, got := response(t, test.method, func(w http.ResponseWriter) {
				if n, err := test.handle(w); err != nil || n != size {
					t.Error(n, err)
				}
			})
			if length != test.length || !bytes.Equal(got, test.want) {
				t.Errorf("Content-Length %d and %d bytes, want %d and %d", length, len(got),
					test.length, len(test.want))
			}
		})
	}
	idle(t, c, 1)
}

// response returns the Content-Length and the body of a response that handle writes.
func response(t *testing.T, method string, handle func(w http.ResponseWriter)) (int64, []byte) {
	t.Helper()
	handled := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(handled)
		handle(w)
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	req, _ := http.NewRequest(method, server.URL, nil)
	resp, err := server.Client().Do(req)
	must(t, err)
	got, err := io.ReadAll(resp.Body)
	must(t, err)
	resp.Body.Close()
	<-handled
	return resp.ContentLength, got
}

// A failed GetTo leaves a response in which the handler can still report the error.
func TestGetToLeavesTheResponseToTheHandler(t *testing.T) {
	p := redistest.Shared(t).Proxy(t)
	o := optionsOf(p.Endpoint())
	o.MaxRetries = -1
	c, rdb := clientOf(t, o)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "leave", randomValue(300_000), 0).Err())
	for name, test := range map[string]struct {
		key    string
		length string
		cut    int64
		want   error
	}{
		"no such key":    {key: "leave/none", want: redis.Nil},
		"cut":            {key: "leave", cut: int64(len("$300000\r\n")), want: io.ErrUnexpectedEOF},
		"a wrong length": {key: "leave", length: "299999", want: http.ErrContentLength},
	} {
		if p.Set(); test.cut > 0 {
			p.Set(redistest.CutReply(test.cut).On("\r\nleave\r\n"))
		}
		length, got := response(t, "GET", func(w http.ResponseWriter) {
			if test.length != "" {
				w.Header().Set("Content-Length", test.length)
			}
			n, err := c.GetTo(ctx, test.key, w)
			if n != 0 || !errors.Is(err, test.want) {
				t.Errorf("%s: %d, %v, want %v", name, n, err, test.want)
			}
			if test.length == "" && len(w.Header()["Content-Length"]) > 0 {
				t.Errorf("%s: a Content-Length", name)
			}
			http.Error(w, "sorry", http.StatusBadGateway)
		})
		if length != 6 || string(got) != "sorry\n" {
			t.Errorf("%s: %d, %q", name, length, got)
		}
	}
}
