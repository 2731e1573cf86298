package redisbuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

func TestReaderAtIsAReader(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	for _, size := range []int{0, 1, 1000, 100000} {
		value := randomValue(size)
		must(t, rdb.Set(ctx, "ra", value, 0).Err())
		r, err := c.ReaderAt(ctx, "ra")
		must(t, err)
		if r.Size() != int64(size) {
			t.Fatal(r.Size())
		}
		if size <= 1000 { // each of its many reads is a round trip
			must(t, iotest.TestReader(r, value))
		}
		must(t, r.Close())
	}
	idle(t, c, 1)
}

// Reads, seeks and ranges in any order give the same results as a bytes.Reader.
func TestReaderAtBesideABytesReader(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	value := randomValue(3<<20 + 17)
	must(t, rdb.Set(ctx, "rb", value, 0).Err())
	r, err := c.ReaderAt(ctx, "rb")
	must(t, err)
	defer r.Close()
	oracle := bytes.NewReader(value)
	for range 600 {
		size := rand.N(1 << rand.N(22))
		p, q := guarded(size), make([]byte, size)
		switch rand.N(4) {
		case 0:
			off := rand.N(int64(len(value) + 10))
			n, err := r.ReadAt(p, off)
			m, want := oracle.ReadAt(q, off)
			if n != m || err != want && size > 0 || !bytes.Equal(intact(p)[:n], q[:m]) {
				t.Fatalf("ReadAt(%d, %d): %d, %v, want %d, %v", size, off, n, err, m, want)
			}
		case 1:
			whence := rand.N(3)
			off := rand.N(int64(len(value))) - int64(whence)*int64(len(value))/2
			n, err := r.Seek(off, whence)
			m, want := oracle.Seek(off, whence)
			if (err == nil) != (want == nil) || err == nil && n != m {
				t.Fatalf("Seek(%d, %d): %d, %v, want %d, %v", off, whence, n, err, m, want)
			}
		default:
			n, err := r.Read(p)
			m, want := io.ReadFull(oracle, q[:n])
			if want != nil || m != n || err != nil && (err != io.EOF || oracle.Len() > 0) ||
				!bytes.Equal(intact(p)[:n], q[:n]) {
				t.Fatalf("Read(%d): %d, %v, want what a bytes.Reader gives", size, n, err)
			}
		}
	}
	if _, err := r.Seek(0, 9); err == nil {
		t.Error("Seek from nowhere")
	}
	if _, err := r.ReadAt(nil, -1); err != errOffset {
		t.Error(err)
	}
}

// If a value has become longer or shorter between two ranges, the reader reports it.
func TestReaderAtOfAValueThatChanges(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	for _, test := range []struct {
		name   string
		change func()
		is     int64
	}{
		{"grows", func() { must(t, rdb.Append(ctx, "rc", "more").Err()) }, 3<<20 + 4},
		{"shrinks", func() { must(t, rdb.Set(ctx, "rc", randomValue(10), 0).Err()) }, 10},
		{"grows a lot", func() { must(t, rdb.Set(ctx, "rc", randomValue(20<<20), 0).Err()) },
			20 << 20},
		{"goes", func() { must(t, rdb.Del(ctx, "rc").Err()) }, 0},
	} {
		must(t, rdb.Set(ctx, "rc", randomValue(3<<20), 0).Err())
		r, err := c.ReaderAt(ctx, "rc")
		must(t, err)
		p := make([]byte, 100)
		_, err = r.ReadAt(p, 0)
		must(t, err)
		test.change()
		for _, read := range []func() error{
			func() error { _, err := r.ReadAt(p, 100); return err },
			func() error { _, err := r.Read(p); return err },
			func() error { _, err := io.Copy(io.Discard, r); return err },
			func() error { _, err := r.ReadAt(make([]byte, 3<<20), 0); return err },
		} {
			var changed *ValueChangedError
			if err := read(); !errors.As(err, &changed) || changed.Was != 3<<20 ||
				changed.Is != test.is {
				t.Errorf("%s: %v, want an error with both sizes", test.name, err)
			}
		}
		must(t, r.Close())
	}
	must(t, rdb.Set(ctx, "rc", "short", 0).Err())
	r, err := c.ReaderAt(ctx, "rc")
	must(t, err)
	must(t, rdb.Del(ctx, "rc").Err())
	must(t, rdb.LPush(ctx, "rc", "x").Err())
	if _, err := r.ReadAt(make([]byte, 5), 0); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Error(err)
	}
	must(t, rdb.Del(ctx, "rc").Err())
}

// Err keeps the first error of the reader. The end of the value is not an error.
func TestReaderAtKeepsItsFirstError(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "re", "value", 0).Err())
	r, err := c.ReaderAt(ctx, "re")
	must(t, err)
	_, err = io.Copy(io.Discard, r)
	must(t, err)
	if _, err := r.ReadAt(make([]byte, 9), 3); err != io.EOF || r.Err() != nil {
		t.Errorf("%v, %v, want io.EOF and nil", err, r.Err())
	}
	must(t, rdb.Append(ctx, "re", "s").Err())
	var many sync.WaitGroup
	for range 10 {
		many.Go(func() {
			if _, err := r.ReadAt(make([]byte, 1), 0); !isA[*ValueChangedError](err) {
				t.Error(err)
			}
			if !isA[*ValueChangedError](r.Err()) {
				t.Error(r.Err())
			}
		})
	}
	many.Wait()
	first := r.Err()
	if _, err := r.ReadAt(make([]byte, 1), -1); err != errOffset || r.Err() != first {
		t.Errorf("%v, then %v, want the first error, %v", err, r.Err(), first)
	}
	must(t, r.Close())
	if r.Err() != first {
		t.Error(r.Err())
	}
}

