package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

var somewhere = &net.UnixAddr{Name: "here", Net: "unix"}

func noConns() []syscall.Conn { return nil }

// Every line is answered with one JSON value, what makes no sense with an excuse.
func TestAnswer(t *testing.T) {
	for _, tt := range []struct{ ask, says string }{
		{"usage", `"cpu_ns":`},
		{"stop", "does not record"},
		{"record", "unexpected end of JSON"},
		{"record {}x", "invalid character"},
		{`record {"interval_ns":-5}`, `"error":`},
		{"dance", `asked for \"dance\"`},
		{"", `asked for \"\"`},
	} {
		var out bytes.Buffer
		if err := answer(strings.NewReader(tt.ask+"\n"), &out, somewhere, noConns); err != nil {
			t.Fatal(err)
		}
		said := strings.SplitN(out.String(), "\n", 2)
		if said[0] != `{"addr":"here"}` || !strings.Contains(said[1], tt.says) {
			t.Errorf("%q is answered with %q", tt.ask, said)
		}
	}
}

// A server that records when its parent goes stops recording.
func TestAnswerStopsRecording(t *testing.T) {
	var out bytes.Buffer
	in := "record {\"interval_ns\":20000000}\nrecord {\"interval_ns\":20000000}\nstop\nstop\nrecord {\"interval_ns\":20000000}\n"
	if err := answer(strings.NewReader(in), &out, somewhere, noConns); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&out)
	var h hello
	var first, second, last excuse
	var stopped, again recorded
	for _, v := range []any{&h, &first, &second, &stopped, &again, &last} {
		if err := d.Decode(v); err != nil {
			t.Fatal(err)
		}
	}
	if first.Error != "" || stopped.Error != "" || stopped.Timeline == nil || last.Error != "" {
		t.Errorf("%+v, %+v, %+v", first, stopped, last)
	}
	if second.Error == "" || again.Error == "" {
		t.Error("a server began or stopped to record twice")
	}
}

func FuzzAnswer(f *testing.F) {
	for _, line := range []string{"usage", "stop", "record", "record {", "usage \nusage", "record [1]\n\n"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if strings.Contains(in, askRecord+" {\"") {
			t.Skip("recording takes time")
		}
		var out bytes.Buffer
		_ = answer(strings.NewReader(in), &out, somewhere, noConns)
		replies := 0
		for d := json.NewDecoder(&out); ; replies++ {
			var v any
			if err := d.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		lines := strings.Count(in, "\n")
		if in != "" && !strings.HasSuffix(in, "\n") {
			lines++
		}
		if len(in) < 60_000 && replies != lines+1 {
			t.Errorf("%d lines have %d answers", lines, replies-1)
		}
	})
}

func TestServerThatCannotStart(t *testing.T) {
	for _, o := range []order{{Handler: "nobody"}, {Handler: "millrace", Dir: "/nonexistent"}} {
		p, err := Config{}.startProcess(o)
		if err == nil {
			// It says hello before it serves: what is wrong is known at its end.
			err = p.stop()
		}
		if err == nil {
			t.Errorf("%+v serves", o)
		}
	}
	if _, err := (Config{Command: []string{"/nonexistent"}}).startProcess(order{}); err == nil {
		t.Error("a program that is not there has started")
	}
}

// A server answers, records, and ends when it is told to.
func TestServerProcess(t *testing.T) {
	p, err := Config{}.startProcess(order{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.endRecord(); err == nil {
		t.Error("a recording that had not begun has ended")
	}
	if err := p.record(recordOrder{Interval: tiny().Interval}); err != nil {
		t.Fatal(err)
	}
	if timeline, err := p.endRecord(); err != nil || timeline.Began.IsZero() {
		t.Errorf("%+v, %v", timeline, err)
	}
	if _, err := p.cpu(); err != nil {
		t.Error(err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if _, err := p.cpu(); err == nil {
		t.Error("a server that is gone has answered")
	}
}

// The newest connections are remembered, and no more than so many.
func TestLastConns(t *testing.T) {
	server, client := net.Pipe()
	defer server.Close()
	defer client.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l := &lastConns{Listener: ln}
	for i := range mostConns + 3 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := l.list(); len(got) != min(i+1, mostConns) || got[i%mostConns] != a.(syscall.Conn) {
			t.Fatalf("after %d connections %d are remembered", i+1, len(got))
		}
		_ = c.Close()
		_ = a.Close()
	}
}

// Of what a server complains about, the beginning is kept.
func TestComplaint(t *testing.T) {
	var c complaint
	for i := range 3 * mostComplaint / 1000 {
		line := strings.Repeat(string(rune('a'+i%26)), 1000)
		if n, err := c.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if s := c.String(); len(s) != mostComplaint || !strings.HasPrefix(s, strings.Repeat("a", 1000)+"b") {
		t.Errorf("%d bytes are kept", len(s))
	}
}
