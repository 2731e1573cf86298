package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
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

// Records of a fixed length may be as long as that, unless --max-record says otherwise.
func TestCutLongRecords(t *testing.T) {
	name := filepath.Join(t.TempDir(), "records")
	if err := os.WriteFile(name, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args, out, err string
	}{
		{"--fixed 2MiB", "0 2097152\n2097152 2097152\n4194304 1048576\n", "chunk: record at offset 4194304: unexpected EOF"},
		{"--fixed 1MiB --size 2MiB", "0 2097152\n2097152 2097152\n4194304 1048576\n", ""},
		{"--fixed 2MiB --max-record 1MiB", "",
			"chunk: record at offset 0: longer than the limit of 1048576 bytes: see --max-record"},
		{"--lines", "", "chunk: record at offset 0: longer than the limit of 1048576 bytes: see --max-record"},
		{"--lines --max-record 8MiB", "0 5242880\n", ""},
	} {
		var out bytes.Buffer
		err := millrace(t.Context(), &out, io.Discard, append(strings.Fields("cut "+test.args), name)...)
		if got := errorText(err); out.String() != test.out || got != test.err {
			t.Errorf("%s: %q, %q", test.args, &out, got)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
