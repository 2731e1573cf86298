// Command slog has a slog.Handler that formats a record on the stack and writes it with one call.
//
//	go run ./slog
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/millrace-io/millrace/stackbuf"
)

// A handler writes records as lines of text, such as "INFO started port=80". It has no groups.
type handler struct {
	mu    *sync.Mutex
	w     io.Writer
	attrs []slog.Attr
}

func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b stackbuf.Buffer // the first 64 bytes need no heap
	b.WriteString(r.Level.String())
	b.WriteByte(' ')
	b.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		b.WriteByte(' ')
		b.WriteString(a.Key)
		b.WriteByte('=')
		b.WriteString(a.Value.String())
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := b.WriteTo(h.w) // h.w.Write(b.Bytes()) would move b to the heap
	return err
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.mu, h.w, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func (h *handler) WithGroup(string) slog.Handler { return h }

func main() {
	log := slog.New(&handler{mu: new(sync.Mutex), w: os.Stdout})
	log.With("port", 80).Info("started", "name", "example")
}
