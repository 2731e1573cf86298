package soak

import (
	"os"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

// mapMemory takes n bytes from the system, not from the heap, and uses each page.
func mapMemory(n int) {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	must(err)
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
}

// startThreads has n threads in a system call at one time. The runtime keeps them afterwards, and the goroutines end.
func startThreads(n int) {
	var pipe [2]int
	must(syscall.Pipe2(pipe[:], syscall.O_CLOEXEC))
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			var b [1]byte
			_, _ = syscall.Read(pipe[0], b[:])
		})
	}
	for pprof.Lookup("threadcreate").Count() < n {
		time.Sleep(time.Millisecond)
	}
	must(syscall.Close(pipe[1]))
	all.Wait()
	must(syscall.Close(pipe[0]))
}
