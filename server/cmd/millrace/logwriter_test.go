package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A blocked log never blocks its writers. It drops lines, and reports their number later.
func TestBlockedLogDropsLines(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := newLogWriter(w)
	const lines = 5 * logLines
	for i := range lines {
		if n, err := fmt.Fprintf(l, "line %d %s\n", i, strings.Repeat("x", 100)); n == 0 ||
			err != nil {
			t.Fatal(n, err)
		}
	}
	began := time.Now()
	l.Flush()
	if took := time.Since(began); took < logFlush {
		t.Errorf("a log that takes nothing is flushed after %v", took)
	}
	kept, lost := 0, 0
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(r); s.Scan(); {
			var n int
			if _, err := fmt.Sscanf(s.Text(), "millrace: %d lines of the log were lost",
				&n); err == nil {
				lost += n
			} else if strings.HasPrefix(s.Text(), "line ") {
				kept++
			}
		}
	}()
	l.Flush()
	l.Flush()
	close(l.lines)
	_ = w.Close()
	<-read
	if kept < logLines || lost == 0 || kept+lost != lines {
		t.Errorf("%d lines kept and %d lost, of %d", kept, lost, lines)
	}
}

// Flush waits for all lines.
func TestLogIsFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow slowWriter
		l := newLogWriter(&slow)
		for range 10 {
			_, _ = l.Write([]byte("x\n"))
		}
		if l.Flush(); slow.lines != 10 {
			t.Errorf("%d lines were written at Flush, want 10", slow.lines)
		}
		close(l.lines)
	})
}

type slowWriter struct{ lines int }

func (w *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	w.lines++
	return len(p), nil
}
