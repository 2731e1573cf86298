package rtmp

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A handshake has three messages in each direction. C0 and S0 consist of one byte, the version. C1
// and S1 have 1536 bytes, most of them random. C2 and S2 repeat the peer's message. A client that
// behaves like Flash puts a digest into C1, and expects digests in S1 and S2.
const (
	handshakeSize = 1536
	digestSize    = sha256.Size
	rtmpVersion   = 3
	rtmpeVersions = "\x06\x08" // versions of encrypted RTMP
)

// The keys that Flash programs use for the digests in the handshake. The keys are publicly known. A
// full key is playerSecret or serverSecret, followed by secretTail. Some digests use only the first
// part of a key.
var (
	secretTail = []byte("\xf0\xee\xc2\x4a\x80\x68\xbe\xe8\x2e\x00\xd0\xd1\x02\x9e\x7e\x57" +
		"\x6e\xec\x5d\x2d\x29\x80\x6f\xab\x93\xb8\xe6\x36\xcf\xeb\x31\xae")
	playerSecret = []byte("Genuine Adobe Flash Player 001")
	serverSecret = []byte("Genuine Adobe Flash Media Server 001")
)

// answerHandshake reads C0 and C1, and returns S0, S1 and S2.
func answerHandshake(r io.Reader) ([]byte, error) {
	c := make([]byte, 1+handshakeSize)
	if _, err := io.ReadFull(r, c[:1]); err != nil {
		return nil, err
	}
	if err := checkVersion(c[0]); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(r, c[1:]); err != nil {
		return nil, noEOF(err)
	}
	c1 := c[1:]
	s := make([]byte, 1+2*handshakeSize)
	s[0] = rtmpVersion
	s1, s2 := s[1:1+handshakeSize], s[1+handshakeSize:]
	_, _ = rand.Read(s1[8:]) // rand.Read never fails
	place, ok := findDigest(c1)
	if !ok {
		copy(s2, c1)
		return s, nil
	}
	copy(s1[4:], "\x04\x05\x00\x01") // a Flash version that has digests
	putDigest(s1, digestAt(s1, place.base))
	key := hmacOf(slices.Concat(serverSecret, secretTail), c1[place.digest:place.digest+digestSize])
	last := handshakeSize - digestSize
	_, _ = rand.Read(s2[:last])
	copy(s2[last:], hmacOf(key, s2[:last]))
	return s, nil
}

// checkVersion returns an error if the client's first byte is not the RTMP version.
func checkVersion(v byte) error {
	switch {
	case v == rtmpVersion:
		return nil
	case bytes.IndexByte([]byte(rtmpeVersions), v) >= 0:
		return fmt.Errorf(
			"rtmp: the client wants RTMPE (version %d), which is not here: use rtmp or rtmps", v)
	case v == 0x16:
		return errors.New(
			"rtmp: the client speaks TLS, and this address does not: use rtmp instead of rtmps")
	case v >= 'A' && v <= 'Z':
		return errors.New("rtmp: the client speaks HTTP, and this address speaks RTMP")
	}
	return fmt.Errorf("rtmp: version %d, want %d", v, rtmpVersion)
}

// A digestPlace is the position of the digest in C1 or S1.
type digestPlace struct {
	base   int // offset of the four bytes from which digest is computed; clients use 8 or 772
	digest int
}

func digestAt(p []byte, base int) digestPlace {
	sum := int(p[base]) + int(p[base+1]) + int(p[base+2]) + int(p[base+3])
	const room = 728 // number of possible offsets
	return digestPlace{base, base + 4 + sum%room}
}

func findDigest(c1 []byte) (digestPlace, bool) {
	if bytes.Equal(c1[4:8], make([]byte, 4)) { // no Flash version, so there is no digest
		return digestPlace{}, false
	}
	for _, base := range []int{8, 772} {
		place := digestAt(c1, base)
		digest := c1[place.digest : place.digest+digestSize]
		if hmac.Equal(digest, digestOf(c1, place, playerSecret)) {
			return place, true
		}
	}
	return digestPlace{}, false
}

func putDigest(s1 []byte, place digestPlace) {
	copy(s1[place.digest:], digestOf(s1, place, serverSecret))
}

// digestOf computes the digest of C1 or S1, without the bytes of the digest itself.
func digestOf(p []byte, place digestPlace, key []byte) []byte {
	return hmacOf(key, p[:place.digest], p[place.digest+digestSize:])
}

func hmacOf(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
