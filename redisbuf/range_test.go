package redisbuf

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A range is only accepted if the length before it and the length after it are the expected one.
func TestRange(t *testing.T) {
	const value = "$5\r\nvalue\r\n"
	status := func(err error) string {
		var changed *ValueChangedError
		switch {
		case errors.As(err, &changed):
			return fmt.Sprint("changed to ", changed.Is)
		case isA[*ProtocolError](err):
			return "protocol"
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			return "WRONGTYPE"
		case err != nil:
			return "lost"
		}
		return "value"
	}
	const ok = "+OK\r\n"
	for _, test := range []struct {
		replies, want string
		goesOn        bool // the connection stays usable
		// In a slot that is being migrated, each command is preceded by an ASKING.
		asking bool
	}{
		{":9\r\n" + value + ":9\r\n", "value", true, false},
		{":8\r\n" + value + ":9\r\n", "changed to 8", true, false},
		{":9\r\n" + value + ":8\r\n", "changed to 8", true, false},
		{":0\r\n$0\r\n\r\n:0\r\n", "changed to 0", true, false},
		{":9\r\n$2\r\nva\r\n:9\r\n", "changed to 4", true, false}, // the range begins at 2
		{":9\r\n$0\r\n\r\n:9\r\n", "changed to 2", true, false},
		{":9\r\n$0\r\n\r\n:0\r\n", "changed to 0", true, false},
		{":9\r\n$2\r\nva\r\n:3\r\n", "changed to 3", true, false},
		{":9\r\n" + value + "-WRONGTYPE x\r\n", "WRONGTYPE", true, false},
		{"-WRONGTYPE x\r\n-WRONGTYPE x\r\n-WRONGTYPE x\r\n", "WRONGTYPE", true, false},
		{":9\r\n-WRONGTYPE x\r\n:0\r\n", "WRONGTYPE", true, false},
		{":9\r\n:9\r\n:9\r\n", "protocol", false, false},
		{"+OK\r\n" + value + ":9\r\n", "protocol", false, false},
		{":9\r\n" + value + "+OK\r\n", "protocol", false, false},
		{":9\r\n$5\r\nval", "lost", false, false},
		{":9\r\n" + value, "lost", false, false},
		{":8\r\n", "lost", false, false},
		{"", "lost", false, false},
		{ok + ":9\r\n" + ok + value + ok + ":9\r\n", "value", true, true},
		// ASKING was not needed.
		{ok + ":9\r\n-ERR x\r\n" + value + "-ERR x\r\n:9\r\n", "value", true, true},
		{ok + ":8\r\n" + ok + value + ok + ":9\r\n", "changed to 8", true, true},
		{ok + ":9\r\n" + ok + value + ok + ":8\r\n", "changed to 8", true, true},
		{ok + ":9\r\n", "lost", false, true},
		{ok + ":9\r\n" + ok + value, "lost", false, true},
	} {
		c, server := tapeOf(test.replies)
		c.asking = test.asking
		r := ReaderAt{key: "k", size: 9}
		op := r.rangeCmd(2, make([]byte, 5))
		err := c.run(bounded(t), op)
		if got := status(err); got != test.want || c.broken == test.goesOn {
			t.Errorf("%q: %v, want %s; broken %v", test.replies, err, test.want, c.broken)
		}
		if err == nil && string(op.buf) != "value" {
			t.Errorf("%q: %q, want value", test.replies, op.buf)
		}
		if n := bytes.Count(server.took, []byte("ASKING")); test.asking != (n == 3) || c.asking {
			t.Errorf("%q: asked %d times", test.replies, n)
		}
	}
}
