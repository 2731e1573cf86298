package chunk

import (
	"os"
	"time"
)

// SetBuffers says what the kernel is to be taken to say about send buffers, until restore is called.
func SetBuffers(tuned, widest int, share int64) (restore func()) {
	before := buffers
	buffers = func() kernelBuffers { return kernelBuffers{tuned, widest, share} }
	return func() { buffers = before }
}

// Widened returns how many bytes the buffers that are widened may have.
func Widened() int64 { return widened.Load() }

// StepAfter has a sender send size bytes of a file to a socket, and returns how many it did. It has waited for the
// socket so many times, and quick says that so long ago the bytes were in the page cache.
func StepAfter(socket, file *os.File, size int64, quick bool, ago time.Duration, waits int) (sent int64, done bool) {
	s := &sender{in: int(file.Fd()), left: size, quick: quick, asked: time.Now().Add(-ago), waits: waits}
	done = s.step(socket.Fd())
	return size - s.left, done
}
