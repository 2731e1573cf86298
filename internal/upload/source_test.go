package upload

import (
	"bufio"
	"io"
	"net"
	"net/http/httputil"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// What one try is about to get from standard input is lost for the next one: there must be none, although nothing has been
// read yet.
func TestATryThatStillReadsStandardInput(t *testing.T) {
	const goOn, busy = "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 503 x\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
	r, w := io.Pipe()
	reads := make(chan struct{}, 1)
	var tries atomic.Int32
	url := rude(t, func(c net.Conn, body *bufio.Reader) {
		_, _ = io.WriteString(c, goOn)
		if tries.Add(1) == 1 {
			<-reads
			_, _ = io.WriteString(c, busy)
			return
		}
		go func() {
			_, _ = io.WriteString(w, "the beginning, ")
			_, _ = io.WriteString(w, "and the end")
			_ = w.Close()
		}()
		p, _ := io.ReadAll(httputil.NewChunkedReader(body))
		t.Errorf("%q came", p)
		_, _ = io.WriteString(c, "HTTP/1.1 201 x\r\nContent-Length: 0\r\n\r\n")
	})
	cfg := quick(url)
	cfg.Stdin = &announced{r: r, reads: reads}
	result, err := Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "cannot be read again") || result.Tries != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	_ = w.Close()
}

// announced tells that somebody reads.
type announced struct {
	r     io.Reader
	reads chan struct{}
}

func (a *announced) Read(p []byte) (int, error) {
	select {
	case a.reads <- struct{}{}:
	default:
	}
	return a.r.Read(p)
}

// A file that says it is empty, and is not, is sent with what it has.
func TestAFileOfUnknownLength(t *testing.T) {
	const name = "/proc/version"
	want, err := os.ReadFile(name)
	if err != nil {
		t.Skip(err)
	}
	o := serve(t)
	o.answers = append(o.answers, o.takes(201))
	cfg := quick(o.URL)
	cfg.Path = name
	if result, err := Run(t.Context(), cfg); err != nil || result.Bytes != int64(len(want)) {
		t.Errorf("%+v, %v", result, err)
	}
	if len(o.bodies) != 1 || o.bodies[0] != string(want) {
		t.Errorf("%q came", o.bodies)
	}
}
