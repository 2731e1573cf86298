package millrace_test

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/millrace-io/millrace"
)

// BenchmarkFanOut shares a packet of 1 KiB, or a batch of 64, with ten others on the same goroutine, who each release
// it. SetBytes is what was shared, once.
func BenchmarkFanOut(b *testing.B) {
	for _, packets := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d packets/Chain.Clone", packets), func(b *testing.B) { benchmarkFanOut(b, packets) })
		b.Run(fmt.Sprintf("%d packets/a copy each", packets), func(b *testing.B) {
			p := letters(packets << 10)
			var others [10][]byte
			measure(b, len(p), func() {
				for i := range others {
					others[i] = append([]byte(nil), p...)
				}
				touch(others[9])
			})
		})
	}
}

func benchmarkFanOut(b *testing.B, packets int) {
	r := millrace.NewReader(newBurst())
	defer r.Release()
	var others [10]millrace.Chain
	measure(b, packets<<10, func() {
		var batch millrace.Chain
		for range packets {
			var c millrace.Chain
			r.ReadChain(&c, 1<<10)
			batch.Merge(&c)
		}
		for i := range others {
			batch.Clone(&others[i])
		}
		batch.Release()
		for i := range others {
			others[i].Release()
		}
	})
}

// BenchmarkRefClone is one share taken and given back: on its own counter, and with all processors on one.
func BenchmarkRefClone(b *testing.B) {
	ref := freeze(millrace.DefaultPool, letters(1<<10))
	defer ref.Release()
	b.Run("one goroutine", func(b *testing.B) {
		measure(b, 1<<10, func() {
			s := ref.Clone()
			s.Release()
		})
	})
	b.Run("all processors", func(b *testing.B) {
		owners := make(chan millrace.Ref, 1024)
		for range cap(owners) {
			owners <- ref.Clone()
		}
		b.RunParallel(func(pb *testing.PB) {
			own := <-owners
			for pb.Next() {
				s := own.Clone()
				s.Release()
			}
			owners <- own
		})
		for range cap(owners) {
			own := <-owners
			own.Release()
		}
	})
}

// BenchmarkAppendCopy builds a header of four small pieces.
func BenchmarkAppendCopy(b *testing.B) {
	piece := []byte("a part of it")
	b.Run("append", func(b *testing.B) {
		measure(b, 4*len(piece), func() {
			var p []byte
			for range 4 {
				p = append(p, piece...)
			}
			touch(p)
		})
	})
	b.Run("AppendCopy", func(b *testing.B) {
		var c millrace.Chain
		measure(b, 4*len(piece), func() {
			for range 4 {
				c.AppendCopy(piece)
			}
			c.Release()
		})
	})
}

// BenchmarkWriteTo sends 64 KiB over TCP on loopback in so many pieces: in one writev, in a Write each, and copied
// together first.
func BenchmarkWriteTo(b *testing.B) {
	const size = 64 << 10
	for _, pieces := range []int{1, 4, 64} {
		var whole, c millrace.Chain // c keeps its room for pieces, as a connection's send queue does
		addBlocks(millrace.DefaultPool, &whole, letters(size), size/pieces)
		for _, way := range []struct {
			name  string
			write func(conn *net.TCPConn) error
		}{
			{"WriteTo", func(conn *net.TCPConn) error {
				whole.Clone(&c)
				_, err := c.WriteTo(conn)
				return err
			}},
			{"a Write each", func(conn *net.TCPConn) error {
				for p := range whole.All() {
					if _, err := conn.Write(p); err != nil {
						return err
					}
				}
				return nil
			}},
			{"one copy and one Write", func(conn *net.TCPConn) error {
				whole.Clone(&c)
				_, err := conn.Write(c.Bytes())
				c.Release()
				return err
			}},
		} {
			b.Run(fmt.Sprintf("%d pieces/%s", pieces, way.name), func(b *testing.B) {
				client, server := tcpPair(b)
				go io.Copy(io.Discard, server)
				measure(b, size, func() {
					if err := way.write(client); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
		whole.Release()
	}
}
