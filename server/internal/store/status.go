package store

import (
	"net/http"
	"strconv"
	"sync/atomic"
)

type statusCounts [6]atomic.Int64

func (c *statusCounts) add(status int) { c[min(max(status/100, 0), len(c)-1)].Add(1) }

func (c *statusCounts) byClass() map[string]int64 {
	counts := make(map[string]int64)
	for class := 1; class < len(c); class++ {
		counts[strconv.Itoa(class)+"xx"] = c[class].Load()
	}
	return counts
}

// A statusWriter records the status of the final response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the wrapped writer, for http.ResponseController and chunk.Copy.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
