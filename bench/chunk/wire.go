package chunk

import (
	"hash/crc32"
	"io"
	"net"
	"time"
)

// A wire is a TCP connection on loopback whose far end reads as many bytes as it is told to, and says what their checksum
// is. It belongs to one goroutine.
type wire struct {
	*net.TCPConn // the near end

	far    net.Conn
	expect chan int // bytes that the far end is to read
	came   chan arrival
}

// An arrival is what the far end has read.
type arrival struct {
	crc uint32
	err error
}

const (
	// farBlock is read at a time at the far end: much, so that the near end is what is measured.
	farBlock = 256 * kib

	// farWait is how long the far end waits for all of a run, before it takes the rest for lost.
	farWait = 30 * time.Second
)

// newWire makes one. The caller closes it.
func newWire() (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	far, err := l.Accept()
	if err != nil {
		near.Close()
		return nil, err
	}
	w := &wire{TCPConn: near.(*net.TCPConn), far: far, expect: make(chan int), came: make(chan arrival, 1)}
	go w.read()
	return w, nil
}

// Close closes both ends.
func (w *wire) Close() error {
	close(w.expect)
	w.far.Close()
	return w.TCPConn.Close()
}

// read is the far end.
func (w *wire) read() {
	buf := make([]byte, farBlock)
	for left := range w.expect {
		var a arrival
		w.far.SetReadDeadline(time.Now().Add(farWait))
		for left > 0 && a.err == nil {
			var n int
			n, a.err = w.far.Read(buf[:min(left, len(buf))])
			a.crc = crc32.Update(a.crc, crc32.IEEETable, buf[:n])
			left -= n
		}
		if a.err == io.EOF {
			a.err = io.ErrUnexpectedEOF
		}
		w.came <- a
	}
}
