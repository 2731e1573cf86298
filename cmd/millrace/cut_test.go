package main

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
)

// Sizes that no chunk can have are refused, with the flag and the limit, and the largest are not.
func TestCutLimits(t *testing.T) {
	for _, flag := range []string{"--size", "--max-record", "--fixed"} {
		for _, n := range []int{mostCut, mostCut + 1} {
			root := command()
			root.SetArgs([]string{"cut", flag, strconv.Itoa(n), "-"})
			root.SetIn(strings.NewReader(""))
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			err := root.ExecuteContext(t.Context())
			if refused := n > mostCut; (err != nil) != refused {
				t.Errorf("%s %d: %v", flag, n, err)
			}
			if err != nil && !strings.Contains(err.Error(), flag+" is 1073741825, want at most 1GiB") {
				t.Errorf("%s %d: %v", flag, n, err)
			}
		}
	}
	var help bytes.Buffer
	if err := millrace(t.Context(), &help, io.Discard, "cut", "--help"); err != nil || !strings.Contains(help.String(), "1 GiB") {
		t.Errorf("the help does not tell the limit: %v\n%s", err, &help)
	}
}
