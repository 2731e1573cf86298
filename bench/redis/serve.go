package redis

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// A handler serves the value over HTTP, like a Redis sidecar.
type handler func(f *fixture, w http.ResponseWriter, req *http.Request) error

func goRedisServe(f *fixture, w http.ResponseWriter, req *http.Request) error {
	p, err := f.goredis.Get(req.Context(), key).Bytes()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(p)))
	_, err = w.Write(p)
	return err
}

func rueidisServe(f *fixture, w http.ResponseWriter, req *http.Request) error {
	values := f.rueidis.DoStream(req.Context(), f.rueidis.B().Get().Key(key).Build())
	for values.HasNext() {
		if _, err := values.WriteTo(w); err != nil {
			return err
		}
	}
	if err := values.Error(); err != io.EOF {
		return err
	}
	return nil
}

// redisbufServeChunked writes the header first, so that GetTo cannot set a Content-Length.
func redisbufServeChunked(f *fixture, w http.ResponseWriter, req *http.Request) error {
	w.WriteHeader(http.StatusOK)
	_, err := f.redisbuf.GetTo(req.Context(), key, w)
	return err
}

func redisbufServe(f *fixture, w http.ResponseWriter, req *http.Request) error {
	_, err := f.redisbuf.GetTo(req.Context(), key, w)
	return err
}

// serving returns a worker that serves the value with h on one connection. A child process sends
// the requests, so that the CPU time of this process is only the sidecar's.
func serving(h handler) func(*fixture) (call, error) {
	return func(f *fixture) (call, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		srv := &http.Server{Handler: http.HandlerFunc(
			func(w http.ResponseWriter, req *http.Request) {
				if err := h(f, w, req); err != nil {
					panic(http.ErrAbortHandler) // the call fails, because the body is incomplete
				}
			})}
		go srv.Serve(l)
		f.add(srv)
		addr := l.Addr().String()
		if f.audit != nil {
			return audited(f, addr)
		}
		cmd, err := measure.Self(requester, addr, strconv.Itoa(f.size))
		if err != nil {
			return nil, err
		}
		child, err := measure.StartChild(cmd)
		if err != nil {
			return nil, err
		}
		f.add(child)
		return func(context.Context) error {
			answer, err := child.Ask("get")
			if err == nil && answer != "ok\n" {
				err = fmt.Errorf("redis: the requester reports %q", strings.TrimSpace(answer))
			}
			return err
		}, nil
	}
}

// audited returns a call that requests the value and passes it to f.audit. Unlike requester, the
// call runs in this process.
func audited(f *fixture, addr string) (call, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	f.add(conn)
	in := bufio.NewReader(conn)
	return func(context.Context) error { return request(conn, in, auditor{f}, f.size) }, nil
}

// requester is a child process that requests a value for each line of its input. Its arguments are
// the address of the sidecar and the size of the value.
var requester = measure.RegisterChild("redis-requester", func(args []string) error {
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer := "ok"
		if err := request(conn, in, io.Discard, size); err != nil {
			answer = err.Error()
		}
		fmt.Println(answer)
	}
	return nil
})

// request sends an HTTP request on conn, reads the response from in, and writes the value to w.
func request(conn net.Conn, in *bufio.Reader, w io.Writer, size int) error {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: sidecar\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(w, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n != int64(size)) {
		err = fmt.Errorf("redis: %s with %d bytes", resp.Status, n)
	}
	return err
}
