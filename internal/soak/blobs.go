package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// blobKeys is how many keys a server has: few, so that they are replaced while they are read.
	blobKeys    = 12
	blobWriters = 2
	blobReaders = 3
	// blobRest is how long a client rests after a request. Redis keeps what was replaced for a minute: with it, and the
	// sizes below, that is about 100 MB.
	blobRest = 25 * time.Millisecond
	// brokenRest is how long a value that breaks off rests before it does. net/http keeps an answer back for 50 ms while the
	// request is still being sent.
	brokenRest = 75 * time.Millisecond

	// An expiring blob lives this long. expirySlack is what the store may be late by: a file system's time has steps.
	expiryMin, expiryMax = 100 * time.Millisecond, 400 * time.Millisecond
	expirySlack          = 50 * time.Millisecond
)

// blobSize is mostly little, and now and then more than goes through memory at a time.
func blobSize(r *rand.Rand) int64 {
	switch n := r.IntN(50); {
	case n == 0:
		return valueHead + r.Int64N(3<<20)
	case n < 12:
		return valueHead + r.Int64N(256<<10)
	}
	return valueHead + r.Int64N(16<<10)
}

func newRegisters(name string, seed uint64) (list []*register) {
	for i := range blobKeys {
		list = append(list, &register{key: fmt.Sprintf("soak/%s/%x/%d", name, seed, i)})
	}
	return list
}

// write replaces and deletes blobs.
func (s *shift) write(registers []*register, number int) {
	r := s.random(kindBlob, number)
	s.work("writing blobs", func(url string) error {
		reg := registers[r.IntN(len(registers))]
		reg.writing.Lock()
		defer reg.writing.Unlock()
		var err error
		switch way := r.IntN(10); {
		case way == 0:
			err = s.remove(reg, url)
		case way == 1:
			err = s.breakPut(reg, r, url)
		default:
			err = s.put(reg, blobSize(r), url)
		}
		pause(s.working, blobRest)
		return err
	})
}

// A valueReader reads a value.
type valueReader struct {
	value
	off  int64
	stop int64  // what comes from there on is an error
	wait func() // before the error; nil if there is none
}

// Read implements io.Reader.
func (v *valueReader) Read(p []byte) (int, error) {
	if v.off >= v.stop {
		if v.stop < v.length {
			v.wait()
			return 0, errBreakOff
		}
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), v.stop-v.off))
	v.fill(p[:n], v.off)
	v.off += int64(n)
	return n, nil
}

// putValue sends a value, or its beginning.
func (s *shift) putValue(key string, v *valueReader, url string, header ...string) error {
	req, err := http.NewRequestWithContext(s.hard, http.MethodPut, url+"/blobs/"+key, io.NopCloser(v))
	if err != nil {
		return err
	}
	req.ContentLength = v.length
	if v.write%2 == 0 {
		req.ContentLength = -1 // chunked
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.fast.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusNoContent {
		return &statusError{"PUT", res.StatusCode, string(text)}
	}
	s.tally.Sent.Add(v.length)
	return nil
}

func (s *shift) put(reg *register, size int64, url string) error {
	n := reg.write(false)
	if err := s.putValue(reg.key, newValueReader(reg.key, n, size), url); err != nil {
		return err
	}
	reg.done(n)
	s.tally.Puts.Add(1)
	return nil
}

func newValueReader(key string, write uint64, size int64) *valueReader {
	return &valueReader{value: value{key: keyNumber(key), write: write, length: size}, stop: size}
}

// breakPut sends the beginning of a value, which must not change anything. A server that takes that for the whole has a moment
// to say so.
func (s *shift) breakPut(reg *register, r *rand.Rand, url string) error {
	v := newValueReader(reg.key, reg.write(false), 1<<10+blobSize(r))
	v.stop = r.Int64N(v.length)
	v.wait = func() { pause(s.working, brokenRest) }
	err := s.putValue(reg.key, v, url)
	switch {
	case errors.Is(err, errBreakOff):
		s.tally.BrokenPuts.Add(1)
		return nil
	case err == nil:
		return wrong("blob %s: the server says that it has a value that broke off", reg.key)
	}
	return err
}

// remove deletes a blob.
func (s *shift) remove(reg *register, url string) error {
	absent := reg.nothing(reg.read())
	n := reg.write(true)
	res, err := s.do(s.hard, http.MethodDelete, url+"/blobs/"+reg.key, http.StatusNoContent)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		err = absent
	} else if err == nil {
		_ = res.Body.Close()
	}
	if err != nil {
		return err
	}
	reg.done(n)
	s.tally.Deletes.Add(1)
	return nil
}

// read reads blobs while they are replaced.
func (s *shift) read(registers []*register, number int) {
	r := s.random(kindReader, number)
	s.work("reading blobs", func(url string) error {
		err := s.get(s.hard, registers[r.IntN(len(registers))], url)
		pause(s.working, blobRest)
		return err
	})
}

// get reads a blob, which must be one that may be there, and whole.
func (s *shift) get(ctx context.Context, reg *register, url string) error {
	floor := reg.read()
	res, err := s.do(ctx, http.MethodGet, url+"/blobs/"+reg.key, http.StatusOK)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		s.tally.Gets.Add(1)
		return reg.nothing(floor)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	v, err := readValue(res.Body, reg.key)
	if err != nil {
		return err
	}
	s.tally.Gets.Add(1)
	s.tally.Checked.Add(v.length)
	return reg.found(floor, v.write)
}

// inspect reads all blobs, as is done after a restart: what was confirmed before must be there.
func (s *shift) inspect(registers []*register) error {
	url, epoch, err := s.where(s.hard)
	if err != nil {
		return err
	}
	for _, reg := range registers {
		if err := s.get(s.hard, reg, url); err != nil && (isWrong(err) || !s.excused(epoch)) {
			return err
		}
	}
	return nil
}

// expire puts blobs that are there for a moment only. They must be there until then, and not from then on.
func (s *shift) expire(number int) {
	r := s.random(kindExpiry, number)
	key := fmt.Sprintf("soak/%s/%x/expires-%d", s.name, s.cfg.Seed, number)
	s.work("expiring blobs", func(url string) error {
		ttl := expiryMin + some(r, expiryMax-expiryMin)
		v := newValueReader(key, uint64(s.number)<<32|r.Uint64N(1<<32), blobSize(r))
		began := time.Now()
		if err := s.putValue(key, v, url, "Millrace-TTL", ttl.String()); err != nil {
			return err
		}
		confirmed := time.Now()
		there, err := s.isThere(key, v, url)
		if err != nil {
			return err
		}
		if !there && time.Since(began) < ttl-expirySlack {
			return wrong("blob %s is gone before its time of %v is over", key, ttl)
		}
		pause(s.hard, ttl+expirySlack-time.Since(confirmed))
		if there, err = s.isThere(key, v, url); err != nil {
			return err
		}
		if there {
			return wrong("blob %s is there %v after its time of %v was over", key, time.Since(confirmed)-ttl, ttl)
		}
		s.tally.Expired.Add(1)
		return nil
	})
}

// isThere says whether a blob is there, and that it is the one that was put.
func (s *shift) isThere(key string, want *valueReader, url string) (bool, error) {
	res, err := s.do(s.hard, http.MethodGet, url+"/blobs/"+key, http.StatusOK)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	got, err := readValue(res.Body, key)
	if err == nil && got != want.value {
		err = wrong("blob %s is that of write %d, want %d", key, got.write, want.write)
	}
	return true, err
}
