package access

import (
	"testing"
)

// A client's query cannot end an address in a playlist.
func TestOwnQuery(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "b=2&a=1": "a=1&b=2", "a=2&a=1": "a=2&a=1", "u=x;v=y&_HLS_msn=1": "u=x;v=y",
		`a="x#y z`: "a=%22x%23y%20z", "&&": "",
	} {
		if got := ownQuery(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
