package rtmp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// object is an AMF0 object, in order.
type object []field

type field struct {
	name  string
	value any
}

func (o object) get(name string) any {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// AMF0 type bytes.
const (
	amfNumber    = 0
	amfBool      = 1
	amfString    = 2
	amfObject    = 3
	amfNull      = 5
	amfUndefined = 6
	amfECMAArray = 8
	amfObjectEnd = 9
	amfStrict    = 10
)

// appendAMF encodes float64, bool, string, object and nil.
func appendAMF(p []byte, values ...any) []byte {
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			p = append(p, amfNull)
		case float64:
			p = append(p, amfNumber)
			p = binary.BigEndian.AppendUint64(p, math.Float64bits(v))
		case bool:
			p = append(p, amfBool, 0)
			if v {
				p[len(p)-1] = 1
			}
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

var errAMF = errors.New("rtmp: broken AMF0")

// maxDepth bounds objects within objects.
const maxDepth = 8

// decodeAMF decodes all values in p.
func decodeAMF(p []byte) (values []any, err error) {
	for len(p) > 0 {
		var v any
		if v, p, err = decodeValue(p, 0); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func decodeValue(p []byte, depth int) (v any, rest []byte, err error) {
	if len(p) == 0 || depth > maxDepth {
		return nil, nil, errAMF
	}
	kind, p := p[0], p[1:]
	switch kind {
	case amfNumber:
		if len(p) < 8 {
			return nil, nil, errAMF
		}
		return math.Float64frombits(binary.BigEndian.Uint64(p)), p[8:], nil
	case amfBool:
		if len(p) < 1 {
			return nil, nil, errAMF
		}
		return p[0] != 0, p[1:], nil
	case amfString:
		return decodeName(p)
	case amfNull, amfUndefined:
		return nil, p, nil
	case amfECMAArray:
		if len(p) < 4 {
			return nil, nil, errAMF
		}
		return decodeObject(p[4:], depth)
	case amfObject:
		return decodeObject(p, depth)
	case amfStrict:
		return decodeStrict(p, depth)
	}
	return nil, nil, fmt.Errorf("rtmp: AMF0 type %d", kind)
}

func decodeStrict(p []byte, depth int) (v any, rest []byte, err error) {
	if len(p) < 4 {
		return nil, nil, errAMF
	}
	n := binary.BigEndian.Uint32(p)
	p = p[4:]
	var values []any
	for range n {
		if v, p, err = decodeValue(p, depth+1); err != nil {
			return nil, nil, err
		}
		values = append(values, v)
	}
	return values, p, nil
}

func decodeName(p []byte) (v any, rest []byte, err error) {
	if len(p) < 2 || len(p) < 2+int(binary.BigEndian.Uint16(p)) {
		return nil, nil, errAMF
	}
	n := int(binary.BigEndian.Uint16(p))
	return string(p[2 : 2+n]), p[2+n:], nil
}

func decodeObject(p []byte, depth int) (v any, rest []byte, err error) {
	o := object{}
	for {
		name, rest, err := decodeName(p)
		if err != nil {
			return nil, nil, err
		}
		if name == "" && len(rest) > 0 && rest[0] == amfObjectEnd {
			return o, rest[1:], nil
		}
		value, rest, err := decodeValue(rest, depth+1)
		if err != nil {
			return nil, nil, err
		}
		o, p = append(o, field{name.(string), value}), rest
	}
}
