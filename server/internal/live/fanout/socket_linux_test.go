package fanout

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
	"golang.org/x/sys/unix"
)

// chainOf makes a chain of p in pieces of size bytes, each in a separate block.
func chainOf(p []byte, size int) millrace.Chain {
	var c millrace.Chain
	for len(p) > 0 {
		d := millrace.DefaultPool().Get(size)
		n := copy(d.Bytes()[:size], p)
		r := d.Freeze(n)
		c.Append(&r)
		p = p[n:]
	}
	return c
}

// checkLeaks checks that t returns all blocks. Connections of earlier tests may still have to
// return theirs.
func checkLeaks(t *testing.T) {
	t.Helper()
	pool := millrace.DefaultPool()
	eventually(t, "the tests before to give back their blocks",
		func() bool { return pool.Stats().InUse == 0 })
	leaktest.Check(t, pool)
}

// If a send is cancelled after any number of bytes, the sent bytes are exactly those missing from
// the chain. Nothing is lost or sent twice, and the blocks are returned.
func TestSendCancelledAtEveryByte(t *testing.T) {
	checkLeaks(t)
	data := noise(rand.New(rand.NewPCG(1, 2)), 40_000)
	step := 1
	if testing.Short() {
		step = 37
	}
	const lanes = 8 // most of the time is spent waiting
	for lane := range lanes {
		t.Run(strconv.Itoa(lane), func(t *testing.T) {
			t.Parallel()
			for n := lane * step; n < 4096 && !t.Failed(); n += lanes * step {
				cancelAfter(t, data, n)
			}
		})
	}
}

func cancelAfter(t *testing.T, data []byte, n int) {
	sender, receiver := tcpPair(t, true)
	defer receiver.Close()
	c := chainOf(data, 1000)
	defer c.Release()
	other := sendAll(t, &c)
	sent := make(chan error, 1)
	go func() {
		s := NewConn(sender, false, 0)
		var progress atomic.Int64
		err := s.write(new([]byte), &c, new(tally), &progress)
		sent <- err
	}()
	got := make([]byte, n, len(data))
	if _, err := io.ReadFull(receiver, got); err != nil {
		t.Fatal(err)
	}
	_ = sender.Close() // cancels the write
	<-sent
	rest, err := io.ReadAll(receiver)
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, rest...)
	if !bytes.Equal(got, data[:len(got)]) {
		t.Errorf("cancelled after %d: what arrived is not what was sent", n)
	}
	if c.Len() != len(data)-len(got) || !bytes.Equal(c.Bytes(), data[len(got):]) {
		t.Errorf("cancelled after %d: %d bytes arrived and %d of %d are left", n, len(got), c.Len(),
			len(data))
	}
	if <-other != sha256.Sum256(data) {
		t.Errorf("cancelled after %d: the viewer beside it got something else", n)
	}
}

// sendAll sends shares of c on a new connection, and returns the hash of the received bytes.
func sendAll(t *testing.T, c *millrace.Chain) <-chan [32]byte {
	sender, receiver := tcpPair(t, true)
	var shares millrace.Chain
	c.CloneTo(&shares)
	go func() {
		s := NewConn(sender, false, 0)
		var progress atomic.Int64
		_ = s.write(new([]byte), &shares, new(tally), &progress) // the hash shows a failure
		shares.Release()
		_ = sender.Close()
	}()
	sum := make(chan [32]byte, 1)
	go func() {
		p, _ := io.ReadAll(receiver)
		_ = receiver.Close()
		sum <- sha256.Sum256(p)
	}()
	return sum
}

