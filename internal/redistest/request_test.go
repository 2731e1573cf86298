package redistest

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

var requestTests = []struct {
	in   string
	want []string
	err  error
}{
	{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", []string{"GET", "k"}, nil},
	{"*1\r\n$4\r\nPING\r\n", []string{"PING"}, nil},
	{"PING  now\r\n", []string{"PING", "now"}, nil},
	{"PING\n", []string{"PING"}, nil},
	{"\r\n", nil, nil},
	{"*0\r\n", nil, nil},
	{"*2\r\n$3\r\nSET\r\n$100\r\n" + strings.Repeat("x", 100) + "\r\n", []string{"SET", strings.Repeat("x", keptBytes)}, nil},
	{"*20\r\n" + strings.Repeat("$1\r\na\r\n", 20), slices.Repeat([]string{"a"}, keptWords), nil},
	{strings.Repeat("a ", 20) + "\r\n", slices.Repeat([]string{"a"}, keptWords), nil},
	{"", nil, io.EOF},
	{"PING", nil, io.ErrUnexpectedEOF},
	{"*1\r\n", nil, io.ErrUnexpectedEOF},
	{"*1\r\n$9223372036854775807\r\nabc", nil, io.ErrUnexpectedEOF},
	{"*9223372036854775807\r\n$1\r\na\r\n", nil, io.ErrUnexpectedEOF},
	{"*1\r\n$4\r\nPINGPONG\r\n", nil, errRequest},
	{"*1\r\n:1\r\n", nil, errRequest},
	{"*-1\r\n", nil, errRequest},
	{"*x\r\n", nil, errRequest},
	{strings.Repeat("a", 5000) + "\r\n", nil, bufio.ErrBufferFull},
}

func TestReadRequest(t *testing.T) {
	for _, tt := range requestTests {
		r := bufio.NewReader(strings.NewReader(tt.in + "next\r\n"))
		if tt.err == io.EOF || tt.err == io.ErrUnexpectedEOF {
			r = bufio.NewReader(strings.NewReader(tt.in))
		}
		got, err := readRequest(r)
		if !errors.Is(err, tt.err) || !slices.Equal(got, tt.want) {
			t.Errorf("%.40q: %q, %v; want %q, %v", tt.in, got, err, tt.want, tt.err)
		}
		if err != nil {
			continue
		}
		if rest, _ := io.ReadAll(r); string(rest) != "next\r\n" {
			t.Errorf("%.40q: leaves %q", tt.in, rest)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	for _, tt := range requestTests {
		f.Add(tt.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		r := bufio.NewReader(strings.NewReader(in))
		for {
			words, err := readRequest(r)
			if err != nil && words != nil {
				t.Fatalf("%q with %v", words, err)
			}
			if err != nil {
				return
			}
			if len(words) > keptWords || slices.ContainsFunc(words, func(w string) bool { return len(w) > keptBytes }) {
				t.Fatalf("keeps %q", words)
			}
		}
	})
}
