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

// Answer is what a [Hostile] does when it gets a request.
type Answer struct {
	bytes string
	close bool
}

// Say answers with the bytes of b, which need not be a valid reply. Say("") leaves the client
// waiting.
func Say(b string) Answer { return Answer{bytes: b} }

// ThenClose ends the connection after the bytes.
func (a Answer) ThenClose() Answer {
	a.close = true
	return a
}

// Hostile is a server that sends the answers of its script to any request of any client. It sends
// one answer per request, in the order in which the requests arrive. After the end of the script,
// it closes a connection when a request arrives.
//
// The commands of a client's greeting use up no answer of the script. Hostile answers HELLO, AUTH,
// SELECT, CLIENT, READONLY, READWRITE and ASKING as Redis does.
type Hostile struct {
	service

	// Guarded by mu.
	script   []Answer
	always   *Answer
	requests []string
}

// StartHostile starts a Hostile. It and its connections are closed when the test ends.
func StartHostile(t testing.TB, script ...Answer) *Hostile {
	t.Helper()
	h := &Hostile{script: slices.Clone(script)}
	h.start(t, h.talk)
	return h
}

// Endpoint returns the Endpoint of h.
func (h *Hostile) Endpoint() Endpoint { return Endpoint{Network: "tcp", Addr: h.Addr()} }

// Script replaces the rest of the script.
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

// Requests returns the requests received so far, without greetings. The words of a request are each
// truncated to 64 bytes and separated by spaces.
func (h *Hostile) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// talk serves a connection. It takes ownership of conn.
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
			// Read all bytes, because closing a socket with unread bytes resets its connection.
			_, _ = io.Copy(io.Discard, r)
			return
		}
	}
}

// next removes and returns the next answer of the script.
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

// greeting answers the messages that a client sends before its first request.
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

// keptBytes is how many bytes of a word a [Hostile] keeps. They are enough to identify the word.
const keptBytes = 64

// readRequest reads a request, which is an array of bulk strings, and returns the beginnings of its
// words. The rest of each word is read and dropped.
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

// readSize reads a line that consists of a kind and a number.
func readSize(r *bufio.Reader, kind byte) (int64, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line[1:]), 10, 64)
	if err != nil || line[0] != kind || n < 0 {
		return 0, fmt.Errorf("redistest: not a request: %q", line)
	}
	return n, nil
}