// The receiver gets the same bytes from senders that do not wait, that wait, and that switch
// between two calls.
func TestAllKindsOfSendsAreComplete(t *testing.T) {
	checkLeaks(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	data := noise(rnd, 300_000)
	for _, size := range []int{100, 999, 4096, 70_000} {
		sender, receiver := tcpPair(t, true)
		sum := make(chan [32]byte, 1)
		go func() {
			p, _ := io.ReadAll(receiver)
			sum <- sha256.Sum256(p)
		}()
		s := NewConn(sender, false, 0)
		tcpconn.BoundUnsent(tcpconn.Of(sender), 4096)
		vec := new(vector)
		var progress atomic.Int64
		c := chainOf(data, size)
		for tries := 0; c.Len() > 0; tries++ {
			full, err := s.tryWrite(new([]byte), &c, vec)
			if err != nil {
				t.Fatal(err)
			}
			if full != (c.Len() > 0) {
				t.Fatalf("full is %v with %d bytes left", full, c.Len())
			}
			var part millrace.Chain
			c.CutTo(&part, min(c.Len(), rnd.IntN(20_000)))
			if err := s.write(new([]byte), &part, &vec.tally, &progress); err != nil {
				t.Fatal(err)
			}
		}
		_ = sender.Close()
		if got := <-sum; got != sha256.Sum256(data) {
			t.Errorf("pieces of %d: what arrived differs", size)
		}
		if vec.bytes != int64(len(data)) {
			t.Errorf("pieces of %d: %d bytes counted, want %d", size, vec.bytes, len(data))
		}
		if progress.Load() == 0 {
			t.Errorf("pieces of %d: no progress was noted", size)
		}
	}
}

// A write that stops in the line or in the chain continues at the byte where it has stopped.
func TestLineAndChainAreSentInParts(t *testing.T) {
	checkLeaks(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	line, data := noise(rnd, 300_000), noise(rnd, 300_000)
	sender, receiver := tcpPair(t, true)
	received := make(chan []byte, 1)
	go func() {
		p, _ := io.ReadAll(receiver)
		received <- p
	}()
	s := NewConn(sender, false, 0)
	tcpconn.BoundUnsent(tcpconn.Of(sender), 4096)
	left, c := line, chainOf(data, 999)
	for vec := new(vector); len(left)+c.Len() > 0; {
		full, err := s.tryWrite(&left, &c, vec)
		if err != nil {
			t.Fatal(err)
		}
		if full != (len(left)+c.Len() > 0) {
			t.Fatalf("full is %v with %d and %d bytes left", full, len(left), c.Len())
		}
	}
	_ = sender.Close()
	if got := <-received; !bytes.Equal(got, append(line, data...)) {
		t.Errorf("%d bytes arrived that differ from the %d sent", len(got), len(line)+len(data))
	}
}

// A batch with the maximum number of pieces is sent by one system call.
func TestABatchIsOneSystemCall(t *testing.T) {
	sender, _ := tcpPair(t, false)
	_ = sender.SetWriteBuffer(1 << 20)
	s := NewConn(sender, false, 0)
	vec := new(vector)
	c := chainOf(make([]byte, 64*600), 600)
	if c.Pieces() != 64 {
		t.Fatalf("%d pieces, want 64", c.Pieces())
	}
	if full, err := s.tryWrite(new([]byte), &c, vec); full || err != nil || c.Len() > 0 {
		t.Fatalf("full %v, %v, %d left", full, err, c.Len())
	}
	if vec.calls != 1 {
		t.Errorf("%d system calls", vec.calls)
	}
}

func TestSendToClosedConnectionFails(t *testing.T) {
	sender, receiver := tcpPair(t, true)
	_ = receiver.SetLinger(0)
	_ = receiver.Close()
	s := NewConn(sender, false, 0)
	var progress atomic.Int64
	c := chainOf(make([]byte, 1<<20), 1000)
	defer c.Release()
	deadline := time.Now().Add(testTimeout)
	for time.Now().Before(deadline) {
		if err := s.write(new([]byte), &c, new(tally), &progress); err != nil {
			return
		}
	}
	t.Error("no error")
}

// unsentBound returns the kernel's limit of unsent bytes for a connection.
func unsentBound(t *testing.T, raw syscall.RawConn) (n int) {
	t.Helper()
	var err error
	if e := raw.Control(func(fd uintptr) {
		n, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	}); e != nil {
		err = e
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The kernel's limit of unsent bytes is set for a viewer. Otherwise several megabytes in the kernel
// would hide that the viewer has stopped.
func TestUnsentBytesAreBounded(t *testing.T) {
	const bound = 12345
	sender, _ := tcpPair(t, false)
	if n := unsentBound(t, NewConn(sender, false, bound).(*socketConn).raw); n != bound {
		t.Errorf("the kernel may hold %d bytes, want %d", n, bound)
	}
}

// A viewer keeps up until the stream ends, and the ring has then lost the rest. The viewer has
// reached the end: it does not count as up to date with a running stream.
func TestAViewerThatLosesTheEndHasEnded(t *testing.T) {
	for name, write := range map[string]func(*Viewer) bool{
		"by the loop": func(v *Viewer) bool {
			return v.writeNow(new(vector)) != ended
		},
		"by a goroutine of its own": (*Viewer).catchUp,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(Config{}, broadcast.MaxFrames(64))
			sender, receiver := tcpPair(t, false)
			go discard(receiver)
			v := f.unserved(NewConn(sender, false, 0), newLoop(&f.src, 0))
			defer v.finish()
			for i := range 100 {
				f.publish(t, "frame", i == 0)
			}
			f.Close(StreamEnded)
			if write(v) {
				t.Error("the viewer waits for more")
			}
			if why := v.Reason(); why != StreamEnded {
				t.Errorf("it ended because: %v", why)
			}
		})
	}
}

// noise returns n random bytes.
func noise(rnd *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rnd.Uint32())
	}
	return p
}
