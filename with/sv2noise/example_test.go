package sv2noise_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
	"github.com/millrace-io/millrace/with/sv2noise"
)

// A miner knows the public key of the pool's authority. The pool's servers know only their static
// keys and a certificate.
func Example() {
	authority, static := sv2noise.GenerateKey(), sv2noise.GenerateKey()
	now := time.Now()
	certificate, err := sv2noise.Sign(authority, static.Public(), now, now.Add(24*time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	responder := sv2noise.NewResponder(static, certificate) // for all connections

	pool, miner := net.Pipe()
	go func() {
		defer pool.Close()
		r := millrace.NewReader(pool)
		defer r.Release()
		_ = pool.SetDeadline(time.Now().Add(10 * time.Second)) // for the handshake
		sealer, _, err := responder.Respond(r, pool, frame.MaxPayload(64<<10))
		if err != nil {
			return
		}
		_ = pool.SetDeadline(time.Time{})
		s, err := sealer.Seal(new(arena.Heap), sv2.Header{MessageType: 0x01},
			func(buf arena.Buffer) error {
				_, err := io.WriteString(buf, "welcome")
				return err
			})
		if err == nil {
			_, _ = pool.Write(s.Bytes())
		}
	}()

	defer miner.Close()
	r := millrace.NewReader(miner)
	defer r.Release()
	_, opener, err := sv2noise.Initiate(r, miner, sv2noise.SignedBy(authority.Public()))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, h, err := opener.NextInto(new(arena.Heap))
	fmt.Printf("type %#02x: %s, %v\n", h.MessageType, s.Bytes()[sv2.HeaderSize:], err)
	// Output: type 0x01: welcome, <nil>
}

// The authority signs on another machine. The 74 bytes of the certificate, and the 32 bytes of
// keys, can be stored in files.
func ExampleSign() {
	secret, _ := hex.DecodeString(strings.Repeat("07", 32))
	authority, err := sv2noise.NewPrivateKey(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	static := sv2noise.GenerateKey()
	start := time.Unix(1_700_000_000, 0)
	c, err := sv2noise.Sign(authority, static.Public(), start, start.Add(time.Hour))
	fmt.Println(len(c), len(static.Bytes()), err)
	fmt.Println(c.NotValidAfter().Sub(c.ValidFrom()))
	fmt.Println(c.Verify(authority.Public(), static.Public(), start.Add(2*time.Hour)))
	// Output:
	// 74 32 <nil>
	// 1h0m0s
	// sv2noise: certificate: not valid at this time, 2023-11-15 00:13:20 +0000 UTC; it is valid from 2023-11-14 22:13:20 +0000 UTC until 2023-11-14 23:13:20 +0000 UTC
}

// The key of the authority is in the URL that a pool publishes.
func ExampleParsePublicKey() {
	u, err := url.Parse(
		"stratum2+tcp://thepool.com:34254/9bXiEd8boQVhq7WddEcERUL5tyyJVFYdU8th3HfbNXK3Yw6GRXh")
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := sv2noise.ParsePublicKey(strings.TrimPrefix(u.Path, "/"))
	fmt.Printf("%x\n%v, %v\n", key[:], key, err)
	// Output:
	// 76637000979c1c11af0c300bcd8c7fe48610fce9b9c11e3daee35ae0b08a7455
	// 9bXiEd8boQVhq7WddEcERUL5tyyJVFYdU8th3HfbNXK3Yw6GRXh, <nil>
}

// A miner accepts two authorities, and has a clock of its own. Each of the errors means that this
// is not the right pool, or that the clock is wrong.
func ExampleInitiate() {
	old, current := sv2noise.GenerateKey().Public(), sv2noise.GenerateKey().Public()
	clock := func() time.Time { return time.Unix(1_700_000_000, 0) }
	verify := func(static sv2noise.PublicKey, c sv2noise.Certificate) error {
		if c.Verify(old, static, clock()) == nil {
			return nil
		}
		return c.Verify(current, static, clock())
	}

	pool, miner := net.Pipe()
	defer miner.Close()
	go func() {
		defer pool.Close()
		r := millrace.NewReader(pool)
		defer r.Release()
		key := sv2noise.GenerateKey() // an impostor signs its own certificate
		c, _ := sv2noise.Sign(key, key.Public(), clock(), clock().Add(time.Hour))
		_, _, _ = sv2noise.NewResponder(key, c).Respond(r, pool)
	}()
	r := millrace.NewReader(miner)
	defer r.Release()
	_, _, err := sv2noise.Initiate(r, miner, verify)
	var e *sv2noise.CertificateError
	switch {
	case errors.As(err, &e) && e.Err == sv2noise.ErrSignature:
		fmt.Println("another authority")
	case errors.Is(err, sv2noise.ErrTime):
		fmt.Println("expired, or the clock is wrong")
	case errors.Is(err, sv2noise.ErrVersion):
		fmt.Println("a certificate of a later format")
	case err == sv2noise.ErrTag:
		fmt.Println("the acts were changed")
	}
	// Output: another authority
}
