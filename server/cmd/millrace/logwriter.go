package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// logLines is the maximum number of lines that wait while the log is blocked. A busy server
	// writes some hundred lines per second.
	logLines = 4096
	// logFlush is the maximum time that Flush waits.
	logFlush = time.Second
)

// A logWriter writes a log in a separate goroutine, so that a full pipe or a stopped terminal does
// not block the server. While logLines lines wait, further lines are dropped. Before the next line
// it writes the number of dropped lines.
type logWriter struct {
	w     io.Writer
	lines chan logLine
	lost  atomic.Int64
}

// A logLine is either a line of text, or a request to close flushed after all earlier lines were
// written.
type logLine struct {
	text    []byte
	flushed chan struct{}
}

func newLogWriter(w io.Writer) *logWriter {
	l := &logWriter{w: w, lines: make(chan logLine, logLines)}
	go l.run()
	return l
}

// Write queues a copy of p, or drops p if logLines lines wait. It never blocks.
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
		_, _ = l.w.Write(line.text) // an error cannot be reported anywhere
	}
}

// Flush waits until all earlier lines have been written, but at most for logFlush.
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
