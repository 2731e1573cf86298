package chunk_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// A step is what a handler does to its response, one after the other.
type step struct {
	name string
	do   func(t *testing.T, w http.ResponseWriter) error
	data []byte // what it would have the body have, if there is room
}

// The body that a client must not get as a response of its own.
var (
	bigBody   = append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"), someBytes(90_000)...)
	sentBody  = bytes.Repeat([]byte("sent"), 10_000) // long enough for sendfile
	smallBody = bytes.Repeat([]byte("small"), 1000)
	shortBody = bytes.Repeat([]byte("short"), 500) // which is written from every file, also from a part of one
	tinyBody  = []byte("tiny")
)

func headerStep(status int) step {
	return step{fmt.Sprint("header ", status), func(_ *testing.T, w http.ResponseWriter) error {
		w.WriteHeader(status)
		return nil
	}, nil}
}

func lengthStep(n int) step {
	return step{fmt.Sprint("length ", n), func(_ *testing.T, w http.ResponseWriter) error {
		w.Header().Set("Content-Length", strconv.Itoa(n))
		return nil
	}, nil}
}

// noLengthStep is what a handler does that takes a response for one that has not begun.
var noLengthStep = step{"no length", func(_ *testing.T, w http.ResponseWriter) error {
	w.Header().Del("Content-Length")
	return nil
}, nil}

var flushStep = step{"flush", func(_ *testing.T, w http.ResponseWriter) error {
	if _, ok := w.(*round); !ok { // which has no end
		_ = http.NewResponseController(w).Flush() // nor has every wrapper one that can
	}
	return nil
}, nil}

func writeStep(data []byte) step {
	return step{fmt.Sprint("write ", len(data)), func(_ *testing.T, w http.ResponseWriter) error {
		_, err := w.Write(data)
		return err
	}, data}
}

// copyStep copies from what open makes of data.
func copyStep(what string, data []byte, open func(t *testing.T) io.Reader) step {
	return step{fmt.Sprint("copy ", what, " ", len(data)), func(t *testing.T, w http.ResponseWriter) error {
		_, err := chunk.Copy(context.Background(), w, open(t))
		return err
	}, data}
}

func fileStep(data []byte) step {
	return copyStep("file", data, func(t *testing.T) io.Reader { return fileOf(t, data) })
}

func sectionStep(data []byte) step {
	return copyStep("section", data, func(t *testing.T) io.Reader {
		return io.NewSectionReader(fileOf(t, data), 0, int64(len(data)))
	})
}

func memoryStep(data []byte) step {
	return copyStep("memory", data, func(*testing.T) io.Reader { return bytes.NewReader(data) })
}

// selfStep copies from a source that copies by itself, and would use a ReadFrom that it finds.
func selfStep(data []byte) step {
	return copyStep("self", data, func(t *testing.T) io.Reader { return bufio.NewReader(fileOf(t, data)) })
}

func streamStep(data []byte) step {
	return copyStep("stream", data, func(t *testing.T) io.Reader {
		w, r := tcpEnds(t)
		go func() {
			_, _ = w.Write(data)
			_ = w.Close()
		}()
		return r
	})
}

