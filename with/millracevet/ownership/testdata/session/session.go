// Package session has objects with a Reader, and functions with their good twins.
package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/redisbuf"
)

type session struct {
	r     *millrace.Reader
	p     *redisbuf.Pipeline
	w     io.Writer
	host  []byte
	topic []byte
	from  []byte
	token []byte
	line  []byte
	head  []byte
	key   []byte
	value []byte
	seen  map[string][]byte
	all   [][]byte
}

// The fields host, topic and from are used after another read.

func (s *session) hello() error {
	line, err := s.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	s.host = line[5:] // want `a slice that is valid only until the next read is stored in a field, which line \d+ uses after a read`
	return nil
}

func (s *session) mail() error {
	line, err := s.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	fmt.Fprintf(s.w, "%s: %s", s.host, line)
	return nil
}

func (s *session) field(sep byte) ([]byte, error) {
	p, err := s.r.ReadSlice(sep)
	return bytes.TrimSuffix(p, []byte{sep}), err
}

func (s *session) subscribe() (err error) {
	topic, err := s.field(' ')
	if err != nil {
		return err
	}
	s.topic = topic // want `stored in a field, which line \d+ uses after a read`
	name, err := s.field('\n')
	if err != nil {
		return err
	}
	fmt.Fprintf(s.w, "%s %s\n", s.topic, name)
	return nil
}

func (s *session) loop() error {
	for {
		line, _, err := s.r.ReadLine()
		if err != nil {
			return err
		}
		if from, ok := bytes.CutPrefix(line, []byte("FROM ")); ok {
			s.from = from // want `stored in a field, which line \d+ uses after a read`
			continue
		}
		s.w.Write(s.from)
	}
}

// token is copied.
func (s *session) auth() error {
	line, err := s.r.ReadSlice('\n')
	if err == nil {
		s.token = bytes.Clone(line)
		line, err = s.r.ReadSlice('\n')
		fmt.Fprintf(s.w, "%s %s", s.token, line)
	}
	return err
}

// line is set by each read, and head is used only until the next read.
func (s *session) next() (err error) {
	if s.line != nil {
		fmt.Fprintf(s.w, "after %s", s.line)
	}
	s.line, err = s.field('\n')
	return err
}

func (s *session) each(f func([]byte)) error {
	for {
		if err := s.next(); err != nil {
			return err
		}
		f(s.line)
		if len(s.line) == 0 {
			return errors.New("empty")
		}
		s.w.Write(s.line)
	}
}

func (s *session) message() error {
	var err error
	if s.head, err = s.r.Peek(4); err != nil {
		return err
	}
	s.log()
	n := int(s.head[3])
	if _, err := s.r.Discard(n); err != nil {
		return err
	}
	s.head = nil
	return s.next()
}

func (s *session) log() { slog.Info("message", "head", s.head) }

// key and value are two parts of one line.
func (s *session) entry() error {
	line, err := s.field('\n')
	if err != nil {
		return err
	}
	var ok bool
	s.key, s.value, ok = bytes.Cut(line, []byte("="))
	if !ok {
		return errors.New("no value")
	}
	fmt.Fprintf(s.w, "%s %s", s.key, s.value)
	return nil
}

func (s *session) entries() error {
	for s.entry() == nil {
		fmt.Fprintf(s.w, "%s %s", s.key, s.value)
	}
	return s.entry()
}

// Helpers that lend and read.

func twoFields(s *session) string {
	a, _ := s.field(' ')
	b, _ := s.field('\n')
	return string(a) + string(b) // want `use of a, which is valid only until the call at line`
}

func fieldAndBody(s *session) {
	a, _ := s.field(' ')
	skipBody(s.r)
	log.Printf("%s", a) // want `use of a, which is valid only until the call at line`
}

func skipBody(r *millrace.Reader) { io.CopyN(io.Discard, r, 10); r.ReadByte() }

func fieldThenCopy(s *session) string {
	a, _ := s.field(' ')
	first := string(a)
	b, _ := s.field('\n')
	skipIfLong(s.r, len(b))
	return first + string(b)
}

func skipIfLong(r *millrace.Reader, n int) {
	if n > 100 {
		r.ReadByte()
	}
}

func keepFields(s *session, out map[string][]byte) {
	for range 10 {
		v, err := s.field(' ')
		if err != nil {
			return
		}
		out["x"] = v // want `a slice that is valid only until the next read is stored in a map`
	}
}

func lastField(s *session) (last []byte) {
	for range 3 {
		p, err := s.field(' ')
		if err != nil {
			break
		}
		last = append(last[:0], p...)
	}
	return last
}

func eitherField(s *session, copied bool) ([]byte, error) {
	p, err := s.r.ReadSlice('\n')
	if copied {
		p = bytes.Clone(p)
	}
	return p, err
}

func copiedFields(s *session) string {
	a, _ := eitherField(s, true)
	b, _ := eitherField(s, false)
	return string(a) + string(b)
}

// Exec in a method.

func (s *session) flush(ctx context.Context) error { return s.p.Exec(ctx) }

func (s *session) maybeFlush(ctx context.Context, n int) error {
	if n%64 == 0 {
		return s.flush(ctx)
	}
	return nil
}

func (s *session) store(ctx context.Context) error {
	for n := range 1000 {
		line, err := s.r.ReadSlice('\n') // want `ReadSlice ends the life of a slice, which the Pipeline uses until the Exec at line`
		if err != nil {
			return err
		}
		s.p.SetFromBuffer("key", line)
		if n%10 == 9 {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
	return s.flush(ctx)
}

func (s *session) storeFields(ctx context.Context) error {
	v, err := s.field('\n')
	if err != nil {
		return err
	}
	s.p.SetFromBuffer("key", v)
	if v, err = s.field('\n'); err != nil { // want `field ends the life of a slice, which the Pipeline uses until the Exec at line`
		return err
	}
	s.p.SetFromBuffer("key2", v)
	return s.flush(ctx)
}

func (s *session) storeChain(ctx context.Context) error {
	var c millrace.Chain
	c.AppendCopy([]byte("text"))
	s.p.SetChain("key", &c)
	c.Release() // want `Release ends the life of c, which the Pipeline uses until the Exec at line`
	return s.maybeFlush(ctx, 64)
}

func (s *session) storeEach(ctx context.Context) error {
	for {
		v, err := s.field('\n')
		if err != nil {
			return s.flush(ctx)
		}
		s.p.SetFromBuffer("key", v)
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
}

func (s *session) storeCopies(ctx context.Context) error {
	for range 10 {
		v, err := s.field('\n')
		if err != nil {
			return err
		}
		s.p.SetFromBuffer("key", bytes.Clone(v))
	}
	return s.flush(ctx)
}

func (s *session) storeOwned(ctx context.Context) error {
	var c millrace.Chain
	defer c.Release()
	c.AppendCopy([]byte("text"))
	s.p.SetChain("key", &c)
	return s.flush(ctx)
}
