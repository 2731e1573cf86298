package rtmp_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/media/rtmp"
)

// The constants of a Flash-like client.
const (
	flashPlayerKey = "Genuine Adobe Flash Player 001"
	flashServerKey = "Genuine Adobe Flash Media Server 001"
	flashMoreKey   = "\xf0\xee\xc2\x4a\x80\x68\xbe\xe8\x2e\x00\xd0\xd1\x02\x9e\x7e\x57" +
		"\x6e\xec\x5d\x2d\x29\x80\x6f\xab\x93\xb8\xe6\x36\xcf\xeb\x31\xae"
)

func sha(key, text string) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(h, text)
	return string(h.Sum(nil))
}

// sign puts a digest into a message of 1536 bytes. base is 8 or 772.
func sign(c1 string, base int, key string) (signed, digest string) {
	at := base + 4 + (int(c1[base])+int(c1[base+1])+int(c1[base+2])+int(c1[base+3]))%728
	digest = sha(key, c1[:at]+c1[at+32:])
	return c1[:at] + digest + c1[at+32:], digest
}

// signedAt searches a message for a digest of all other bytes, at any offset.
func signedAt(s1, key string) (at int, digest string) {
	for at := range len(s1) - 31 {
		if d := s1[at : at+32]; d == sha(key, s1[:at]+s1[at+32:]) {
			return at, d
		}
	}
	return -1, ""
}

// flashC1 is a C1 with a version. Its bytes sum up to about sum in each place of an offset.
func flashC1(sum byte) string {
	c1 := []byte("\x00\x00\x00\x00\x80\x00\x07\x02" + strings.Repeat("ab", 764))
	for _, base := range []int{8, 772} {
		copy(c1[base:], []byte{sum, sum, sum, sum - 1})
	}
	return string(c1)
}

func TestDigestHandshake(t *testing.T) {
	for _, base := range []int{8, 772} {
		for _, sum := range []byte{1, 100, 182, 183, 255} {
			c1, digest := sign(flashC1(sum), base, flashPlayerKey)
			v := talkRaw(t, "\x03"+c1+strings.Repeat("2", handshakeSize)+publishTo(app("live"),
				"camera"), grant)
			if v.accepted != nil {
				t.Fatal(v.accepted)
			}
			at, _ := signedAt(v.s1, flashServerKey)
			if want := base + 4 + (int(v.s1[base])+int(v.s1[base+1])+int(v.s1[base+2])+int(v.s1[base+3]))%728; at != want {
				t.Errorf("base %d, sum %d: the digest of S1 is at %d, want %d", base, sum, at, want)
			}
			if v.s1[4] < 3 { // ffmpeg does not look for a digest below version 3
				t.Errorf("the version of S1 is %q", v.s1[4:8])
			}
			key := sha(flashServerKey+flashMoreKey, digest)
			if want := sha(key, v.s2[:handshakeSize-32]); v.s2[handshakeSize-32:] != want {
				t.Errorf("base %d, sum %d: S2 is not signed", base, sum)
			}
		}
	}
}

// A client without a digest gets its bytes back, with and without a version.
func TestPlainHandshake(t *testing.T) {
	damaged, _ := sign(flashC1(100), 8, "another key")
	unversioned, _ := sign("\x00\x00\x00\x00\x00\x00\x00\x00"+flashC1(100)[8:], 8, flashPlayerKey)
	for name, c1 := range map[string]string{
		"no version":                    plainHandshake[1 : 1+handshakeSize],
		"a version and no digest":       flashC1(100),
		"a digest of another key":       damaged,
		"a digest, but without version": unversioned,
	} {
		v := talkRaw(t, "\x03"+c1+strings.Repeat("2", handshakeSize)+publishTo(app("live"),
			"camera"), grant)
		if v.accepted != nil || v.s2 != c1 {
			t.Errorf("%s: %v, or S2 is not C1", name, v.accepted)
		}
		if v.s1[:8] != "\x00\x00\x00\x00\x00\x00\x00\x00" {
			t.Errorf("%s: S1 begins with %q", name, v.s1[:8])
		}
		if at, _ := signedAt(v.s1, flashServerKey); at >= 0 {
			t.Errorf("%s: S1 is signed", name)
		}
	}
}

