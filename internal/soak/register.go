package soak

import "sync"

// A register knows what may be read under one key. Its writes are numbered from 1, and there is one at a time; reads may
// be many, and at any time.
//
// floor ≤ begun, and void ≤ begun.
type register struct {
	key string

	writing sync.Mutex // held by the one who writes

	mu    sync.Mutex
	begun uint64 // the number of the last write that was begun
	floor uint64 // a read that begins now finds what this write left, or a later one
	void  uint64 // the last write, or 0, after which there may be nothing: it deletes
}

// write numbers a write, which the caller ends with done or not at all: then nobody knows whether it was done.
func (r *register) write(deletes bool) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun++
	if deletes {
		r.void = r.begun
	}
	return r.begun
}

// done notes that the server has said that a write is done.
func (r *register) done(write uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.floor = max(r.floor, write)
}

// read begins a read. What it returns is for found or nothing.
func (r *register) read() (floor uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.floor
}

// found ends a read that has found the value of a write, and says what is wrong with that. From now on nobody finds an
// older one.
func (r *register) found(floor, write uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case write < floor:
		return wrong("blob %s: write %d was found, after write %d had been confirmed or seen", r.key, write, floor)
	case write > r.begun:
		return wrong("blob %s: write %d was found, and there were %d", r.key, write, r.begun)
	}
	r.floor = max(r.floor, write)
	return nil
}

// nothing ends a read that has found nothing.
func (r *register) nothing(floor uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.void < floor {
		return wrong("blob %s is not there, though write %d was confirmed or seen, and nothing has deleted it", r.key, floor)
	}
	return nil
}
