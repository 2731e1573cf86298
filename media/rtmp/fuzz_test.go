package rtmp_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
	"github.com/millrace-io/millrace/media/rtmp"
)

// FuzzDecoder compares with the reference, in random portions. decodeAll fails on a leak.
func FuzzDecoder(f *testing.F) {
	f.Add(recorded(), uint64(1))
	for seed := range uint64(5) {
		session, _ := randomSession(rand.New(rand.NewPCG(seed, 3)), 10, 300)
		f.Add(session, seed)
	}
	f.Add([]byte(control(1, 0)), uint64(0))
	f.Add([]byte(control(1, 1<<31)), uint64(0))
	f.Add([]byte("\xc3"), uint64(0))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		const maxMessage = 1 << 12
		want, wantErr := slowDecode(in, maxMessage)
		rnd := rand.New(rand.NewPCG(seed, 0))
		got, err := decodeAll(t, &sourcetest.Unsteady{Rest: string(in), Rand: rnd}, 18<<rnd.IntN(9),
			maxMessage)
		sameResult(t, got, err, want, wantErr)
	})
}

// FuzzParseAMF checks that parsed values can be written and parsed again.
func FuzzParseAMF(f *testing.F) {
	f.Add(rtmp.AppendAMF(nil, "connect", 1, rtmp.Object{{"app", "live"},
		{"list", values{true, nil}}}))
	f.Add([]byte(
		"\x08\xff\xff\xff\xff\x00\x01a\x05\x00\x00\x09\x0b12345678xy\x0f\x00\x00\x00\x02<>"))
	f.Add([]byte("\x10\x00\x03cls\x00\x01a\x06\x00\x00\x09\x0d\x07\x00\x01\x0c\x00\x00\x00\x01x"))
	f.Add([]byte("\x0a\xff\xff\xff\xff\x0a\x00\x00\x00\x01\x03"))
	f.Fuzz(func(t *testing.T, in []byte) {
		list, _ := rtmp.ParseAMF(in)
		again := rtmp.AppendAMF(nil, list...)
		same, err := rtmp.ParseAMF(again)
		if err != nil || !bytes.Equal(rtmp.AppendAMF(nil, same...), again) {
			t.Errorf("%v became %v, %v, want it unchanged", list, same, err)
		}
	})
}

// FuzzServerConn sends arbitrary bytes to a ServerConn after a handshake.
func FuzzServerConn(f *testing.F) {
	const maxMessage = 1 << 14
	connect := command("connect", 1, rtmp.Object{{"app", "live"}, {"capsEx", 4.0}})
	publish := connect + command("createStream", 2, nil) + command("publish", 3, nil, "camera")
	f.Add([]byte(publish + rawMessage(9, 0, "picture") + command("deleteStream", 4, nil, 1)))
	f.Add([]byte(connect + command("createStream", 2, nil) + command("play", 3, nil,
		"camera") + command("pause", 4, nil, true, 0)))
	f.Add([]byte(
		control(5, 1) + "\x02\x00\x00\x00\x00\x00\x06\x04\x00\x00\x00\x00\x00\x06\x00\x00\x00\x01" + publish))
	f.Add([]byte(publish + string(rawHeader(0, 4, 0, maxMessage, 9, 1)) + strings.Repeat("x", 128)))
	f.Add(recorded())
	f.Fuzz(func(t *testing.T, in []byte) {
		pool := millrace.NewPool()
		def := millrace.DefaultPool()
		before := def.Stats().InUse
		r := pool.NewReader(strings.NewReader(plainHandshake+string(in)), 4096)
		sent := &counter{}
		c := rtmp.NewServerConn(r, sent, maxMessage)
		if _, err := c.Accept(); err == nil {
			_ = c.Start()
			for {
				var body millrace.Chain
				m, err := c.Next(&body)
				if body.Len() != m.Size && err == nil {
					t.Errorf("%d bytes of %+v", body.Len(), m)
				}
				body.Release()
				if err != nil {
					break
				}
				held := pool.Stats().InUse + def.Stats().InUse - before
				if held > 1<<20+int64(2*len(in)) {
					t.Errorf("%d bytes held after %d", held, len(in))
				}
			}
		}
		c.Release()
		r.Release()
		if n := pool.Stats().InUse + def.Stats().InUse - before; n != 0 {
			t.Errorf("%d bytes held after Release", n)
		}
		// The limit covers the answers to the smallest commands, and acknowledgements for a window
		// of one byte.
		if limit := 4096 + 40*len(in); sent.n > limit {
			t.Errorf("%d bytes of answers to %d", sent.n, len(in))
		}
	})
}

// counter is a connection whose peer reads everything.
type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}
