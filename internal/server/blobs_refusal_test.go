package server

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A refusal comes before the body is asked for.
func TestRefusedBlobsAreNotSent(t *testing.T) {
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(nil)
		f.put("k", []byte("old"))
		for header, want := range map[string]int{
			"If-None-Match: *":           412,
			"Millrace-TTL: x":            400,
			"Content-Length: 9999999999": 413,
		} {
			if !strings.HasPrefix(header, "Content-Length") {
				header += "\r\nContent-Length: 1000000"
			}
			conn := dial(t, f.addr, 0)
			_ = conn.SetDeadline(time.Now().Add(patienceOfTests))
			fmt.Fprintf(conn, "PUT /blobs/k HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\n%s\r\n\r\n", f.addr, header)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || res.StatusCode != want {
				t.Errorf("%s: %v, %v", header, res, err)
			}
		}
	})
}

// A refusal that comes amid the body arrives, also if the client reads only when it has sent all.
func TestRefusalsAmidTheBodyArrive(t *testing.T) {
	const most = 1 << 20
	onEachStore(t, func(t *testing.T, start func(func(*Config)) *fixture) {
		f := start(func(c *Config) { c.MaxBlobBytes = most })
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			for range 4 {
				conn := dial(t, f.addr, 0)
				_ = conn.SetDeadline(time.Now().Add(patienceOfTests))
				answer := bufio.NewReader(conn)
				fmt.Fprintf(conn, "PUT /blobs/k HTTP/1.1\r\nHost: %s\r\n%sTransfer-Encoding: chunked\r\n\r\n", f.addr, expect)
				if expect != "" {
					if res, err := http.ReadResponse(answer, nil); err != nil || res.StatusCode != 100 {
						t.Fatal(res, err)
					}
				}
				piece := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, random(64<<10))
				for range 16 * most / (64 << 10) {
					if _, err := io.WriteString(conn, piece); err != nil {
						t.Fatal(err)
					}
				}
				res, err := http.ReadResponse(answer, nil)
				if err != nil || res.StatusCode != 413 || !res.Close || res.ContentLength <= 0 {
					t.Fatal(res, err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					t.Fatal(err)
				}
				_ = conn.Close()
			}
		}
		eventually(t, "room", func() bool { return f.vault.uploads.count() == 0 })
	})
}
