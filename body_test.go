package millrace_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/millrace-io/millrace"
)

func TestBody(t *testing.T) {
	pool := newPool(t)
	want := letters(3000)
	for _, pieceLen := range []int{7, 100, 5000} {
		var c millrace.Chain
		addBlocks(pool, &c, want, pieceLen)
		body := c.Body()
		c.Release() // the Body has its own share
		if body.Len() != len(want) {
			t.Errorf("Len = %d, want %d", body.Len(), len(want))
		}
		if err := iotest.TestReader(body, want); err != nil {
			t.Error(err)
		}
		must(body.Seek(100, io.SeekStart))
		var out bytes.Buffer
		if n, err := io.Copy(&out, body); n != 2900 || err != nil || !bytes.Equal(out.Bytes(), want[100:]) {
			t.Errorf("WriteTo = %d, %v", n, err)
		}
		must(body.Seek(5000, io.SeekStart))
		if n, err := io.Copy(&out, body); n != 0 || err != nil {
			t.Errorf("WriteTo after the end = %d, %v", n, err)
		}
		body.Close()
		body.Close()
		for op, err := range map[string]error{
			"Read": second(body.Read(nil)), "ReadAt": second(body.ReadAt(nil, 0)),
			"Seek": second(body.Seek(0, io.SeekStart)), "WriteTo": second(body.WriteTo(&out)),
		} {
			if !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), op) {
				t.Errorf("%s after Close = %v", op, err)
			}
		}
		if body.Len() != len(want) {
			t.Errorf("Len after Close = %d, want %d", body.Len(), len(want))
		}
	}
}

