package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// An Answer is the reaction of a [Hostile] server to a request. The server sends some bytes, which
// need not be a valid reply. It may then close the connection.
type Answer struct {
	bytes string
	close bool
}

// Say returns an Answer that sends b. With Say(""), the server sends nothing, and the client waits.
func Say(b string) Answer { return Answer{bytes: b} }

// ThenClose returns an Answer that also closes the connection after its bytes.
func (a Answer) ThenClose() Answer {
	a.close = true
	return a
}

// Hostile is a fake server for tests of clients. It answers HELLO, AUTH, SELECT, CLIENT, READONLY,
// READWRITE and ASKING as Redis does, and other requests with the Answers of a script, in order.
// After the script, it closes a connection when a request arrives.
type Hostile struct {
	service

	// Guarded by service.mu.
	script   []Answer
	always   *Answer
	requests []string
}

// StartHostile starts a fake server that replies to requests with the Answers in script, in order.
// The server is closed when the test ends.
func StartHostile(t testing.TB, script ...Answer) *Hostile {
	t.Helper()
	h := &Hostile{script: slices.Clone(script)}
	h.start(t, h.talk)
	return h
}

// Endpoint returns the Endpoint of h.
func (h *Hostile) Endpoint() Endpoint { return Endpoint{Network: "tcp", Addr: h.Addr()} }

// Script replaces the Answers that the server has not sent yet.
func (h *Hostile) Script(script ...Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.script, h.always = slices.Clone(script), nil
}

// Always is like [Hostile.Script], but the server sends the same Answer to all requests.
func (h *Hostile) Always(a Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.script, h.always = nil, &a
}

// Requests returns the requests so far, without the client's greetings (see [Hostile]). The words
// of a request are separated by spaces. Only the first 64 bytes of each word are kept.
func (h *Hostile) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

func (h *Hostile) talk(conn net.Conn) {
	h.add(conn)
	defer h.remove(conn)
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		words, err := readRequest(r)
		if err != nil {
			return
		}
		answer, ok := greeting(words)
		if !ok {
			answer = h.next(words)
		}
		if _, err := io.WriteString(conn, answer.bytes); err != nil {
			return
		}
		if answer.close {
			closeWrite(conn)
			// Read the rest, because closing a socket with unread bytes would reset the connection.
			_, _ = io.Copy(io.Discard, r)
			return
		}
	}
}

func (h *Hostile) next(words []string) Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, strings.Join(words, " "))
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

// greeting returns the answer to a command that begins a connection, such as HELLO.
func greeting(words []string) (a Answer, ok bool) {
	switch strings.ToUpper(words[0]) {
	case "HELLO":
		if len(words) > 1 && words[1] == "3" {
			return Say("%1\r\n$5\r\nproto\r\n:3\r\n"), true
		}
		return Say("*2\r\n$5\r\nproto\r\n:2\r\n"), true
	case "AUTH", "SELECT", "CLIENT", "READONLY", "READWRITE", "ASKING":
		return Say("+OK\r\n"), true
	}
	return Answer{}, false
}

// keptBytes is the maximum number of bytes that Hostile keeps of each word.
const keptBytes = 64

// readRequest reads a request, and returns the first keptBytes bytes of each word.
func readRequest(r *bufio.Reader) (words []string, err error) {
	n, err := readSize(r, '*')
	for ; n > 0 && err == nil; n-- {
		var size int64
		if size, err = readSize(r, '$'); err != nil {
			break
		}
		word := make([]byte, min(size, keptBytes))
		if _, err = io.ReadFull(r, word); err != nil {
			break
		}
		words = append(words, string(word))
		_, err = io.CopyN(io.Discard, r, size-int64(len(word))+2) // includes the CRLF
	}
	return words, err
}

// readSize reads a line that consists of prefix and a number, such as "*3". It returns the number.
func readSize(r *bufio.Reader, prefix byte) (int64, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line[1:]), 10, 64)
	if err != nil || line[0] != prefix || n < 0 {
		return 0, fmt.Errorf("redistest: not a request: %q", line)
	}
	return n, nil
}
