package hook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/millrace-io/millrace/server/internal/hook"
)

// A hook gives a secret stream key a public name.
func Example() {
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"allow": true, "name": "show"}`)
	}))
	defer program.Close()
	client, err := hook.New(hook.Config{URL: program.URL, Timeout: 3 * time.Second})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer client.Close(ctx) // delivers the waiting ends
	q := &hook.Request{Event: hook.Publish, Stream: "s3cr3t", Protocol: "rtmp",
		Address: "192.0.2.7"}
	answer, err := client.Ask(ctx, q)
	fmt.Println(answer.Name, err)
	client.End(q, "end of the stream", 1_000_000)
	// Output: show <nil>
}
