package measure

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
)

// BuildServer compiles the server with Go's profile of leaked goroutines, and returns the path of
// the executable file in dir.
func BuildServer(ctx context.Context, dir string) (string, error) {
	var env []string
	if strings.HasPrefix(runtime.Version(), "go1.26") { // later versions always have the profile
		env = append(env, "GOEXPERIMENT=goroutineleakprofile")
	}
	return Build(ctx, dir, Millrace, env...)
}

// CheckLeaks reads the response to /debug/pprof/goroutineleak?debug=1. It returns an error if
// goroutines wait for something that cannot happen any more.
func CheckLeaks(r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err == nil && !bytes.HasPrefix(text, []byte("goroutineleak profile: total 0\n")) {
		err = fmt.Errorf("leaked goroutines:\n%s", text)
	}
	return err
}
