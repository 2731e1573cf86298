package frame

import (
	"fmt"
	"time"
)

// DefaultMaxPayload is the largest payload that a Decoder takes unless MaxPayload or MaxKind says otherwise: 1 MiB.
// That is more than nearly all messages that are not bulk data ever have, and a sixteenth of what a 24-bit length can
// announce. A thousand peers that each send the largest payload at the same time fill 1 GiB and no more.
const DefaultMaxPayload = 1 << 20

// mostPayload is the largest limit: 1 GiB. What is longer is a stream, to be read with the Reader; and the sum of a payload
// and its header is an int everywhere.
const mostPayload = 1 << 30

// Option changes how a Decoder reads. Options panic when a value is out of range.
type Option func(*Decoder)

// MaxPayload sets the largest payload that is taken, in bytes, for kinds that MaxKind does not name. The default is
// DefaultMaxPayload, 1 MiB.
func MaxPayload(n int) Option {
	checkLimit("MaxPayload", n)
	return func(d *Decoder) { d.maxPayload = n }
}

// MaxKind sets the largest payload that is taken in frames of one kind, in bytes. It may be above MaxPayload.
func MaxKind(kind uint32, n int) Option {
	checkLimit("MaxKind", n)
	return func(d *Decoder) {
		if d.maxKind == nil {
			d.maxKind = make(map[uint32]int)
		}
		d.maxKind[kind] = n
	}
}

func checkLimit(option string, n int) {
	if n < 0 || n > mostPayload {
		panic(fmt.Sprintf("frame: %s(%d): a limit is from 0 to %d bytes", option, n, mostPayload))
	}
}

// Deadlines ends the stream with a *TimeoutError when a header that has begun, or a payload, is not complete within the
// given time. 0 sets no limit. The time runs on when an error of the source comes in between.
//
// conn is the connection that the Reader reads from. Its read deadline is the Decoder's while it waits for the rest of a
// header or of a payload, and is taken away afterwards. Between frames it is the caller's: to end an idle connection, set
// it before each call of Next.
func Deadlines(conn interface{ SetReadDeadline(time.Time) error }, header, payload time.Duration) Option {
	if conn == nil {
		panic("frame: Deadlines without a connection")
	}
	if header < 0 || payload < 0 {
		panic(fmt.Sprintf("frame: Deadlines(%v, %v): a time is not negative", header, payload))
	}
	return func(d *Decoder) {
		d.patience = patience{conn: conn, limits: [...]time.Duration{InHeader: header, InPayload: payload}}
	}
}
