package fanout

import (
	"slices"
	"testing"
)

// The reasons have the labels that docs/serve.md lists.
func TestReasonLabels(t *testing.T) {
	var got []string
	for why := range reasons {
		if why.byServer() {
			got = append(got, why.label())
		}
	}
	if want := []string{"lag_bytes", "lag_frames", "lag_time", "evicted", "stalled", "drain",
		"memory", "moved", "form", "operator", "time"}; !slices.Equal(got, want) {
		t.Errorf("viewers are dropped for %q, want %q", got, want)
	}
}