// A handler learns from Err that http.ServeContent has served only a part of the value.
func TestReaderAtReportsAnIncompleteResponse(t *testing.T) {
	c, p := proxied(t)
	ctx := bounded(t)
	must(t, c.SetFromBuffer(ctx, "rf", randomValue(3<<20)))
	failed := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r, err := c.ReaderAt(req.Context(), "rf")
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		http.ServeContent(w, req, "value.bin", time.Time{}, r)
		if failed <- r.Err(); r.Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	for _, cut := range []bool{true, false} {
		if p.Set(); cut {
			p.Set(redistest.CutReply(3 << 19).On("rf\r\n"))
		}
		resp, err := server.Client().Get(server.URL)
		must(t, err)
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if kept := <-failed; (err != nil) != cut || (kept != nil) != cut {
			t.Errorf("cut: %t, the client has %d bytes and %v, Err is %v", cut, n, err, kept)
		}
	}
}

// Each range is of one version, however often the value is replaced in the meantime.
func TestReaderAtRangesAreOfOneVersion(t *testing.T) {
	c, _ := shared(t)
	ctx := bounded(t)
	set := func(i int) error {
		return c.SetFromBuffer(ctx, "rv", bytes.Repeat([]byte{byte(i)}, 1+i%2*100+200000))
	}
	must(t, set(0))
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := set(i); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for whole, refused := 0, 0; whole < 30 || refused == 0; {
		r, err := c.ReaderAt(ctx, "rv")
		must(t, err)
		p := make([]byte, 100000)
		_, err = r.ReadAt(p, 50000)
		if err != nil && !isA[*ValueChangedError](err) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		} else if whole++; bytes.Count(p, p[:1]) != len(p) {
			t.Fatal("a range of two versions")
		}
		must(t, r.Close())
	}
	close(stop)
	writer.Wait()
}

func TestReaderAtServesContent(t *testing.T) {
	c, rdb := shared(t)
	value := randomValue(2<<20 + 5)
	must(t, rdb.Set(bounded(t), "http", value, 0).Err())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r, err := c.ReaderAt(req.Context(), "http")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer r.Close()
		http.ServeContent(w, req, "value.bin", time.Time{}, r)
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	for header, want := range map[string][]byte{
		"": value, "bytes=0-0": value[:1], "bytes=1000000-1999999": value[1000000:2000000],
		"bytes=-7": value[len(value)-7:],
	} {
		req, _ := http.NewRequest("GET", server.URL, nil)
		if header != "" {
			req.Header.Set("Range", header)
		}
		resp, err := server.Client().Do(req)
		must(t, err)
		got, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		if !bytes.Equal(got, want) {
			t.Errorf("%q: %d bytes, want %d", header, len(got), len(want))
		}
	}
}

// GetTo copies a value to an HTTP response, from socket to socket.
func TestGetToAResponse(t *testing.T) {
	c, rdb := shared(t)
	for _, size := range []int{10, 100000, 5 << 20} {
		value := randomValue(size)
		must(t, rdb.Set(bounded(t), "response", value, 0).Err())
		for _, length := range []bool{false, true} {
			handled := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
				req *http.Request) {
				defer close(handled)
				if length {
					w.Header().Set("Content-Length", strconv.Itoa(size))
				}
				if n, err := c.GetTo(req.Context(), "response", w); err != nil || n != int64(size) {
					t.Error(n, err)
				}
			}))
			resp, err := server.Client().Get(server.URL)
			must(t, err)
			got, err := io.ReadAll(resp.Body)
			must(t, err)
			resp.Body.Close()
			<-handled // closing the connection would end the request's context
			server.Client().CloseIdleConnections()
			server.Close()
			if !bytes.Equal(got, value) {
				t.Errorf("%d: another value, of %d", size, len(got))
			}
		}
	}
	idle(t, c, 1)
}

// If a client disconnects in the middle of a response, the error is the writer's, not the server's.
func TestGetToAClientThatGoesAway(t *testing.T) {
	s := redistest.Shared(t)
	c, rdb := clientOf(t, optionsOf(s.Endpoint()))
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "away", randomValue(16<<20), 0).Err())
	client, server := tcpPair(t)
	go func() {
		_, _ = io.ReadFull(server, make([]byte, 100000))
		server.Close()
	}()
	if _, err := c.GetTo(ctx, "away", client); !isA[*WriterError](err) {
		t.Error(err)
	}
	must(t, rdb.Del(ctx, "away").Err())
}

// If a key is set between the request for its length and the check that it exists, ReaderAt does
// not report an empty value.
func TestReaderAtOfAKeyThatIsSetMeanwhile(t *testing.T) {
	s := redistest.Start(t)
	p := s.Proxy(t)
	c, _ := clientOf(t, optionsOf(p.Endpoint()))
	ctx := bounded(t)
	for _, size := range []int{1, 100, 3 << 20} {
		value := randomValue(size)
		s.Do(t, "DEL", "k")
		s.Do(t, "CONFIG", "RESETSTAT")
		p.Set(redistest.HoldReply(0).On("STRLEN"))
		type opened struct {
			r   *ReaderAt
			err error
		}
		done := make(chan opened, 1)
		go func() {
			r, err := c.ReaderAt(ctx, "k")
			done <- opened{r, err}
		}()
		eventually(t, func() bool {
			return strings.Contains(fmt.Sprint(s.Do(t, "INFO", "commandstats")),
				"cmdstat_strlen:calls=1")
		})
		s.Do(t, "SET", "k", value)
		p.Release()
		o := <-done
		must(t, o.err)
		if got, err := io.ReadAll(o.r); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%d bytes: read %d, %v, want the value", size, len(got), err)
		}
		must(t, o.r.Close())
	}
}
