package millrace_test

import (
	"crypto/tls"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/millrace-io/millrace"
)

// BenchmarkWriteToOthers writes 64 KiB in so many pieces to writers that are no sockets: with short pieces joined, and with a
// Write each, which is what a writer with a WriteByte gets. That pays for the first three, and costs a checksum, whose Write
// is a call and no more, a copy.
func BenchmarkWriteToOthers(b *testing.B) {
	const size = 64 << 10
	for _, to := range []struct {
		name string
		open func(b *testing.B) io.Writer
	}{
		{"TLS", tlsTo},
		{"a wrapped TCP connection", func(b *testing.B) io.Writer {
			client, server := tcpPair(b)
			go io.Copy(io.Discard, server)
			return struct{ net.Conn }{client}
		}},
		{"a file", func(b *testing.B) io.Writer {
			f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { f.Close() })
			return f
		}},
		{"CRC-32", func(*testing.B) io.Writer { return crc32.NewIEEE() }},
	} {
		for _, pieces := range []int{4, 16, 64, 256} {
			for _, way := range []string{"joined", "a Write each"} {
				b.Run(fmt.Sprintf("%s/%d pieces/%s", to.name, pieces, way), func(b *testing.B) {
					var whole, c millrace.Chain
					defer whole.Release()
					addBlocks(millrace.DefaultPool, &whole, letters(size), size/pieces)
					w := to.open(b)
					write := writes[way]
					measure(b, size, func() {
						whole.Clone(&c)
						if _, err := write(&c, w); err != nil {
							b.Fatal(err)
						}
					})
				})
			}
		}
	}
}

// tlsTo returns a TLS connection to somebody who reads all and keeps nothing.
func tlsTo(b *testing.B) io.Writer {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	config := s.TLS.Clone()
	s.Close()
	config.NextProtos = nil
	client, server := tcpPair(b)
	go io.Copy(io.Discard, tls.Server(server, config))
	conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		b.Fatal(err)
	}
	return conn
}
