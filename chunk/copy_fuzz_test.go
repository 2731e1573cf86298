package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

var errScript = errors.New("the steps say so")

// The copySteps decide, byte by byte, what the two ends of a copy do next.
type copySteps struct{ bytes []byte }

func (s *copySteps) next() int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b)
}

// steppedReader returns as many bytes at a time as its steps say.
type steppedReader struct {
	*copySteps
	r io.Reader
}

func (s steppedReader) Read(p []byte) (int, error) {
	switch b := s.next(); {
	case b == 255:
		return 0, errScript
	case b == 254:
		return 0, nil
	case b > 0:
		p = p[:min(len(p), b*b)]
	}
	return s.r.Read(p)
}

// steppedWriter accepts as many bytes at a time as its steps say.
type steppedWriter struct {
	*copySteps
	w *bytes.Buffer
}

func (s steppedWriter) Write(p []byte) (int, error) {
	switch b := s.next(); {
	case b == 255:
		return 0, errScript
	case b > 200 && len(p) > 0:
		n, _ := s.w.Write(p[:len(p)*(b-200)/55])
		return n, nil // often a short write
	}
	return s.w.Write(p)
}

// FuzzCopy copies several times between ends that follow the steps, and compares with their
// records.
func FuzzCopy(f *testing.F) {
	f.Add(uint16(0), []byte{})
	f.Add(uint16(100), []byte{0, 7, 7, 7})
	f.Add(uint16(60_000), []byte{1, 100, 200, 255, 0, 0, 255})
	f.Add(uint16(65_535), []byte{2, 0, 250, 0, 3, 254, 254, 1})
	f.Add(uint16(65_535), []byte{3, 40, 0, 210, 0, 0, 210, 0, 0})
	f.Fuzz(func(t *testing.T, size uint16, steps []byte) {
		data := someBytes(3 * int(size))
		file, err := os.CreateTemp(t.TempDir(), "")
		must(t, err)
		defer file.Close()
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		s := &copySteps{steps}
		var arrived bytes.Buffer
		w := steppedWriter{s, &arrived}
		if s.next()%2 == 0 {
			fuzzFile(t, s, file, data, w)
		} else {
			fuzzReader(t, s, data, w)
		}
	})
}

// fuzzFile copies parts of a file. The position of the file shows how many bytes have arrived, even
// if the target failed.
func fuzzFile(t *testing.T, s *copySteps, file *os.File, data []byte, w steppedWriter) {
	for range 4 {
		before := w.w.Len()
		from, limit := int64(s.next())*300, int64(s.next())*700
		if _, err := file.Seek(from, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		report, err := chunk.Copy(context.Background(), w, io.LimitReader(file, limit))
		got := w.w.Bytes()[before:]
		want := data[min(from, int64(len(data))):min(from+limit, int64(len(data)))]
		if int64(len(got)) != report.Bytes || !bytes.HasPrefix(want, got) {
			t.Fatalf("%d bytes arrived, %+v", len(got), report)
		}
		if (err == nil) != (len(got) == len(want)) && err != errScript {
			t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
		}
		if at, err := file.Seek(0, io.SeekCurrent); err != nil || at != from+report.Bytes {
			t.Fatalf("the file is at %d, want %d: %v", at, from+report.Bytes, err)
		}
	}
}

// fuzzReader copies a stream.
func fuzzReader(t *testing.T, s *copySteps, data []byte, w steppedWriter) {
	src := steppedReader{s, bytes.NewReader(data)}
	limited := &io.LimitedReader{R: src, N: int64(s.next()) * 900}
	want := data[:min(limited.N, int64(len(data)))]
	report, err := chunk.Copy(context.Background(), w, limited)
	if int64(w.w.Len()) != report.Bytes || report.Copied != report.Bytes ||
		!bytes.HasPrefix(want, w.w.Bytes()) {
		t.Fatalf("%d bytes arrived, %+v", w.w.Len(), report)
	}
	if err == nil && w.w.Len() != len(want) || err != nil && err != errScript &&
		err != io.ErrShortWrite {
		t.Fatalf("%d bytes of %d, %v", w.w.Len(), len(want), err)
	}
}
