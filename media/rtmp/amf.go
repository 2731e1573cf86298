package rtmp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// AMF0 values have the Go types bool, float64, string, [Object], and []any for a strict array. The
// AMF0 null is nil. ParseAMF returns an ECMA array or a typed object as an Object, a date as a
// float64, and XML as a string. It returns nil for undefined, references and unsupported values.

// An Object is a list of named values, in order.
type Object []Property

// A Property is one value of an Object.
type Property struct {
	Name  string
	Value any
}

// Get returns the first value with the given name, or nil.
func (o Object) Get(name string) any {
	for _, p := range o {
		if p.Name == name {
			return p.Value
		}
	}
	return nil
}

func (o Object) text(name string) string {
	s, _ := o.Get(name).(string)
	return s
}

const (
	amfNumber      = 0
	amfBoolean     = 1
	amfString      = 2
	amfObject      = 3
	amfNull        = 5
	amfUndefined   = 6
	amfReference   = 7
	amfECMAArray   = 8
	amfEnd         = 9 // ends an object, after an empty name
	amfStrictArray = 10
	amfDate        = 11
	amfLongString  = 12
	amfUnsupported = 13
	amfXML         = 15
	amfTypedObject = 16
)

const (
	// maxAMFDepth limits the depth of nested objects. A command needs one level, and metadata
	// rarely needs three.
	maxAMFDepth = 16
	// maxAMFValues limits the number of values of one message. A connect message has a dozen
	// values, and the metadata of many tracks have a hundred.
	maxAMFValues = 1 << 10
)

var errAMF = errors.New("rtmp: AMF0 ends early, or has a marker that is not known")

// AppendAMF appends the encoding of values to b. It panics if a value is not nil, bool, int,
// float64, string, Object or []any, or if a name is longer than 65535 bytes.
func AppendAMF(b []byte, values ...any) []byte {
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			b = append(b, amfNull)
		case bool:
			b = append(b, amfBoolean, 0)
			if v {
				b[len(b)-1] = 1
			}
		case int:
			b = AppendAMF(b, float64(v))
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, amfNumber), math.Float64bits(v))
		case string:
			if len(v) > math.MaxUint16 {
				b = binary.BigEndian.AppendUint32(append(b, amfLongString), uint32(len(v)))
				b = append(b, v...)
				break
			}
			b = appendName(append(b, amfString), v)
		case Object:
			b = append(b, amfObject)
			for _, p := range v {
				b = AppendAMF(appendName(b, p.Name), p.Value)
			}
			b = append(b, 0, 0, amfEnd)
		case []any:
			b = binary.BigEndian.AppendUint32(append(b, amfStrictArray), uint32(len(v)))
			b = AppendAMF(b, v...)
		default:
			panic(fmt.Sprintf("rtmp: AppendAMF of a %T", v))
		}
	}
	return b
}

func appendName(b []byte, name string) []byte {
	if len(name) > math.MaxUint16 {
		panic(fmt.Sprintf("rtmp: AppendAMF of a name of %d bytes", len(name)))
	}
	return append(binary.BigEndian.AppendUint16(b, uint16(len(name))), name...)
}

// ParseAMF parses the AMF values in p and returns them. The values do not refer to the memory of p.
// If ParseAMF returns an error, it also returns the values before the error, because some clients
// send commands with damaged last arguments. If objects are nested more than 16 deep, or if there
// are more than 1024 values, the error is a *LimitError.
func ParseAMF(p []byte) ([]any, error) {
	var list []any
	parser := amfParser{rest: p}
	for len(parser.rest) > 0 {
		v, err := parser.value(0)
		if err != nil {
			return list, err
		}
		list = append(list, v)
	}
	return list, nil
}

type amfParser struct {
	rest  []byte
	count int // number of values parsed
}

// take consumes the next n bytes. It returns nil if fewer remain.
func (a *amfParser) take(n int) []byte {
	if n < 0 || n > len(a.rest) {
		return nil
	}
	p := a.rest[:n:n]
	a.rest = a.rest[n:]
	return p
}

// number parses the next n bytes as a big-endian number.
func (a *amfParser) number(n int) (v uint64, ok bool) {
	p := a.take(n)
	for _, b := range p {
		v = v<<8 | uint64(b)
	}
	return v, p != nil
}

// text parses the next string, which has a length prefix of n bytes.
func (a *amfParser) text(n int) (string, error) {
	size, ok := a.number(n)
	if !ok || size > uint64(len(a.rest)) {
		return "", errAMF
	}
	return string(a.take(int(size))), nil
}

// value parses the next AMF value. depth is the number of objects and arrays that contain the
// value.
func (a *amfParser) value(depth int) (any, error) {
	if a.count++; a.count > maxAMFValues {
		return nil, &LimitError{What: "AMF values of one message", Have: int64(a.count),
			Limit: maxAMFValues}
	}
	if depth > maxAMFDepth {
		return nil, &LimitError{What: "depth of AMF objects", Have: int64(depth),
			Limit: maxAMFDepth}
	}
	marker := a.take(1)
	if marker == nil {
		return nil, errAMF
	}
	switch marker[0] {
	case amfNumber:
		v, ok := a.number(8)
		return math.Float64frombits(v), errUnless(ok)
	case amfBoolean:
		v, ok := a.number(1)
		return v != 0, errUnless(ok)
	case amfString:
		return a.text(2)
	case amfLongString, amfXML:
		return a.text(4)
	case amfNull, amfUndefined, amfUnsupported:
		return nil, nil
	case amfReference:
		_, ok := a.number(2)
		return nil, errUnless(ok)
	case amfDate: // followed by a time zone of two bytes
		v, _ := a.number(8)
		_, ok := a.number(2)
		return math.Float64frombits(v), errUnless(ok)
	case amfTypedObject:
		if _, err := a.text(2); err != nil {
			return nil, err
		}
		return a.object(depth)
	case amfECMAArray: // ignore the stated number of elements, which is often wrong
		if _, ok := a.number(4); !ok {
			return nil, errAMF
		}
		return a.object(depth)
	case amfObject:
		return a.object(depth)
	case amfStrictArray:
		return a.array(depth)
	}
	return nil, errAMF
}

func errUnless(ok bool) error {
	if ok {
		return nil
	}
	return errAMF
}

func (a *amfParser) object(depth int) (any, error) {
	var o Object
	for len(a.rest) > 0 { // some clients omit the end of the last object in a message
		if len(a.rest) >= 3 && a.rest[0] == 0 && a.rest[1] == 0 && a.rest[2] == amfEnd {
			a.take(3)
			return o, nil
		}
		name, err := a.text(2)
		if err != nil {
			return nil, err
		}
		v, err := a.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o = append(o, Property{name, v})
	}
	return o, nil
}

// array parses the elements of a strict array. The stated number of elements may be wrong, so array
// does not allocate memory for all elements in advance.
func (a *amfParser) array(depth int) (any, error) {
	n, ok := a.number(4)
	if !ok {
		return nil, errAMF
	}
	list := []any{}
	for range n {
		v, err := a.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
