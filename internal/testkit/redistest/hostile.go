package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// keptRequests is how many requests a [Hostile] remembers; a client that asks for ever is not to fill the memory.
const keptRequests = 10000

// Answer is what a [Hostile] does on a request.
type Answer struct {
	bytes string
	close bool
}

// Say answers with these bytes, valid or not. Say("") leaves the client waiting.
func Say(b string) Answer { return Answer{bytes: b} }

// ThenClose ends the connection after the bytes.
func (a Answer) ThenClose() Answer {
	a.close = true
	return a
}

// Hostile is a server that answers what its script says, to any request of any client: one answer per request, in
// the order in which the requests arrive. After the script's end it closes the connection on each request.
//
// A client's greeting takes nothing from the script: HELLO, AUTH, SELECT, CLIENT, READONLY, READWRITE and ASKING are
// answered as Redis 7.0 does.
type Hostile struct {
	ln      net.Listener
	running sync.WaitGroup

	mu       sync.Mutex
	script   []Answer
	always   *Answer
	requests []string
	accepted int
	conns    map[net.Conn]struct{}
	closed   bool
}

// StartHostile starts one that ends with the test, and so do its connections.
func StartHostile(t testing.TB, script ...Answer) *Hostile {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	h := &Hostile{ln: ln, conns: make(map[net.Conn]struct{})}
	h.Script(script...)
	h.running.Go(h.serve)
	t.Cleanup(h.end)
	return h
}

// Addr returns the address to dial, host:port.
func (h *Hostile) Addr() string { return h.ln.Addr().String() }

// Options returns new options of a client; see [Server.Options].
func (h *Hostile) Options() *redis.Options {
	return &redis.Options{Addr: h.Addr(), MaintNotificationsConfig: noMaintenance()}
}

// Script replaces what is left of the script.
func (h *Hostile) Script(script ...Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.script, h.always = slices.Clone(script), nil
}

// Always replaces the script by one answer to all requests.
func (h *Hostile) Always(a Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.script, h.always = nil, &a
}

// Requests returns the requests so far, greetings not included: their words, cut to 64 bytes each, with blanks between.
func (h *Hostile) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// Accepted returns how many connections there have been.
func (h *Hostile) Accepted() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.accepted
}

func (h *Hostile) serve() {
	for {
		conn, err := h.ln.Accept()
		if err != nil {
			return // closed
		}
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			conn.Close()
			return
		}
		h.accepted++
		h.conns[conn] = struct{}{}
		h.mu.Unlock()
		h.running.Go(func() {
			h.talk(conn)
			h.mu.Lock()
			delete(h.conns, conn)
			h.mu.Unlock()
		})
	}
}

// talk takes ownership of conn.
func (h *Hostile) talk(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		words, err := readRequest(r)
		if errors.Is(err, errRequest) {
			fmt.Fprintf(conn, "-ERR Protocol error: %q\r\n", err.Error())
			return
		}
		if err != nil {
			return
		}
		if len(words) == 0 {
			continue // as Redis does
		}
		answer, ok := greeting(words)
		if !ok {
			answer = h.next(words)
		}
		if _, err := conn.Write([]byte(answer.bytes)); err != nil {
			return
		}
		if answer.close {
			closeWrite(conn)
			drain(r) // a socket that is closed with bytes unread resets its connection
			return
		}
	}
}

// drain reads what a client that is leaving has still to say.
func drain(r *bufio.Reader) {
	for {
		if _, err := r.Discard(r.Size()); err != nil {
			return
		}
	}
}

// next takes an answer from the script.
func (h *Hostile) next(words []string) Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.requests) < keptRequests {
		h.requests = append(h.requests, strings.Join(words, " "))
	}
	if h.always != nil {
		return *h.always
	}
	if len(h.script) == 0 {
		return Say("").ThenClose()
	}
	a := h.script[0]
	h.script = h.script[1:]
	return a
}

// greeting answers what a client sends before it has anything to ask.
func greeting(words []string) (a Answer, ok bool) {
	second := ""
	if len(words) > 1 {
		second = strings.ToUpper(words[1])
	}
	switch strings.ToUpper(words[0]) {
	case "HELLO":
		return Say(hello(second)), true
	case "AUTH", "SELECT", "READONLY", "READWRITE", "ASKING":
		return Say("+OK\r\n"), true
	case "CLIENT":
		switch second {
		case "SETNAME", "SETINFO", "REPLY", "NO-EVICT":
			return Say("+OK\r\n"), true
		case "ID":
			return Say(":1\r\n"), true
		}
		return Say(fmt.Sprintf("-ERR unknown subcommand '%s'. Try CLIENT HELP.\r\n", second)), true
	}
	return Answer{}, false
}

// hello is the answer to HELLO: a map in version 3, the same as an array in version 2.
func hello(version string) string {
	head := "%7"
	switch version {
	case "3":
	case "", "2":
		head, version = "*14", "2"
	default:
		return "-NOPROTO unsupported protocol version\r\n"
	}
	return head + "\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:" + version +
		"\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
}

// end closes everything, and returns when no goroutine is left.
func (h *Hostile) end() {
	h.ln.Close()
	h.mu.Lock()
	h.closed = true
	for conn := range h.conns {
		conn.Close()
	}
	h.mu.Unlock()
	h.running.Wait()
}

// What a [Hostile] keeps of a request: enough to tell which it was.
const (
	keptWords = 16
	keptBytes = 64 // of a word
)

var errRequest = errors.New("redistest: not a request")

// readRequest reads a request, an array of bulk strings, and returns the beginnings of its first words. The words are read to
// their ends, but not into memory.
func readRequest(r *bufio.Reader) (words []string, err error) {
	n, err := readSize(r, '*')
	for i := int64(0); i < n && err == nil; i++ {
		var size int64
		if size, err = readSize(r, '$'); err != nil {
			break
		}
		word := make([]byte, min(size, keptBytes))
		if _, err = io.ReadFull(r, word); err != nil {
			break
		}
		if _, err = io.CopyN(io.Discard, r, size-int64(len(word))+2); i < keptWords { // and CRLF
			words = append(words, string(word))
		}
	}
	return words, err
}

// readSize reads a line that has a kind and a number.
func readSize(r *bufio.Reader, kind byte) (int64, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line[1:]), 10, 64)
	if err != nil || line[0] != kind || n < 0 {
		return 0, fmt.Errorf("%w: %q", errRequest, line)
	}
	return n, nil
}
