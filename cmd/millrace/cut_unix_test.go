//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// fifo makes a FIFO. When the test ends it is opened for both, so that nobody goes on waiting for the other end.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if _, err := syscall.Open(name, syscall.O_RDWR, 0); err != nil { // it stays open
			t.Error(err)
		}
	})
	return name
}

func TestCutOfAFIFO(t *testing.T) {
	name := fifo(t)
	ended := make(chan error, 1)
	var out bytes.Buffer
	go func() { ended <- millrace(t.Context(), &out, io.Discard, "cut", name) }()
	w, err := os.OpenFile(name, os.O_WRONLY, 0) // waits for a reader
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "one\ntwo\n"); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || out.String() != "0 8\n" {
		t.Errorf("%q, %v", &out, err)
	}
}

// Waiting for somebody to write to a FIFO ends with the context.
func TestCutOfAFIFOThatNobodyWritesTo(t *testing.T) {
	name := fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- millrace(ctx, io.Discard, io.Discard, "cut", name) }()
	cancel()
	if err := <-ended; err != errInterrupted {
		t.Error(err)
	}
}
