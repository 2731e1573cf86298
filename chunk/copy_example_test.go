package chunk_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/millrace-io/millrace/chunk"
)

// The report says whether the kernel moved the bytes, even if a middleware has wrapped the
// response.
func ExampleCopy() {
	f, err := os.CreateTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Remove(f.Name())
	defer f.Close()
	_, _ = io.WriteString(f, strings.Repeat("a line\n", 10_000))

	handler := func(w http.ResponseWriter, r *http.Request) {
		_, _ = f.Seek(0, io.SeekStart)
		report, err := chunk.Copy(r.Context(), w, f)
		fmt.Println(report.Bytes, "bytes,", err)
	}
	s := httptest.NewServer(http.HandlerFunc(handler))
	defer s.Close()
	resp, err := http.Get(s.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(len(body), "arrived,", err)
	// Unordered output:
	// 70000 bytes, <nil>
	// 70000 arrived, <nil>
}
