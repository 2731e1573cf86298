package refuse

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Each error has a status, a cause for metrics, and the header fields of its response.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		status int
		cause  Cause
		header string
	}{
		{"the cause of a status", New(http.StatusNotFound, "no stream %q", "cam"), 404, NotFound,
			"[] []"},
		{"a cause of its own", New(http.StatusNotFound, "").For(Path), 404, Path, "[] []"},
		{"a status without a cause", New(http.StatusTeapot, ""), 418, Other, "[] []"},
		{"no token", New(http.StatusUnauthorized, ""), 401, NoToken,
			`[Bearer realm="millrace"] []`},
		{"a part of a second", New(http.StatusServiceUnavailable,
			"").For(Memory).After(time.Millisecond), 503, Memory, "[] [1]"},
		{"wrapped", fmt.Errorf("here: %w", New(http.StatusConflict, "").After(90*time.Second)), 409,
			Conflict, "[] [90]"},
		{"no response", New(0, "").For(Silent), 0, Silent, "[] []"},
		{"a client that left", context.Canceled, 503, Other, "[] []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := make(http.Header)
			if status, cause := SetHeader(h, tt.err), CauseOf(tt.err); status != tt.status ||
				cause != tt.cause {
				t.Errorf("%d %s, want %d %s", status, cause, tt.status, tt.cause)
			}
			if got := fmt.Sprint(h["Www-Authenticate"], h["Retry-After"]); got != tt.header {
				t.Errorf("WWW-Authenticate and Retry-After %s, want %s", got, tt.header)
			}
		})
	}
	if got := New(http.StatusNotFound, "no stream %q", "cam").Error(); got != `no stream "cam"` {
		t.Errorf("the reason is %s", got)
	}
}
