package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// logLines is the maximum number of queued lines. A busy server writes a few hundred lines per
	// second.
	logLines = 4096
	logFlush = time.Second
)

// A logWriter writes a log in a separate goroutine, so that a full pipe or a stopped terminal does
// not block the server. If the queue is full, it drops lines. Before the next line, it writes how
// many lines were dropped.
type logWriter struct {
	w     io.Writer
	lines chan logLine
	lost  atomic.Int64
}

// A logLine is a line of text, or marks the position of a Flush.
type logLine struct {
	text    []byte
	flushed chan struct{} // nil for text; closed when all earlier lines have been written
}

func newLogWriter(w io.Writer) *logWriter {
	l := &logWriter{w: w, lines: make(chan logLine, logLines)}
	go l.run()
	return l
}

// Write adds a copy of p to the queue, or drops p if the queue is full. It never blocks.
func (l *logWriter) Write(p []byte) (int, error) {
	select {
	case l.lines <- logLine{text: append([]byte(nil), p...)}:
	default:
		l.lost.Add(1)
	}
	return len(p), nil
}

func (l *logWriter) run() {
	for line := range l.lines {
		if n := l.lost.Swap(0); n > 0 {
			_, _ = fmt.Fprintf(l.w,
				"millrace: %d lines of the log were lost, because the log was blocked\n", n)
		}
		if line.flushed != nil {
			close(line.flushed)
			continue
		}
		_, _ = l.w.Write(line.text) // there is no place to report an error
	}
}

// Flush waits until all earlier lines have been written, but not longer than logFlush.
func (l *logWriter) Flush() {
	late := time.NewTimer(logFlush)
	defer late.Stop()
	flushed := make(chan struct{})
	select {
	case l.lines <- logLine{flushed: flushed}:
	case <-late.C:
		return
	}
	select {
	case <-flushed:
	case <-late.C:
	}
}
