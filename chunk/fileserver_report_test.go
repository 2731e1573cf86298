package chunk_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// A slowReader is middleware with an Unwrap and a ReadFrom, which copies.
type slowReader struct{ http.ResponseWriter }

func (s slowReader) ReadFrom(src io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{s.ResponseWriter}, src)
}

func (s slowReader) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Whatever a client asks for, the alarm rings if a middleware has lost the fast path, and otherwise not. What is copied
// because it is small is called that only where it could have been sent.
func TestFastPathWhateverIsAskedFor(t *testing.T) {
	root, _ := makeTree(t, map[string]string{"large.bin": string(letters), "small.bin": string(letters[:3000])})
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("%d-%d", i*1000, i*1000+510)
	}
	slow := wrapper{"a ReadFrom that copies", func(w http.ResponseWriter) (http.ResponseWriter, func()) {
		return slowReader{w}, func() {}
	}, true}
	for _, ask := range []struct {
		file, ranges string
		bytes, small int64
	}{
		{"large.bin", "", 256 << 10, 0},
		{"large.bin", "0-9,100000-200000", 100_011, 10},
		{"large.bin", "100000-200000,0-9", 100_011, 10},
		{"large.bin", "0-9,20-29,100000-200000,30-39", 100_031, 30},
		{"large.bin", "0-3071,5000-8072", 6145, 3072},
		{"large.bin", strings.Join(many, ","), 12 * 511, 12 * 511},
		{"large.bin", strings.Join(many, ",") + ",100000-200000", 12*511 + 100_001, 12 * 511},
		{"large.bin", "0-3071", 3072, 3072},
		{"large.bin", "0-3072", 3073, 0},
		{"large.bin", "0-0,2-2", 2, 2},
		{"small.bin", "", 3000, 3000},
		{"small.bin", "0-1999", 2000, 2000},
	} {
		for _, m := range append([]wrapper{slow}, wrappers...) {
			t.Run(fmt.Sprintf("%s, %s %.30s", m.name, ask.file, ask.ranges), func(t *testing.T) {
				told := make(chan chunk.Report, 1)
				h := newFiles(t, root, chunk.OnServed(func(_ *http.Request, sent chunk.Report, _ int) { told <- sent }))
				var header []string
				if ask.ranges != "" {
					header = []string{"Range", "bytes=" + ask.ranges}
				}
				fetch(t, "GET", serveWith(t, m, h.ServeHTTP)+"/"+ask.file, header...)
				sent := <-told
				// Behind one that keeps the header for a while, nobody knows whether a small body could have been sent.
				keeps := ask.bytes <= 3<<10 && m.name == "keeps the header"
				small := ask.small
				if m.name != slow.name && m.slow || keeps {
					small = 0
				}
				if sent.Bytes != ask.bytes || sent.Small != small {
					t.Errorf("%+v; want %d bytes, and %d of them small", sent, ask.bytes, small)
				}
				lost := m.slow && ask.bytes > 3<<10 && ask.bytes-small > 512
				if chunk.CanSendfile && (sent.FastPath() != nil) != lost {
					t.Errorf("%+v: %v", sent, sent.FastPath())
				}
			})
		}
	}
}
