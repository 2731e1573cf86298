package redistest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A Hostile sends its script, and a conn accepts only valid replies.
func TestHostile(t *testing.T) {
	h := StartHostile(t, Say("*4\r\n$4\r\na\r\nb\r\n:-7\r\n*-1\r\n*1\r\n-ERR part\r\n"), Say("$-1\r\n"), Say("-ERR no\r\n"),
		Say("+x\n"), Say("?\r\n"), Say("$1\r\nabc"), Say("$100\r\nhalf").ThenClose())
	e := h.Endpoint()
	e.Password = "p" // AUTH takes nothing from the script
	var want []string
	for i, tt := range []struct {
		reply any
		says  string // the error
	}{
		{reply: []any{"a\r\nb", int64(-7), nil, []any{replyError("ERR part")}}},
		{reply: nil},
		{says: "ERR no"}, {says: "malformed"}, {says: "malformed"}, {says: "malformed"}, {says: "unexpected EOF"},
		{says: "EOF"}, // the script has ended
	} {
		got, err := dial(t, e).do(t.Context(), "GET", i)
		if !reflect.DeepEqual(got, tt.reply) || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%d: %q, %v; want %q, %s", i, got, err, tt.reply, tt.says)
		}
		want = append(want, fmt.Sprint("GET ", i))
	}
	if got := h.Requests(); !reflect.DeepEqual(got, want) {
		t.Errorf("asked: %q", got)
	}
	h.Always(Say(""))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := dial(t, e).do(ctx, "SET", "k", strings.Repeat("x", 1<<20)); !timedOut(err) {
		t.Errorf("no answer: %v", err)
	}
}