// TestBodyOfEarlyRefusals uploads to a server that answers before it has read the body. The
// Transport then reads the body while or after Do returns. With -race, this finds a body whose
// bytes are released too early.
func TestBodyOfEarlyRefusals(t *testing.T) {
	pool := newPool(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range rounds(250) {
				var c millrace.Chain
				addBlocks(pool, &c, letters(200_000), 4096)
				req := must(http.NewRequest("PUT", server.URL, c.Body()))
				req.ContentLength = int64(c.Len())
				c.Release()
				resp, err := client.Do(req)
				if err != nil {
					continue // the server may also close the connection
				}
				if resp.StatusCode != http.StatusForbidden {
					t.Errorf("status %d", resp.StatusCode)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
}

// TestBodyIsSentAgain checks that a redirect sends the whole body to the next server.
func TestBodyIsSentAgain(t *testing.T) {
	pool := newPool(t)
	var got []byte
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /old", func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("PUT /new", func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	var c millrace.Chain
	defer c.Release()
	want := letters(100_000)
	addBlocks(pool, &c, want, 4096)
	req := must(http.NewRequest("PUT", server.URL+"/old", c.Body()))
	req.ContentLength = int64(c.Len())
	req.GetBody = func() (io.ReadCloser, error) { return c.Body(), nil }
	resp := must(server.Client().Do(req))
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
		t.Errorf("status %d, %d bytes, want %d", resp.StatusCode, len(got), len(want))
	}
}

// A stallingWriter waits in Write until it is released.
type stallingWriter struct{ writing, release chan struct{} }

func (w stallingWriter) Write(p []byte) (int, error) {
	w.writing <- struct{}{}
	<-w.release
	return len(p), nil
}

// TestBodyClosedDuringWriteTo checks that Close does not wait for a write, and that the bytes are
// released only after it.
func TestBodyClosedDuringWriteTo(t *testing.T) {
	pool := newPool(t)
	var c millrace.Chain
	addBlocks(pool, &c, letters(100), 100)
	body := c.Body()
	c.Release()
	w := stallingWriter{make(chan struct{}), make(chan struct{})}
	done := make(chan error)
	go func() { done <- second(body.WriteTo(w)) }()
	<-w.writing
	body.Close()
	if used := pool.Stats().InUseBlocks; used != 1 {
		t.Errorf("%d blocks in use during the write, want 1", used)
	}
	close(w.release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestSpool reads streams of different lengths as parts.
func TestSpool(t *testing.T) {
	pool := newPool(t)
	spool := millrace.NewSpool(1000, 1)
	for _, n := range []int{0, 1, 999, 1000, 1001, 10_000, 12_345} {
		r := pool.NewReader(iotest.HalfReader(bytes.NewReader(letters(n))), 0)
		var got []byte
		for {
			part, err := spool.Next(t.Context(), r)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = must(io.ReadAll(io.MultiReader(bytes.NewReader(got), part)))
			if part.Len() != 1000 && len(got) != n {
				t.Errorf("a part of %d bytes at %d of %d", part.Len(), len(got), n)
			}
			part.Close()
			part.Close()
		}
		if !bytes.Equal(got, letters(n)) {
			t.Errorf("got %d bytes, want %d", len(got), n)
		}
		r.Release()
	}
	wantPanic(t, "NewSpool of no bytes", "positive", func() { millrace.NewSpool(0, 1) })
	wantPanic(t, "NewSpool of no parts", "positive", func() { millrace.NewSpool(1, 0) })
}

// TestSpoolKeepsBytesAfterError checks that a failed Next loses no bytes and takes no slot.
func TestSpoolKeepsBytesAfterError(t *testing.T) {
	pool := newPool(t)
	spool := millrace.NewSpool(1000, 1)
	for _, broken := range []error{errors.New("broken"), io.ErrUnexpectedEOF} {
		r := pool.NewReader(io.MultiReader(bytes.NewReader(letters(500)), iotest.ErrReader(broken)), 0)
		for range 3 {
			if _, err := spool.Next(t.Context(), r); err != broken {
				t.Errorf("Next = %v, want %v", err, broken)
			}
		}
		if p, _ := r.Peek(500); !bytes.Equal(p, letters(500)) {
			t.Errorf("%d bytes are left, want 500", len(p))
		}
		r.Release()
	}
}

// TestSpoolWaitsForMemory checks that Next waits for a closed part, or for the end of ctx.
func TestSpoolWaitsForMemory(t *testing.T) {
	pool := newPool(t)
	synctest.Test(t, func(t *testing.T) {
		spool := millrace.NewSpool(10, 2)
		one, two := pool.NewReader(bytes.NewReader(letters(100)), 0), pool.NewReader(bytes.NewReader(letters(100)), 0)
		defer one.Release()
		defer two.Release()
		a, b := must(spool.Next(t.Context(), one)), must(spool.Next(t.Context(), two))
		defer b.Close()
		errStop := errors.New("stop")
		ctx, stop := context.WithCancelCause(t.Context())
		go func() { synctest.Wait(); stop(errStop) }()
		if _, err := spool.Next(ctx, one); err != errStop {
			t.Errorf("Next with a full Spool = %v, want %v", err, errStop)
		}
		go func() { synctest.Wait(); a.Close() }()
		c, err := spool.Next(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		if got := must(io.ReadAll(c)); !bytes.Equal(got, letters(100)[10:20]) {
			t.Errorf("got %q, want the bytes after the first part", got)
		}
		c.Close()
	})
}

// TestBodyClone reads a Body and its Clones at once. The part of a Spool counts until all of them
// are closed.
func TestBodyClone(t *testing.T) {
	pool := newPool(t)
	spool := millrace.NewSpool(1000, 1)
	r := pool.NewReader(bytes.NewReader(letters(2000)), 0)
	defer r.Release()
	part := must(spool.Next(t.Context(), r))
	must(io.CopyN(io.Discard, part, 300))
	clone := part.Clone()
	if got := must(io.ReadAll(clone)); !bytes.Equal(got, letters(1000)) {
		t.Errorf("the Clone has %d bytes", len(got))
	}
	if got := must(io.ReadAll(part)); !bytes.Equal(got, letters(1000)[300:]) {
		t.Errorf("after Clone, %d bytes are left", len(got))
	}
	part.Close()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := spool.Next(ctx, r); err != context.Canceled {
		t.Errorf("Next while a Clone is open = %v", err)
	}
	clone.Close()
	next := must(spool.Next(t.Context(), r))
	defer next.Close()
	closed := part.Clone()
	if _, err := closed.Read(nil); !errors.Is(err, fs.ErrClosed) || closed.Len() != 1000 {
		t.Errorf("a Clone of a closed Body: %v, %d bytes", err, closed.Len())
	}
	closed.Close()
}

// TestSlabHoldsLittle keeps a few frames of a stream as copies, and compares the memory with the
// length of the frames.
func TestSlabHoldsLittle(t *testing.T) {
	for _, length := range []int{1, 16, 100, 500, 1000, 1024, 1025, 1100, 3000, 5000} {
		pool := newPool(t)
		slab := pool.NewSlab()
		var kept []millrace.Ref
		sum := 0
		for i := range 1000 {
			p := letters(length)
			p[0] = byte(i)
			kept = append(kept, slab.Copy(p))
			sum += length
		}
		slab.Release()
		if held := pool.Stats().InUse; length >= 16 && held > int64(2*sum) {
			t.Errorf("copies of %d bytes hold %d bytes, want at most %d", length, held, 2*sum)
		}
		for i := range kept {
			if p := kept[i].Bytes(); len(p) != length || p[0] != byte(i) {
				t.Fatalf("copy %d has %d bytes and begins with %d", i, len(p), p[0])
			}
			kept[i].Release()
		}
	}
	var slab millrace.Slab
	empty, one := slab.Copy(nil), slab.Copy([]byte("a"))
	if empty.Len() != 0 || string(one.Bytes()) != "a" {
		t.Errorf("the zero Slab: %d bytes, %q", empty.Len(), one.Bytes())
	}
	empty.Release()
	one.Release()
	slab.Release()
	slab.Release()
}
