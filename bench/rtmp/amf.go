package rtmp

import (
	"encoding/binary"
	"fmt"
	"math"
)

// An object is an AMF0 object, with its fields in order.
type object []field

type field struct {
	name  string
	value any
}

const (
	amfNumber    = 0
	amfString    = 2
	amfObject    = 3
	amfNull      = 5
	amfObjectEnd = 9
)

// appendAMF appends values in AMF0. Each value is a float64, a string, an object or nil.
func appendAMF(p []byte, values ...any) []byte {
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			p = append(p, amfNull)
		case float64:
			p = append(p, amfNumber)
			p = binary.BigEndian.AppendUint64(p, math.Float64bits(v))
		case string:
			p = append(p, amfString)
			p = appendName(p, v)
		case object:
			p = append(p, amfObject)
			for _, f := range v {
				p = appendName(p, f.name)
				p = appendAMF(p, f.value)
			}
			p = append(p, 0, 0, amfObjectEnd)
		default:
			panic(fmt.Sprintf("rtmp: no AMF0 for %T", v))
		}
	}
	return p
}

func appendName(p []byte, s string) []byte {
	p = binary.BigEndian.AppendUint16(p, uint16(len(s)))
	return append(p, s...)
}
