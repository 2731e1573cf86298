package arena

import (
	"sync"
	"sync/atomic"
)

// holding counts the goroutines that hold a frame, and bounds their number.
type holding struct {
	free chan struct{}
	out  sync.WaitGroup
}

func newHolding(most int) *holding { return &holding{free: make(chan struct{}, most)} }

// begin waits until there may be one more.
func (h *holding) begin() {
	h.free <- struct{}{}
	h.out.Add(1)
}

func (h *holding) end() {
	<-h.free
	h.out.Done()
}

func (h *holding) wait() { h.out.Wait() }

// looked is the sum of what those saw to whom frames were handed over.
var looked atomic.Uint64

func look(frame []byte) {
	looked.Add(uint64(frame[0]) + uint64(frame[len(frame)-1]))
}
