package millrace_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/millrace-io/millrace"
)

// countingSource gives the bytes 0, 1, 2, ... ten at a time, and panics once when it is told to.
type countingSource struct {
	next    byte
	panicAt int // this read from now on panics; 0: none does
}

func (s *countingSource) Read(p []byte) (int, error) {
	if s.panicAt > 0 {
		if s.panicAt--; s.panicAt == 0 {
			panic("source failed")
		}
	}
	n := min(len(p), 10)
	for i := range p[:n] {
		p[i] = s.next
		s.next++
	}
	return n, nil
}

// What was read before the source panicked is still there, in the right order.
func TestReaderLosesNothingWhenAQuickSourcePanics(t *testing.T) {
	src := &countingSource{}
	r := millrace.NewReader(src)
	defer r.Release()
	millrace.Quicken(r)
	want, err := r.ReadByte()
	if err != nil {
		t.Fatal(err)
	}
	want++

	src.panicAt = 4
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the source's panic was swallowed")
			}
		}()
		_ = r.ReadRange(95, func(p []byte) { want += byte(len(p)) })
	}()
	for range 200 {
		got, err := r.ReadByte()
		if err != nil || got != want {
			t.Fatalf("byte %d, %v; want %d", got, err, want)
		}
		want++
	}
}

// A Reader that was in full swing over memory holds no block while it waits for the socket that it was reset to.
func TestReaderResetToASocketHoldsNothing(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(bytes.NewReader(make([]byte, 1<<20)), 4096)
	defer r.Release()
	for range 300 {
		if err := r.Skip(1000); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	r.Reset(server)
	done := make(chan error, 1)
	go func() {
		_, err := r.ReadByte()
		done <- err
	}()
	until(t, "the block to go back", func() bool { return pool.Stats().InUse == 0 })
	if _, err := client.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Bytes that a failed ReadChain put back do not make a Reader slow for good.
func TestReaderGoesOnAfterAFailedReadChain(t *testing.T) {
	late := errors.New("late")
	for name, fail := range map[string]func(*millrace.Reader){
		"ReadChain": func(r *millrace.Reader) {
			var c millrace.Chain
			if err := r.ReadChain(&c, 1000); err != late || c.Len() != 0 {
				t.Errorf("ReadChain: %v with %d bytes, want %v", err, c.Len(), late)
			}
		},
		"UnreadByte": func(r *millrace.Reader) {
			p := make([]byte, r.Size()) // read into directly, so that the byte is not in the buffer
			if _, err := io.ReadFull(r, p[:100]); err != nil {
				t.Error(err)
			}
			if _, err := r.Read(p); err != late {
				t.Errorf("Read: %v, want %v", err, late)
			}
			_ = r.UnreadByte()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := millrace.NewReader(io.MultiReader(bytes.NewReader(letters(100)), iotest.ErrReader(late)))
			defer r.Release()
			fail(r)
			for range 3 {
				_, _ = r.Discard(100)
			}
			if millrace.Supplied(r) {
				t.Error("the Reader still looks for bytes that were put back")
			}
		})
	}
}

// A pipe waits, however fast the other side has been so far: what has arrived of a range is lent before the rest comes.
func TestReadRangeOfAPipeLendsWhatHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const packets, size = 3000, 100
		from, to := io.Pipe()
		seen := make(chan int, 1)
		go func() {
			p := make([]byte, size+size/2)
			for range packets - 1 {
				to.Write(p[:size])
			}
			to.Write(p)                   // the last one, and half of another
			if n := <-seen; n != size/2 { // nothing else comes before it
				t.Errorf("%d bytes lent, want %d", n, size/2)
			}
			to.Write(p[:size/2])
			to.Close()
		}()
		r := millrace.NewReader(from)
		defer r.Release()
		for i := range packets + 1 {
			if err := r.ReadRange(size, func(p []byte) {
				if i == packets && len(seen) == 0 {
					seen <- len(p)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A source that gives nothing is asked a hundred times, as bufio does, also right after it was fast.
func TestReaderGivesUpWhenBufioDoes(t *testing.T) {
	for empty := 97; empty <= 103; empty++ {
		sources := [2]*falters{{full: 300, empty: empty}, {full: 300, empty: empty}}
		want, got := bufio.NewReader(sources[0]), millrace.NewReader(sources[1])
		for i := range 310 {
			m, wantErr := want.Discard(4096)
			n, err := got.Discard(4096)
			if n != m || err != wantErr {
				t.Errorf("%d empty reads, Discard %d = %d, %v, want %d, %v", empty, i, n, err, m, wantErr)
				break
			}
		}
		got.Release()
	}
}

// falters gives 4096 bytes at a time, then nothing for some reads, then a few bytes again.
type falters struct{ full, empty int }

func (s *falters) Read(p []byte) (int, error) {
	switch {
	case s.full > 0:
		s.full--
		return min(len(p), 4096), nil
	case s.empty > 0:
		s.empty--
		return 0, nil
	}
	return min(len(p), 5), io.EOF
}
