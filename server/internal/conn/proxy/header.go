package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/pires/go-proxyproto"
)

const (
	maxV1 = 107 // maximum length of a version 1 header in bytes, from the specification
	minV2 = 16  // length of a version 2 header up to the end of its length field

	// maxV2 is the maximum length of a version 2 PROXY header in bytes. The addresses in a header
	// take at most 216 bytes, and its other fields a few hundred.
	maxV2 = 4 << 10
)

func init() {
	// nginx sends "TCP6" with an IPv4 address if its side of the connection is IPv6.
	proxyproto.V1AcceptIPv4InTCP6 = true
}

// headerLen returns the length of the PROXY header at the start of p, or 0 if p does not start with
// a header. If p is too short to tell, incomplete is true.
func headerLen(p []byte) (n int, incomplete bool, err error) {
	v1, v2 := []byte("PROXY "), proxyproto.SIGV2
	switch {
	case bytes.HasPrefix(v1, p), bytes.HasPrefix(v2, p):
		return 0, true, nil
	case bytes.HasPrefix(p, v1):
		if end := bytes.IndexByte(p[:min(len(p), maxV1)], '\n'); end >= 0 {
			return end + 1, false, nil
		}
		if len(p) >= maxV1 {
			return 0, false, badHeader(proxyproto.ErrVersion1HeaderTooLong)
		}
		return 0, true, nil
	case bytes.HasPrefix(p, v2):
		if len(p) < minV2 {
			return 0, true, nil
		}
		if n = minV2 + int(binary.BigEndian.Uint16(p[14:])); n > maxV2 {
			return 0, false, badHeader(fmt.Errorf("it has %d bytes, want at most %d", n, maxV2))
		}
		return n, false, nil
	}
	return 0, false, nil
}

// parseHeader parses a complete PROXY header and returns the client's address. If the header
// contains no client address, parseHeader returns nil. For example, a proxy sends such a header
// when it opens a connection for a health check.
func parseHeader(p []byte) (net.Addr, error) {
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(p), len(p)))
	if err != nil {
		return nil, badHeader(err)
	}
	if source, _, ok := h.TCPAddrs(); ok && h.Command.IsProxy() {
		return &net.TCPAddr{IP: source.IP, Port: source.Port}, nil
	}
	return nil, nil
}
