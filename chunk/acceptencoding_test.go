package chunk_test

import (
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

func TestAcceptsEncoding(t *testing.T) {
	for value, want := range map[string]bool{
		"gzip": true, "GZIP": true, "x-gzip": true, "*": true, "br, gzip ;q=0.5": true,
		"gzip;q=0": false, "gzip; q=0": false, "gzip;q=0.0": false, "gzip;q=0.000": false,
		"gzip ; Q = 0.":              false,
		"gzip;q=0.5, identity;q=0.1": true, "identity;q=1, gzip;q=0.5, *;q=0": false,
		"gzip;q=0.001": true,
		"identity":     false, "": false, "gzip;q=x": false, "*;q=0": false, "gzip, *;q=0": true,
		"*, gzip;q=0":       false,
		"deflate, gzip, br": true,
	} {
		if got := chunk.AcceptsEncoding([]string{value}, "gzip"); got != want {
			t.Errorf("%s: %t, want %t", value, got, want)
		}
	}
	if chunk.AcceptsEncoding(nil, "gzip") || !chunk.AcceptsEncoding([]string{"br", "gzip"},
		"gzip") {
		t.Error("no header, or two")
	}
}