// failedStep is a Copy that fails before there is a first byte, of a file whose length is known.
var failedStep = step{"copy that fails", func(t *testing.T, w http.ResponseWriter) error {
	f, err := os.OpenFile(fileOf(t, bigBody).Name(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if report, err := chunk.Copy(context.Background(), w, f); err == nil || report.Bytes > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	return nil
}, nil}

// panickedStep is a Copy that panics when some of its file has been sent, which the handler makes light of.
var panickedStep = step{"copy that panics", func(t *testing.T, w http.ResponseWriter) error {
	defer func() { _ = recover() }()
	_, err := chunk.Copy(context.Background(), w, fileOf(t, bigBody), chunk.Progress(func(n int64) {
		if n > 10_000 {
			panic("progress")
		}
	}))
	return err
}, bigBody}

// A lengthTest is a handler that copies more than once, or more than it has promised.
type lengthTest struct {
	steps  []step
	length int  // Content-Length that the client gets, or -1
	body   int  // bytes of the body that it gets, or -1 if it is not the steps' alone or nobody can say
	fails  bool // one of the steps does
	kept   bool // the connection, over HTTP/1.1
}

var lengthTests = []lengthTest{
	// Without a length there is room for everything.
	{[]step{headerStep(200), fileStep(smallBody), fileStep(bigBody)}, -1, 5000 + len(bigBody), false, true},
	{[]step{writeStep(tinyBody), fileStep(smallBody), fileStep(bigBody)}, -1, 5004 + len(bigBody), false, true},
	{[]step{writeStep(tinyBody), flushStep, fileStep(smallBody), sectionStep(bigBody)}, -1, 5004 + len(bigBody), false, true},
	{[]step{headerStep(200), memoryStep(tinyBody), fileStep(bigBody), memoryStep(tinyBody)}, -1, 8 + len(bigBody), false, true},
	{[]step{headerStep(200), fileStep(tinyBody), streamStep(bigBody)}, -1, 4 + len(bigBody), false, true},
	{[]step{headerStep(200), flushStep, selfStep(bigBody), selfStep(tinyBody)}, -1, 4 + len(bigBody), false, true},
	{[]step{headerStep(200), lengthStep(10), noLengthStep, fileStep(bigBody)}, -1, len(bigBody), false, true},
	// The first Copy has set it.
	{[]step{fileStep(smallBody), fileStep(bigBody)}, 5000, 5000, true, true},
	{[]step{fileStep(smallBody), sectionStep(bigBody)}, 5000, 5000, true, true},
	{[]step{fileStep(smallBody), memoryStep(bigBody)}, 5000, 5000, true, false},
	{[]step{fileStep(smallBody), streamStep(bigBody)}, 5000, 5000, true, true},
	{[]step{fileStep(smallBody), selfStep(bigBody)}, 5000, 5000, true, false},
	{[]step{fileStep(smallBody), noLengthStep, fileStep(bigBody)}, 5000, 5000, true, true},
	{[]step{fileStep(smallBody), flushStep, lengthStep(90_000), fileStep(bigBody)}, 5000, 5000, true, true},
	{[]step{memoryStep(tinyBody), fileStep(bigBody)}, 4, 4, true, true},
	{[]step{fileStep(tinyBody), fileStep(tinyBody)}, 4, 4, true, true},
	// The handler has, and it is right.
	{[]step{lengthStep(5000 + len(bigBody)), fileStep(smallBody), fileStep(bigBody)},
		5000 + len(bigBody), 5000 + len(bigBody), false, true},
	{[]step{lengthStep(4 + len(bigBody)), writeStep(tinyBody), flushStep, streamStep(bigBody)},
		4 + len(bigBody), 4 + len(bigBody), false, true},
	// The handler has, and has more.
	{[]step{lengthStep(6000), fileStep(smallBody), fileStep(bigBody)}, 6000, 6000, true, true},
	{[]step{lengthStep(6000), fileStep(smallBody), streamStep(bigBody)}, 6000, 6000, true, true},
	{[]step{lengthStep(6000), streamStep(smallBody), fileStep(bigBody)}, 6000, 6000, true, true},
	{[]step{lengthStep(5050), writeStep(smallBody), fileStep(bigBody)}, 5050, 5050, true, true},
	{[]step{lengthStep(5050), writeStep(smallBody), streamStep(bigBody)}, 5050, 5050, true, true},
	{[]step{lengthStep(5050), writeStep(smallBody), flushStep, fileStep(bigBody)}, 5050, 5050, true, true},
	{[]step{lengthStep(5050), writeStep(smallBody), flushStep, selfStep(bigBody)}, 5050, 5000, true, false},
	{[]step{lengthStep(1000), headerStep(200), flushStep, noLengthStep, fileStep(bigBody)}, 1000, 1000, true, true},
	{[]step{lengthStep(1000), headerStep(200), lengthStep(90_000), fileStep(bigBody)}, 1000, 1000, true, true},
	{[]step{lengthStep(1000), headerStep(200), lengthStep(90_000), streamStep(bigBody)}, 1000, 1000, true, true},
	{[]step{panickedStep, noLengthStep, fileStep(bigBody)}, len(bigBody), -1, true, false},
	// What is written counts as what is sent does.
	{[]step{fileStep(shortBody), fileStep(bigBody)}, 2500, 2500, true, true},
	{[]step{lengthStep(3000), fileStep(shortBody), fileStep(shortBody)}, 3000, 3000, true, true},
	{[]step{lengthStep(3000), headerStep(200), flushStep, noLengthStep, fileStep(shortBody), streamStep(bigBody)}, 3000, 3000, true, true},
	// And the other way round.
	{[]step{fileStep(sentBody), fileStep(bigBody)}, 40_000, 40_000, true, true},
	{[]step{fileStep(sentBody), fileStep(smallBody)}, 40_000, 40_000, true, true},
	{[]step{lengthStep(41_000), fileStep(sentBody), fileStep(smallBody)}, 41_000, 41_000, true, true},
	{[]step{lengthStep(41_000), fileStep(sentBody), streamStep(bigBody)}, 41_000, 41_000, true, true},
	{[]step{headerStep(200), fileStep(sentBody), fileStep(smallBody)}, -1, 45_000, false, true},
	// There is none.
	{[]step{headerStep(204), fileStep(smallBody), fileStep(bigBody)}, -1, 0, true, true},
	{[]step{headerStep(304), flushStep, fileStep(smallBody), fileStep(bigBody)}, -1, 0, true, true},
}

func (l *lengthTest) name() string {
	var names []string
	for _, s := range l.steps {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// run has the steps done, and reports whether one of them failed. It is the handler.
func (l *lengthTest) run(t *testing.T, w http.ResponseWriter) (failed bool) {
	for _, s := range l.steps {
		failed = s.do(t, w) != nil || failed
	}
	return failed
}

// all returns the body that there would be if there were room.
func (l *lengthTest) all() (all []byte) {
	for _, s := range l.steps {
		all = append(all, s.data...)
	}
	return all
}

// The next response of a connection is the next response, whatever a handler copies to the one before.
func TestCopyKeepsToTheLength(t *testing.T) {
	for _, m := range wrappers {
		for _, l := range lengthTests {
			switch {
			case strings.HasPrefix(m.name, "zips"): // what the length is of is not what is copied
			case m.name == "hooks" && l.body == 0: // it wants to see some
			default:
				l.onConnections(t, m)
			}
		}
	}
}

// A Copy that failed before the header was written has promised nothing.
func TestCopyAfterOneThatFailed(t *testing.T) {
	for _, m := range wrappers {
		switch m.name {
		case "none", "ReadFrom", "hooks", "opaque": // others have the header written first
			for _, l := range []lengthTest{
				{[]step{failedStep, fileStep(smallBody)}, 5000, 5000, false, true},
				{[]step{failedStep, failedStep, memoryStep(tinyBody)}, 4, 4, false, true},
				{[]step{failedStep, streamStep(smallBody)}, -1, 5000, false, true},
			} {
				l.onConnections(t, m)
			}
		}
	}
}

// onConnections runs the test with what HTTP/1 has, and a request for something else behind it. Behind a wrapper that
// keeps the header, the order in which that is written and changed is not the handler's.
func (l *lengthTest) onConnections(t *testing.T, m wrapper) {
	keeps := strings.HasPrefix(m.name, "keeps")
	for _, how := range []string{"GET / HTTP/1.1", "GET / HTTP/1.0", "HEAD / HTTP/1.1"} {
		t.Run(m.name+"/"+l.name()+"/"+how, func(t *testing.T) {
			url := serveWith(t, m, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/next" {
					_, _ = io.WriteString(w, "the next one")
				} else if failed := l.run(t, w); failed != l.fails && !keeps {
					t.Errorf("a step has failed: %t", failed)
				}
			})
			raw := exchange(t, url, request(how, "Connection: keep-alive")+request("GET /next HTTP/1.1", "Connection: close"))
			method, _, _ := strings.Cut(how, " ")
			want := *l
			if keeps {
				want.body = -1
			}
			want.checkRaw(t, raw, method, how == "GET / HTTP/1.1" && !m.slow && !keeps)
		})
	}
}

// checkRaw checks what a connection has brought: a response to the method, and the next one, if any. Where net/http has
// to refuse a Write, which it does as a whole, the body may have less than there is room for.
func (l *lengthTest) checkRaw(t *testing.T, raw, method string, exact bool) {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(raw))
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if l.body >= 0 && !bytes.HasPrefix(l.all(), body) {
		t.Errorf("%d other bytes", len(body))
	}
	if exact && (resp.ContentLength != int64(l.length) && resp.StatusCode == 200 || l.body >= 0 && len(body) != l.body) {
		t.Errorf("%d bytes of %d, want %d of %d", len(body), resp.ContentLength, l.body, l.length)
	}
	if !l.fails && l.body >= 0 && method != "HEAD" && (err != nil || len(body) != l.body) {
		t.Errorf("%d bytes, %v, want %d", len(body), err, l.body)
	}
	next, err := http.ReadResponse(r, nil)
	if kept := err == nil; exact && kept != l.kept {
		t.Errorf("the connection was kept: %t", kept)
	}
	if err != nil {
		if !errors.Is(err, io.ErrUnexpectedEOF) || r.Buffered() > 0 {
			t.Errorf("there is something behind the response: %v", err)
		}
		return
	}
	if body, err = io.ReadAll(next.Body); string(body) != "the next one" {
		t.Errorf("the next response is %.40q, %v", body, err)
	}
}

// Over HTTP/2 a response has no neighbour to spill into. What there is room for arrives, and never more.
func TestCopyKeepsToTheLengthOfStreams(t *testing.T) {
	for _, l := range lengthTests {
		if l.body < 0 {
			continue // a deadline in the past ends the stream before it has a header
		}
		t.Run(l.name(), func(t *testing.T) {
			url, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.run(t, w) }), true, true)
			resp, err := client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.ProtoMajor != 2 {
				t.Error(resp.Proto)
			}
			body, err := io.ReadAll(resp.Body)
			if !bytes.HasPrefix(l.all(), body) || l.length >= 0 && len(body) > l.length {
				t.Errorf("%d bytes, %v", len(body), err)
			}
			if !l.fails && (err != nil || len(body) != l.body) {
				t.Errorf("%d bytes, %v, want %d", len(body), err, l.body)
			}
		})
	}
}

