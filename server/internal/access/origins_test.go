package access

import (
	"testing"
)

// An entry of a list of origins has no path and is not a keyword.
func TestParseOrigins(t *testing.T) {
	for _, list := range []string{
		"example.org", "https://example.org/", "https://", "https://a.b/c", "**",
		"https://u@example.org",
	} {
		if _, err := ParseOrigins(list); err == nil {
			t.Errorf("%q is a list of origins", list)
		}
	}
}
