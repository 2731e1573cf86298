package cluster

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/server/internal/streamname"
)

func TestParseEvent(t *testing.T) {
	name := strings.Repeat("n", 128)
	long := "http://" + strings.Repeat("h", maxAddress)
	for text, want := range map[string]Event{
		"http://a:1":         {Owner: Owner{Node: "http://a:1"}},
		"https://[::1]:8080": {Owner: Owner{Node: "https://[::1]:8080"}},
		"http://a:1 12 cam": {Stream: "cam",
			Owner: Owner{Node: "http://a:1", Epoch: 12}},
		"http://a:1 0 -": {Stream: "-", Owner: Owner{Node: "http://a:1"}},
		"http://a:1 9007199254740991 cam": {Stream: "cam",
			Owner: Owner{Node: "http://a:1", Epoch: maxEpoch}},
		"http://a:1 9007199254740992 cam": {}, // above Lua's exact integers
		"http://a:1 -1 cam":               {},
		"http://a:1 1":                    {},
		"http://a:1 1 ":                   {},
		"http://a:1 1 cam more": {Stream: "cam",
			Owner: Owner{Node: "http://a:1", Epoch: 1}},
		"http://a:1 1 cam  ": {Stream: "cam",
			Owner: Owner{Node: "http://a:1", Epoch: 1}},
		"http://a:1 1  cam": {},
		"http://a:1 1 ..":   {},
		"http://a:1 1 " + name: {Stream: name,
			Owner: Owner{Node: "http://a:1", Epoch: 1}},
		"http://a:1 1 " + name + "n":        {},
		"http://a:1 ":                       {},
		"http://":                           {},
		"ftp://a:1":                         {},
		"a:1":                               {},
		"":                                  {},
		" 1 cam":                            {},
		"http://a\n:1":                      {},
		long:                                {},
		"http://a:1 1 " + long:              {},
		"http://a:1 18446744073709551617 c": {},
	} {
		if got, ok := parseEvent(text); got != want || ok != (want != Event{}) {
			t.Errorf("%.60q: %v, %v; want %v", text, got, ok, want)
		}
	}
}

// A valid event is published unchanged.
func FuzzParseEvent(f *testing.F) {
	for _, text := range []string{"http://a:1", "https://a:1 12 cam", "http://a:1 0 -",
		"http://a:1 007 x", "  ", "a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, ok := parseEvent(text)
		if !ok {
			if e != (Event{}) {
				t.Errorf("%q is no event, and %v", text, e)
			}
			return
		}
		if again, ok := parseEvent(e.String()); !ok || again != e {
			t.Errorf("%q is %v, and %q is %v, %v", text, e, e.String(), again, ok)
		}
		if e.Owner.Epoch > maxEpoch || len(e.Owner.Node) > maxAddress || e.Stream != "" &&
			streamname.Check(e.Stream) != nil {
			t.Errorf("%q is parsed as %v, which is above the limits or no stream's name", text, e)
		}
	})
}
