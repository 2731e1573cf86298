//go:build unix

package chunk_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// answering returns a function that has a server answer requests with a file of size bytes, one after the other on one
// connection, as often as it is told to. With a length, the handler sets the Content-Length, as those do that know that
// net/http's sendfile depends on it.
func answering(b *testing.B, size int, length bool, m wrapper) func(copyFunc, int) error {
	var how atomic.Pointer[copyFunc]
	src := fileOf(b, make([]byte, size))
	url := serveWith(b, m, func(w http.ResponseWriter, _ *http.Request) {
		if length {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		if err := (*how.Load())(w, rewind(b, src)); err != nil {
			b.Error(err)
		}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	r := bufio.NewReaderSize(conn, 256<<10)
	get := []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	return func(do copyFunc, times int) error {
		how.Store(&do)
		return repeated(func(copyFunc) error {
			if _, err := conn.Write(get); err != nil {
				return err
			}
			answer, err := http.ReadResponse(r, nil)
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, answer.Body)
			if err == nil && n != int64(size) {
				err = io.ErrUnexpectedEOF
			}
			return err
		})(do, times)
	}
}