// A recorder checks nothing. What Copy knows of a response is in no header that it shows.
func TestCopyToARecorder(t *testing.T) {
	for _, l := range lengthTests {
		if l.fails {
			continue
		}
		t.Run(l.name(), func(t *testing.T) {
			w := httptest.NewRecorder()
			if l.run(t, w) {
				t.Error("a step has failed")
			}
			if w.Body.Len() != l.body || !bytes.Equal(w.Body.Bytes(), l.all()) {
				t.Errorf("%d bytes, want %d", w.Body.Len(), l.body)
			}
			for _, h := range []http.Header{w.Header(), w.Result().Header} {
				for name, values := range h {
					if name != "Content-Length" && name != "Content-Type" || len(values) != 1 {
						t.Errorf("%s: %q", name, values)
					}
				}
			}
		})
	}
}

// A titled is a middleware that puts something before each body, and lets the length be what it was.
type titled struct{ http.ResponseWriter }

func (p titled) ReadFrom(r io.Reader) (int64, error) {
	_, _ = p.Write(smallBody)
	_ = http.NewResponseController(p.ResponseWriter).Flush()
	return p.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
}

func (p titled) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// What a middleware sends of its own takes room, whenever it does that.
func TestCopyKeepsToTheLengthBehindOneThatWrites(t *testing.T) {
	m := wrapper{"titled", func(w http.ResponseWriter) (http.ResponseWriter, func()) { return titled{w}, func() {} }, false}
	for _, l := range []lengthTest{
		{[]step{fileStep(bigBody)}, len(bigBody), -1, true, true},
		{[]step{lengthStep(len(bigBody)), streamStep(bigBody)}, len(bigBody), -1, true, true},
	} {
		l.onConnections(t, m)
	}
}

// A FileServer that is not the first to write is refused what there is no room for.
func TestFileServerKeepsToTheLength(t *testing.T) {
	root, _ := makeTree(t, map[string]string{"big": string(bigBody)})
	files := newFiles(t, root)
	for _, ranges := range []string{"", "bytes=0-80000", "bytes=0-50000,60000-80000"} {
		serveFile := step{"serve " + ranges, func(_ *testing.T, w http.ResponseWriter) error {
			files.ServeHTTP(w, get("/big", ranges))
			return nil
		}, nil}
		for _, m := range wrappers[:6] {
			for _, l := range []lengthTest{
				{[]step{fileStep(smallBody), serveFile}, 5000, -1, false, false},
				{[]step{fileStep(smallBody), flushStep, serveFile}, 5000, -1, false, false},
				{[]step{lengthStep(6000), writeStep(smallBody), serveFile}, 6000, -1, false, false},
				{[]step{lengthStep(6000), writeStep(smallBody), flushStep, serveFile}, 6000, -1, false, false},
			} {
				l.onConnections(t, m)
			}
		}
	}
}