func TestHandshakeRefuses(t *testing.T) {
	for _, tt := range []struct{ name, in, error string }{
		{"RTMPE", "\x06" + flashC1(
			1), "rtmp: the client wants RTMPE (version 6), which is not here: use rtmp or rtmps"},
		{"RTMPE of another kind", "\x08" + flashC1(1),
			"rtmp: the client wants RTMPE (version 8), which is not here: use rtmp or rtmps"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00",
			"rtmp: the client speaks TLS, and this address does not: use rtmp instead of rtmps"},
		{"HTTP", "GET / HTTP/1.1\r\n\r\n", "rtmp: the client speaks HTTP, and this address speaks RTMP"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\n", "rtmp: the client speaks HTTP, and this address speaks RTMP"},
		{"version 0", "\x00", "rtmp: version 0, want 3"},
		{"another version", "\x1f", "rtmp: version 31, want 3"},
		{"no byte", "", "EOF"},
		{"C0", plainHandshake[:1], "unexpected EOF"},
		{"half of C1", plainHandshake[:700], "unexpected EOF"},
		{"no C2", plainHandshake[:1+handshakeSize], "unexpected EOF"},
		{"half of C2", plainHandshake[:2000], "unexpected EOF"},
		{"a handshake alone", plainHandshake, "unexpected EOF"},
	} {
		v := talkRaw(t, tt.in, grant)
		if v.accepted == nil || v.accepted.Error() != tt.error {
			t.Errorf("%s: %v, want %s", tt.name, v.accepted, tt.error)
		}
		if tt.name == "no byte" && !errors.Is(v.accepted, io.EOF) {
			t.Errorf("%v is not io.EOF", v.accepted)
		}
	}
}

// Data other than RTMP is refused at its first byte, because the client may not send more.
func TestRefusesWithTheFirstByte(t *testing.T) {
	for _, first := range []string{"\x06", "\x16", "G"} {
		p, done := dial(t, func(c *rtmp.ServerConn) error {
			_, err := c.Accept()
			return err
		})
		p.send(first)
		var b [1]byte
		if n, err := p.conn.Read(b[:]); err == nil { // the client waits until the server closes the connection
			t.Errorf("the server answers %q with %d bytes", first, n)
		}
		if err := done(); err == nil {
			t.Errorf("%q is accepted", first)
		}
	}
}

// Clients differ in what they wait for before they send C2, and in whether they send it together
// with their first command.
func TestC2AtAnyTime(t *testing.T) {
	c1, c2 := plainHandshake[:1+handshakeSize], plainHandshake[1+handshakeSize:]
	for name, parts := range map[string][]string{
		"at once, with connect":  {c1 + c2 + command("connect", 1, app("live"))},
		"with C1":                {c1 + c2, command("connect", 1, app("live"))},
		"after S2, with connect": {c1, c2 + command("connect", 1, app("live"))},
		"after S2, in two parts": {c1, c2[:100], c2[100:], command("connect", 1, app("live"))},
		"C0 alone, and C1 in half": {c1[:1], c1[1:700], c1[700:], c2,
			command("connect", 1, app("live"))},
	} {
		t.Run(name, func(t *testing.T) {
			p, done := dial(t, func(c *rtmp.ServerConn) error {
				_, err := c.Accept()
				return err
			})
			sent, shaken := 0, false
			for _, part := range parts {
				p.send(part)
				if sent += len(part); sent >= len(c1) && !shaken {
					shaken = true
					if _, err := io.ReadFull(p.r, make([]byte, 1+2*handshakeSize)); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.until(connected[2])
			if err := done(); err != io.ErrUnexpectedEOF && !isReset(err) {
				t.Error(err)
			}
		})
	}
}

// isReset reports whether err says that the peer closed the connection without reading all bytes.
func isReset(err error) bool { return err != nil && strings.Contains(err.Error(), "reset by peer") }

// The signed S1 and S2 differ from one connection to the next.
func TestHandshakeIsRandom(t *testing.T) {
	c1, _ := sign(flashC1(1), 8, flashPlayerKey)
	in := "\x03" + c1 + strings.Repeat("2", handshakeSize)
	a, b := talkRaw(t, in, grant), talkRaw(t, in, grant)
	if a.s1[8:] == b.s1[8:] || a.s2 == b.s2 {
		t.Error("two connections have the same bytes")
	}
}
